#![forbid(unsafe_code)]

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::compare::{Difference, Verdict};
use vk_report::report::{FailRun, FindingRow, GuardRun, Leaks, one_line, paragraph};

const WIDTH: usize = 118;

/// A run or a trace that was checked.
#[derive(Clone, Debug)]
pub struct Checked<'a> {
    /// The driver's name and version.
    pub driver: &'a str,
    /// The rounds and seed, or the trace.
    pub how: &'a str,
    /// The name of the expectations.
    pub expectations: Option<&'a str>,
    /// Rules that could not be judged with this source.
    pub limits: &'a [String],
    /// Memory that was never freed, by call stack; none if all was freed.
    pub leaks: Option<&'a Leaks>,
    /// The results of a guard.
    pub guard: Option<&'a GuardRun>,
    /// The planned refusals.
    pub fail: Option<&'a FailRun>,
    /// Errors of a run with a guard or planned refusals: [`Report::faults`](vk_report::report::Report::faults).
    pub faults: &'a [String],
    /// The result.
    pub verdict: Verdict<'a>,
}

/// The result of a check in a few words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckSummary {
    /// There is no difference and no error.
    pub is_as_expected: bool,
    /// The name of the expectations; none if nothing is known of the driver.
    pub expectations: Option<String>,
    /// The number of expected findings.
    pub known: usize,
    /// The differences and errors, a sentence each.
    pub differences: Vec<String>,
}

impl CheckSummary {
    /// The result in two words.
    #[must_use]
    pub fn words(&self) -> String {
        match (self.is_as_expected, self.differences.len()) {
            (true, _) => "as expected".to_owned(),
            (false, 1) => "1 difference".to_owned(),
            (false, number) => format!("{number} differences"),
        }
    }
}

impl Checked<'_> {
    /// The form of [`Checked::to_json`].
    pub const FORMAT: &'static str = "steward check 1";

    /// Whether there is no difference and no error.
    #[must_use]
    pub const fn is_as_expected(&self) -> bool {
        self.verdict.differences.is_empty() && self.faults.is_empty()
    }

    /// The summary for a page.
    #[must_use]
    pub fn summary(&self) -> CheckSummary {
        let differences = self.verdict.differences.iter().map(ToString::to_string);
        CheckSummary {
            is_as_expected: self.is_as_expected(),
            expectations: self.expectations.map(str::to_owned),
            known: self.verdict.expected.len(),
            differences: self.faults.iter().cloned().chain(differences).collect(),
        }
    }

    /// As data.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Verdict { expected, notes, differences } = &self.verdict;
        let known: Vec<_> =
            expected.iter().map(|(row, expected)| json!({ "finding": row, "cause": expected.cause })).collect();
        let other = |difference: &Difference<'_>| {
            let (what, row) = match difference {
                Difference::New(row) => ("new", Some(row)),
                Difference::Count { seen, .. } => ("count", Some(seen)),
                Difference::Gone(_) => ("gone", None),
                Difference::Unjudged(_) => ("unjudged", None),
            };
            json!({ "what": what, "sentence": difference.to_string(), "finding": row })
        };
        json!({
            "format": Self::FORMAT,
            "driver": self.driver,
            "how": self.how,
            "expectations": self.expectations,
            "as_expected": self.is_as_expected(),
            "expected": known,
            "notes": notes,
            "differences": differences.iter().map(other).collect::<Vec<_>>(),
            "faults": self.faults,
            "limits": self.limits,
            "leaks": self.leaks,
            "guard": self.guard,
            "fail": self.fail,
        })
    }
}

impl fmt::Display for Checked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { expected, notes, differences } = &self.verdict;
        writeln!(f, "driver: {}", one_line(self.driver))?;
        writeln!(f, "checked: {}", one_line(self.how))?;
        self.limits.iter().try_for_each(|limit| writeln!(f, "note: {}", one_line(limit)))?;
        match self.expectations {
            Some(name) => writeln!(f, "expected: what {} lists", one_line(name))?,
            None => writeln!(
                f,
                "expected: no bundled file is about a driver of this name; --expect FILE names another, --write-expect FILE writes one"
            )?,
        }
        let mut known: Vec<_> = expected.iter().map(|(row, expected)| (*row, expected.cause.as_str())).collect();
        known.extend(notes.iter().map(|row| (*row, "")));
        known.sort_by_key(|(row, _)| row.rank());
        if !known.is_empty() {
            writeln!(f, "\nfindings:")?;
        }
        for (row, cause) in known {
            let FindingRow { level, rule, sentence, .. } = row;
            paragraph(f, &format!("  {level:<9} "), &headed(rule, sentence), WIDTH)?;
            if !cause.is_empty() {
                paragraph(f, &format!("  {:<9} known: ", ""), cause, WIDTH)?;
            }
        }
        self.leaks.map_or(Ok(()), |leaks| write!(f, "{leaks}"))?;
        if !self.is_as_expected() {
            writeln!(f, "\nnot as expected:")?;
            self.faults.iter().try_for_each(|fault| paragraph(f, "  ", fault, WIDTH))?;
            differences.iter().try_for_each(|difference| paragraph(f, "  ", &difference.to_string(), WIDTH))?;
        }
        self.guard.map_or(Ok(()), |guard| write!(f, "\n{guard}"))?;
        self.fail.map_or(Ok(()), |fail| write!(f, "\n{fail}"))?;
        let counts = [
            (expected.len(), "known finding"),
            (notes.len(), "note"),
            (differences.len(), "difference"),
            (self.faults.len(), "fault"),
        ];
        let words = |(count, what): (usize, &str)| {
            (count > 0).then(|| format!("{count} {what}{}", if count == 1 { "" } else { "s" }))
        };
        let words: Vec<_> = counts.into_iter().filter_map(words).collect();
        let words = if words.is_empty() { "no findings".to_owned() } else { words.join(", ") };
        writeln!(f, "\nresult: {}as expected: {words}", if self.is_as_expected() { "" } else { "not " })
    }
}

fn headed(rule: &str, sentence: &str) -> String {
    if rule.is_empty() || sentence.starts_with(rule) { sentence.to_owned() } else { format!("{rule}: {sentence}") }
}
