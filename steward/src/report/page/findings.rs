//! Findings with their rule, its place in the specification, and the cause if known.

#![forbid(unsafe_code)]

use vk_callbacks::Rule;

use super::label::cell;
use vk_report::report::{FindingRow, Report, one_line};

/// A finding.
pub(super) struct FindingLine {
    /// Selects its colour: a known level, or `other`.
    pub(super) class: &'static str,
    pub(super) level: String,
    pub(super) rule: String,
    pub(super) kind: String,
    pub(super) sentence: String,
    /// Its command, callbacks and scope if known.
    pub(super) place: String,
    pub(super) count: String,
    pub(super) bytes: String,
    /// The text and place of each of its rules.
    pub(super) duties: Vec<String>,
    /// The cause in the driver.
    pub(super) cause: String,
    /// It is not yet known of this driver.
    pub(super) unknown: bool,
}

/// Findings by level and rule, the worst first, and a sentence about how many are known, if any.
pub(super) fn findings(report: &Report) -> (Vec<FindingLine>, String) {
    let known = report.known_findings.as_ref();
    let mut rows: Vec<&FindingRow> = report.findings.iter().collect();
    rows.sort_by_key(|row| row.rank());
    let lines: Vec<_> = rows.iter().map(|row| line(row, known.is_some())).collect();
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
        Some(known) if unknown == 0 => {
            format!("All are known of {}.", one_line(&known.expectations))
        }
        Some(known) => format!(
            "{unknown} of {all} are not known of {}.",
            one_line(&known.expectations)
        ),
        None => String::new(),
    };
    (lines, about)
}

fn line(row: &FindingRow, is_compared: bool) -> FindingLine {
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
    // A layer's sentence begins with its rule, which the page shows before it.
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
        unknown: is_compared && row.known.is_none(),
        cause: row.known.as_deref().map(one_line).unwrap_or_default(),
    }
}

/// The text and place of each rule of a finding.
pub(super) fn duties(rules: &str) -> Vec<String> {
    let duties = rules.split('/').filter_map(|name| {
        let rule = Rule::of(name.strip_prefix('V')?.parse().ok()?)?;
        Some(format!("{rule}: {} ({}).", rule.text, rule.reference))
    });
    duties.collect()
}
