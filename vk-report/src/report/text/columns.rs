#![forbid(unsafe_code)]

use std::fmt;

use crate::report::Column;

/// A name has `names` characters.
pub(super) fn write<T>(
    f: &mut fmt::Formatter<'_>,
    (head, names): (&str, usize),
    rows: &[(String, &T)],
    columns: &[Column<T>],
    width: usize,
) -> fmt::Result {
    let is_empty =
        |column: &Column<T>| rows.iter().all(|(_, row)| ["", "-"].contains(&&*(column.cell)(row).to_string()));
    let (shown, left_out) = fitting(columns, &is_empty, width.saturating_sub(names + 2));
    let mut line = format!("  {head:<names$}");
    for column in &shown {
        line += &format!("{:>w$}", column.title, w = column.width);
    }
    writeln!(f, "{}", line.trim_end())?;
    for (name, row) in rows {
        let mut line = format!("  {name:<names$}");
        for column in &shown {
            line += &format!(" {:>w$}", (column.cell)(row), w = column.width - 1);
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    if left_out.is_empty() {
        return Ok(());
    }
    writeln!(f, "  left out for want of columns: {}; --json has all", left_out.join(", "))
}

/// The second answer names the columns that do not fit. Columns that are empty in all rows are left out first, and not
/// named.
fn fitting<'c, T>(
    columns: &'c [Column<T>],
    is_empty: &dyn Fn(&Column<T>) -> bool,
    width: usize,
) -> (Vec<&'c Column<T>>, Vec<&'static str>) {
    let mut shown: Vec<(&Column<T>, bool)> = columns.iter().map(|column| (column, is_empty(column))).collect();
    let mut left_out = Vec::new();
    let sum = |shown: &[(&Column<T>, bool)]| -> usize { shown.iter().map(|(column, _)| column.width).sum() };
    while sum(&shown) > width {
        let last = shown
            .iter()
            .enumerate()
            .max_by_key(|(at, (column, empty))| (*empty, column.rank, *at))
            .map(|(at, (column, empty))| (at, column.rank, *empty));
        match last {
            Some((at, rank, empty)) if rank > 0 || empty => {
                let (column, empty) = shown.remove(at);
                if !empty {
                    left_out.push(column.title);
                }
            }
            _ => break,
        }
    }
    left_out.reverse();
    (shown.into_iter().map(|(column, _)| column).collect(), left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Cell;
    use crate::report::columns::column;

    const SIZES: [u64; 2] = [123_456_789, 1_234_567_890];

    struct TableOf<'s>(&'s [u64; 2]);

    impl fmt::Display for TableOf<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            table(f, self.0, usize::MAX)
        }
    }

    struct TableOfWidth(usize);

    impl fmt::Display for TableOfWidth {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            table(f, &[7, 8], self.0)
        }
    }

    fn table(f: &mut fmt::Formatter<'_>, sizes: &[u64; 2], width: usize) -> fmt::Result {
        let of = |title, rank, cell: fn(&u64) -> u64| column((title, 6, rank), move |one: &u64| Cell::Count(cell(one)));
        let columns = [
            of("none", 1, |_| 0),
            of("some", 2, |one| *one),
            of("more", 1, |one| one + 1),
            of("live", 0, |one| one * 2),
        ];
        let rows = [("a".to_owned(), &sizes[0]), ("bc".to_owned(), &sizes[1])];
        write(f, ("name", 5), &rows, &columns, width)
    }

    #[test]
    fn what_does_not_fit_goes_by_rank_and_is_named() {
        let whole =
            "  name   none  some  more  live\n  a         -     7     8    14\n  bc        -     8     9    16\n";
        assert_eq!(TableOfWidth(usize::MAX).to_string(), whole);
        assert_eq!(TableOfWidth(31).to_string(), whole);
        let table = TableOf(&SIZES).to_string();
        let words = table.lines().map(|line| line.split_whitespace().count());
        assert_eq!(words.collect::<Vec<_>>(), [5, 5, 5], "{table}");
        let without = "  name   some  more  live\n  a         7     8    14\n  bc        8     9    16\n";
        assert_eq!(TableOfWidth(30).to_string(), without);
        let narrow = TableOfWidth(24).to_string();
        assert!(narrow.starts_with("  name   more  live\n"), "{narrow}");
        assert!(narrow.ends_with("  left out for want of columns: some; --json has all\n"), "{narrow}");
        let least = TableOfWidth(1).to_string();
        assert!(least.starts_with("  name   live\n"), "{least}");
        assert!(least.contains("columns: more, some;"), "{least}");
    }
}
