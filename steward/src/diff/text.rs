#![forbid(unsafe_code)]

use std::fmt;

use super::{Change, Diff, Part, Unit};
use vk_report::report::one_line;
use vk_report::units::{bytes, percent};

const NAME: usize = 48;
const MEASURE: usize = 16;

const UNLIKE_ROUNDS: &str = "the numbers of rounds differ: phases are those of the last round, \"a round\" is a mean, and what is also created outside of the rounds is a total";

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |side: &Option<String>| side.as_deref().map_or_else(|| "not in this file".to_owned(), one_line);
        writeln!(f, "before: {}", side(&self.before))?;
        writeln!(f, "after:  {}", side(&self.after))?;
        writeln!(f, "\n{}", one_line(&self.summary()))?;
        if self.unlike_rounds {
            writeln!(f, "{UNLIKE_ROUNDS}")?;
        }
        if self.by_time > 0 {
            writeln!(
                f,
                "not compared, as they depend on when the driver's own threads run: {} (--all compares them)",
                self.by_time
            )?;
        }
        if self.left_out > 0 {
            writeln!(f, "left out as asked: {}", self.left_out)?;
        }
        for part in Part::ALL {
            let changes: Vec<_> = self.changes.iter().filter(|change| change.part == part).collect();
            if changes.is_empty() {
                continue;
            }
            writeln!(
                f,
                "\n{:<w$}{:<MEASURE$}{:>10}{:>10}{:>11}",
                part.name(),
                "",
                "before",
                "after",
                "change",
                w = NAME + 3
            )?;
            changes.into_iter().try_for_each(|change| line(f, change))?;
        }
        Ok(())
    }
}

fn line(f: &mut fmt::Formatter<'_>, change: &Change) -> fmt::Result {
    let (name, measure) = (one_line(&change.name), &change.measure);
    if name.chars().count() > NAME {
        writeln!(f, "  {name}")?;
        write!(f, "  {:<NAME$} ", "")?;
    } else {
        write!(f, "  {name:<NAME$} ")?;
    }
    let [before, after] =
        [change.before, change.after].map(|side| side.map_or_else(|| "-".to_owned(), |one| shown(one, change.unit)));
    let by = signed(change);
    writeln!(f, "{measure:<MEASURE$} {before:>9} {after:>9} {by:>10}  {}", remark(change))
}

pub(super) fn signed(change: &Change) -> String {
    let by = change.by();
    let size = u64::try_from(by.unsigned_abs()).unwrap_or(u64::MAX);
    format!("{}{}", if by < 0 { '-' } else { '+' }, shown(size, change.unit))
}

pub(super) fn remark(change: &Change) -> String {
    match (change.before, change.after, change.share()) {
        (None, ..) => "new".to_owned(),
        (_, None, _) => "gone".to_owned(),
        (.., Some(share)) => format!("{}{}", if share < 0.0 { '-' } else { '+' }, percent(share.abs())),
        (.., None) => String::new(),
    }
}

fn shown(number: u64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => bytes(number),
        Unit::Count => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct ShownChange(Change);

    impl fmt::Display for ShownChange {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            line(f, &self.0)
        }
    }

    #[test]
    fn figures_never_run_together() {
        let change = Change {
            part: Part::Totals,
            name: "n".repeat(NAME),
            measure: "m".repeat(MEASURE),
            unit: Unit::Count,
            before: Some(1 << 40),
            after: Some(1 << 60),
        };
        let line = ShownChange(change).to_string();
        assert!(line.split_whitespace().count() >= 6, "{line}");
    }
}
