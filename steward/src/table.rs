#![forbid(unsafe_code)]

use vk_report::report::one_line;

/// Each row is a line; there is no newline at the end.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let line = |row: &Vec<String>| {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let (width, gap) = (width(column), if column == 0 { "" } else { "  " });
            line += &format!("{gap}{cell:<width$}");
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::aligned;

    #[test]
    fn cells_never_run_together() {
        let long = "vkGetPhysicalDeviceSurfaceSupportKHR";
        let rows = [["command", "of"], [long, long], ["\u{1b}[2J\n", "x"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let text = aligned(&rows);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], format!("{long}  {long}"));
        let second = long.len() + 2;
        assert_eq!([lines[0].find("of"), lines[2].find('x')], [Some(second); 2]);
    }
}
