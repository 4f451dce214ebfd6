//! Narrows tables that are wider than a terminal, by smaller gaps between columns.

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::ops::Range;

/// The remaining spaces between two columns.
const GAP: usize = 2;

/// `text` with narrower gaps in each table with a row longer than `width`. A table is between two empty lines; its rows have gaps, and other
/// lines between are unchanged.
pub(super) fn squeezed(text: &str, width: usize) -> String {
    let paragraphs: Vec<_> = text
        .split("\n\n")
        .map(|part| paragraph(part, width))
        .collect();
    paragraphs.join("\n\n")
}

fn paragraph(text: &str, width: usize) -> Cow<'_, str> {
    let rows: Vec<_> = text.lines().filter(|line| is_row(line)).collect();
    if rows.len() < 2 || rows.iter().all(|row| row.chars().count() <= width) {
        return text.into();
    }
    let gaps = gaps(&rows);
    let lines = text.split('\n').map(|line| match is_row(line) {
        true => without(line, &gaps),
        false => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n").into()
}

/// Whether the line has at least three columns.
fn is_row(line: &str) -> bool {
    let columns = line.trim().split("  ").filter(|part| !part.is_empty());
    columns.count() > 2
}

/// The columns of spaces to remove. Spaces before the first column are no gap.
fn gaps(rows: &[&str]) -> Vec<Range<usize>> {
    let longest = rows.iter().map(|row| row.chars().count()).max();
    let mut blank = vec![true; longest.unwrap_or(0)];
    for row in rows {
        for (place, character) in blank.iter_mut().zip(row.chars()) {
            *place &= character == ' ';
        }
    }
    let mut gaps = Vec::new();
    let begin = blank.iter().position(|blank| !blank);
    let mut from = begin.unwrap_or(0);
    while let Some(start) = next(&blank, from, true) {
        let end = next(&blank, start, false).unwrap_or(blank.len());
        if end - start > GAP {
            gaps.push(start + GAP..end);
        }
        from = end;
    }
    gaps
}

fn next(blank: &[bool], from: usize, wanted: bool) -> Option<usize> {
    let rest = blank.get(from..)?;
    let found = rest.iter().position(|blank| *blank == wanted)?;
    Some(from + found)
}

fn without(line: &str, gaps: &[Range<usize>]) -> String {
    let stays = |place: usize| !gaps.iter().any(|gap| gap.contains(&place));
    let places = line.chars().enumerate();
    places
        .filter_map(|(place, character)| stays(place).then_some(character))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::squeezed;

    #[test]
    fn the_columns_of_a_wide_table_stand_as_before_and_closer() {
        let text = "head

                    live      peak     all
one   of these is no row
  VkBuffer             1        22      34
  VkImage            333         4       5

end   of   it";
        let closer = "head

            live  peak  all
one   of these is no row
  VkBuffer     1    22   34
  VkImage    333     4    5

end   of   it";
        assert_eq!(squeezed(text, 30), closer);
        assert_eq!(squeezed(text, 42), text, "what fits stays");
        let row = "  one      2      3      4";
        assert_eq!(squeezed(row, 5), row, "a line alone is no table");
    }
}
