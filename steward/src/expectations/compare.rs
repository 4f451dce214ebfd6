#![forbid(unsafe_code)]

use std::fmt;

use super::by_place::ByPlace;
use super::file::{Expectations, Expected};
use vk_report::report::{FindingRow, Unjudged};

/// The findings of a run, expected or not.
#[derive(Clone, Debug, Default)]
pub struct Verdict<'a> {
    /// Findings as expected.
    pub expected: Vec<(&'a FindingRow, &'a Expected)>,
    /// Notes that are not expected: they are legal.
    pub notes: Vec<&'a FindingRow>,
    /// The differences. The check passed if there are none.
    pub differences: Vec<Difference<'a>>,
}

/// A difference.
#[derive(Clone, Copy, Debug)]
pub enum Difference<'a> {
    /// Seen, and not expected.
    New(&'a FindingRow),
    /// Expected, and not seen.
    Gone(&'a Expected),
    /// Seen, but not as often as expected.
    Count {
        /// The finding.
        seen: &'a FindingRow,
        /// The expectation.
        expected: &'a Expected,
        /// The expected number.
        times: u64,
    },
    /// Not everything was judged: there may be more findings.
    Unjudged(Unjudged),
}

/// Compares the findings of a run of `rounds` rounds. For a trace (`None`), missing findings and counts are no
/// differences: the trace may be of another program and number of rounds.
///
/// Notes are legal: an unexpected note is no difference, a missing expected one is. If not everything was judged, that
/// is the first difference.
#[must_use]
pub fn compare<'a>(
    expectations: &'a Expectations,
    (findings, unjudged): (&'a [FindingRow], Option<Unjudged>),
    rounds: Option<u32>,
) -> Verdict<'a> {
    let mut verdict =
        Verdict { differences: unjudged.map(Difference::Unjudged).into_iter().collect(), ..Verdict::default() };
    let by_place = ByPlace::new(&expectations.findings);
    for row in findings {
        let Some(expected) = by_place.find(row) else {
            if row.level == FindingRow::NOTE {
                verdict.notes.push(row);
            } else {
                verdict.differences.push(Difference::New(row));
            }
            continue;
        };
        match rounds.and_then(|rounds| expected.count(rounds)) {
            Some(times) if times != row.count => {
                verdict.differences.push(Difference::Count { seen: row, expected, times });
            }
            _ => verdict.expected.push((row, expected)),
        }
    }
    let seen = ByPlace::new(findings);
    let is_due = |expected: &&Expected| rounds.is_some_and(|rounds| expected.is_due(rounds));
    let gone = expectations.findings.iter().filter(is_due).filter(|expected| seen.find(*expected).is_none());
    verdict.differences.extend(gone.map(Difference::Gone));
    verdict
}

impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New(row) => {
                write!(f, "not expected: {}: {}", Expected::of(row), row.sentence)
            }
            Self::Unjudged(unjudged) => unjudged.fmt(f),
            Self::Gone(expected) => {
                write!(f, "expected, and gone: {expected}")?;
                if expected.cause.is_empty() { Ok(()) } else { write!(f, " (known as: {})", expected.cause) }
            }
            Self::Count { seen, expected, times } => {
                write!(f, "expected {times} times, and seen {}: {expected}: {}", seen.count, seen.sentence)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rule: &str, level: &str, count: u64) -> FindingRow {
        FindingRow { rule: rule.into(), kind: "K".into(), level: level.into(), count, ..FindingRow::default() }
    }

    #[test]
    fn every_kind_of_difference_is_found() {
        let entries = ["V1", "V2", "V3", "V9"]
            .map(|rule| format!("[[finding]]\nrule = \"{rule}\"\nkind = \"K\"\ncause = \"x\"\nper_round = 2\n"));
        let known = Expectations::parse(&format!("driver = \"d\"\n{}", entries.concat())).expect("right");
        let seen = [
            row("V1", FindingRow::VIOLATION, 4),
            row("V2", FindingRow::SUSPECT, 5),
            row("V4", FindingRow::SUSPECT, 1),
            row("V5", FindingRow::NOTE, 1),
            row("V9", FindingRow::NOTE, 4),
        ];
        let verdict = compare(&known, (&seen, None), Some(2));
        let said: Vec<_> = verdict
            .differences
            .iter()
            .map(|difference| difference.to_string().split(": ").take(2).collect::<Vec<_>>().join(": "))
            .collect();
        assert_eq!(
            said,
            ["expected 4 times, and seen 5: V2 K", "not expected: V4 K", "expected, and gone: V3 K (known as"]
        );
        let silent = Expected { cause: String::new(), ..known.findings[0].clone() };
        assert_eq!(Difference::Gone(&silent).to_string(), "expected, and gone: V1 K", "no empty words");
        assert_eq!(verdict.expected.len(), 2);
        assert_eq!(verdict.notes, [&seen[3]]);
        let verdict = compare(&known, (&seen, None), None);
        assert_eq!(verdict.differences.len(), 1, "of a trace only what is new");
        assert!(compare(&Expectations::default(), (&seen[3..], None), Some(2)).differences.is_empty(), "notes");
        let nothing = Expectations::default();
        let lossy = compare(&nothing, (&[], Unjudged::live(7)), Some(2));
        assert!(lossy.differences[0].to_string().starts_with("not all was judged: 7 observations "), "{lossy:?}");
    }
}
