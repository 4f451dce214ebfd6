//! How many of a report's findings are known of its driver.

#![forbid(unsafe_code)]

use super::{Expectations, compare, of_driver};
use vk_accounts::report::{FindingRow, KnownFindings, Report, Source};

/// Says in the report how many of its findings are known of its driver, those of two contexts as well; nothing where no bundled file is
/// about the driver.
pub fn name_known(report: &mut Report) {
    let driver = match &report.source {
        Source::Driver { name, version, .. } => format!("{name} {version}"),
        Source::Trace { driver, .. } => driver.clone(),
        Source::Program { .. } => return,
    };
    let Some((bundled, known)) = of_driver(&driver).ok().flatten() else {
        return;
    };
    let counted = |rows: &[FindingRow], is_known: &dyn Fn(&FindingRow) -> bool| {
        let serious = || rows.iter().filter(|row| row.level != FindingRow::NOTE);
        let of_known = serious().filter(|row| is_known(row)).count();
        KnownFindings {
            expectations: bundled.name.to_owned(),
            known: of_known as u64,
            unknown: serious().count().saturating_sub(of_known) as u64,
        }
    };
    let listed = |row: &FindingRow| {
        let verdict = compare(&known, (std::slice::from_ref(row), None), None);
        !verdict.expected.is_empty()
    };
    report.known_findings = Some(counted(&report.findings, &listed));
    if let Some(shared) = &mut report.shared_contexts {
        let listed = |row: &FindingRow| is_known_of_contexts(&known, row);
        shared.known_findings = Some(counted(&shared.findings, &listed));
    }
}

/// Whose callbacks it was says nothing there: a context has one set for all of its objects.
fn is_known_of_contexts(known: &Expectations, row: &FindingRow) -> bool {
    known.findings.iter().any(|one| {
        (&one.rule, &one.kind, &one.command, &one.scope)
            == (&row.rule, &row.kind, &row.command, &row.scope)
    })
}
