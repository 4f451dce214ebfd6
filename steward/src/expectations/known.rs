//! How many of a report's findings are known of its driver.

#![forbid(unsafe_code)]

use super::by_place::KeyedFinding;
use super::{BundledExpectations, Expectations, compare, of_driver};
use vk_accounts::report::{FindingRow, KnownFindings, Report, Source};

/// The bundled expectations about the driver of a source.
pub(crate) fn of_source(source: &Source) -> Option<(&'static BundledExpectations, Expectations)> {
    let driver = match source {
        Source::Driver { name, version, .. } => format!("{name} {version}"),
        Source::Trace { driver, .. } => driver.clone(),
        Source::Program { .. } => return None,
    };
    of_driver(&driver).ok().flatten()
}

/// Counts in the report how many of its findings are known of its driver, those of two contexts as well. Does nothing where no bundled
/// file is about the driver.
pub fn name_known(report: &mut Report) {
    let Some((bundled, known)) = of_source(&report.source) else {
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
        let listed = |row: &FindingRow| is_known_of_contexts(&known.findings, row);
        shared.known_findings = Some(counted(&shared.findings, &listed));
    }
}

/// Whether `row`, a finding of two contexts, is among the known ones. Owners are not compared: a context has one set of callbacks for all
/// of its objects.
pub(crate) fn is_known_of_contexts<F: KeyedFinding>(known: &[F], row: &FindingRow) -> bool {
    let without_owner = |[rule, kind, _, command, scope]: [&str; 5]| {
        [rule, kind, command, scope].map(str::to_owned)
    };
    let wanted = without_owner(row.key());
    known.iter().any(|one| without_owner(one.key()) == wanted)
}
