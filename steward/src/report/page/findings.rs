//! Findings with the rule that they break, its place in the specification, and the cause where it is known.

#![forbid(unsafe_code)]

use vk_callbacks::Rule;

use super::label::cell;
use crate::expectations::{self, Expectations, compare};
use vk_accounts::report::{FindingRow, Report, Source, one_line};

/// A finding.
pub(super) struct FindingLine {
    /// Names its colour: one of the levels that are known, or `other`.
    pub(super) class: &'static str,
    pub(super) level: String,
    pub(super) rule: String,
    pub(super) kind: String,
    pub(super) sentence: String,
    /// Where it was seen: command, callbacks, scope, as far as they are known.
    pub(super) place: String,
    pub(super) count: String,
    pub(super) bytes: String,
    /// What each of its rules says, and where that stands.
    pub(super) duties: Vec<String>,
    /// Why the driver does it.
    pub(super) cause: String,
    /// Nobody has written down yet that this driver does it.
    pub(super) unknown: bool,
}

/// What is known of the driver that a report is about.
pub(super) struct KnownCauses {
    name: &'static str,
    expectations: Expectations,
}

impl KnownCauses {
    pub(super) fn of(source: &Source) -> Option<Self> {
        let (bundled, expectations) = expectations::of_source(source)?;
        Some(Self {
            name: bundled.name,
            expectations,
        })
    }
}

/// Findings, the worst first, within a level by rule; and a sentence about how many of them are known, where anything is known.
pub(super) fn findings(report: &Report, known: Option<&KnownCauses>) -> (Vec<FindingLine>, String) {
    let mut rows: Vec<&FindingRow> = report.findings.iter().collect();
    rows.sort_by_key(|row| row.rank());
    let lines: Vec<_> = rows.iter().map(|row| line(row, known)).collect();
    let serious = |line: &&FindingLine| line.class != FindingRow::NOTE;
    let (all, unknown) = (
        lines.iter().filter(serious).count(),
        lines
            .iter()
            .filter(serious)
            .filter(|line| line.unknown)
            .count(),
    );
    let about = match known {
        Some(_) if all == 0 => String::new(),
        Some(known) if unknown == 0 => format!("All are known of {}.", known.name),
        Some(known) => format!("{unknown} of {all} are not known of {}.", known.name),
        None => String::new(),
    };
    (lines, about)
}

fn line(row: &FindingRow, known: Option<&KnownCauses>) -> FindingLine {
    let one = std::slice::from_ref(row);
    let expected = known.and_then(|known| {
        let verdict = compare(&known.expectations, (one, None), None);
        verdict
            .expected
            .first()
            .map(|(_, expected)| expected.cause.clone())
    });
    let class = FindingRow::LEVELS
        .get(row.rank())
        .copied()
        .unwrap_or("other");
    let place = [
        ("", &row.command),
        ("callbacks of ", &row.owner),
        ("scope ", &row.scope),
    ];
    let place = place.iter().filter(|(_, name)| !name.is_empty());
    // A layer's sentence begins with its rule, which stands in front of it here.
    let sentence = row.sentence.strip_prefix(&row.rule);
    let sentence = sentence.and_then(|rest| rest.strip_prefix(": "));
    let sentence = sentence.unwrap_or(&row.sentence);
    FindingLine {
        class,
        level: one_line(&row.level),
        rule: one_line(&row.rule),
        kind: one_line(&row.kind),
        sentence: one_line(sentence),
        place: place
            .map(|(before, name)| format!("{before}{}", one_line(name)))
            .collect::<Vec<_>>()
            .join(", "),
        count: cell(row.count),
        bytes: cell(row.bytes),
        duties: duties(&row.rule),
        unknown: known.is_some() && expected.is_none(),
        cause: expected.map(|cause| one_line(&cause)).unwrap_or_default(),
    }
}

/// What each rule of a finding says, and where that stands.
pub(super) fn duties(rules: &str) -> Vec<String> {
    let duties = rules.split('/').filter_map(|name| {
        let rule = Rule::of(name.strip_prefix('V')?.parse().ok()?)?;
        Some(format!("{rule}: {} ({}).", rule.text, rule.reference))
    });
    duties.collect()
}
