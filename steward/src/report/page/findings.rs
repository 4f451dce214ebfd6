#![forbid(unsafe_code)]

use vk_callbacks::Rule;

use vk_report::report::{FindingRow, Report};

pub(super) fn findings(report: &Report) -> (Vec<FindingRow>, Vec<FindingRow>) {
    let mut rows = report.findings.clone();
    rows.sort_by_key(FindingRow::rank);
    rows.into_iter().partition(|row| class(row) != FindingRow::NOTE)
}

/// A sentence about how many of the findings are known, if any.
pub(super) fn known(report: &Report, serious: &[FindingRow]) -> String {
    let Some(known) = report.known_findings.as_ref().filter(|_| !serious.is_empty()) else {
        return String::new();
    };
    let unknown = serious.iter().filter(|row| row.known.is_none()).count();
    match unknown {
        0 => format!("All are known of {}.", known.expectations),
        _ => format!("{unknown} of {} are not known of {}.", serious.len(), known.expectations),
    }
}

pub(super) fn class(row: &FindingRow) -> &'static str {
    let level = FindingRow::LEVELS.get(row.rank());
    level.copied().unwrap_or("other")
}

pub(super) fn place(row: &FindingRow) -> String {
    let place = [("", &row.command), ("callbacks of ", &row.owner), ("scope ", &row.scope)];
    let place = place.iter().filter(|(_, name)| !name.is_empty());
    let place: Vec<_> = place.map(|(before, name)| format!("{before}{name}")).collect();
    place.join(", ")
}

/// A layer's sentence begins with its rule, which the page shows before it.
pub(super) fn sentence(row: &FindingRow) -> &str {
    let sentence = row.sentence.strip_prefix(&row.rule);
    let sentence = sentence.and_then(|rest| rest.strip_prefix(": "));
    sentence.unwrap_or(&row.sentence)
}

pub(super) fn duties(rules: &str) -> Vec<String> {
    let duties = rules.split('/').filter_map(|name| {
        let rule = Rule::of(name.strip_prefix('V')?.parse().ok()?)?;
        Some(format!("{rule}: {} ({}).", rule.text, rule.reference))
    });
    duties.collect()
}
