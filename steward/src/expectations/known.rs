#![forbid(unsafe_code)]

use super::by_place::ByPlace;
use super::{Expectations, Expected, of_driver};
use vk_report::report::{FindingRow, KnownFindings, Report, Source};

/// What is known of the drivers of a report.
#[derive(Clone, Debug)]
pub struct KnownOfDrivers {
    /// As `--expect` names it.
    pub name: String,
    /// The findings that may be seen.
    pub expectations: Expectations,
}

impl KnownOfDrivers {
    /// The bundled expectations about the driver of a source; of a program, about all of its drivers.
    #[must_use]
    pub fn of_source(source: &Source) -> Option<Self> {
        match source {
            Source::Driver { name, version, .. } => Self::of_drivers(&[format!("{name} {version}")]),
            Source::Trace { driver, .. } => Self::of_drivers(std::slice::from_ref(driver)),
            Source::Program { drivers, .. } => Self::of_drivers(drivers),
        }
    }

    /// The bundled expectations about these drivers, joined; `None` if there are none.
    #[must_use]
    pub fn of_drivers(drivers: &[String]) -> Option<Self> {
        let mut names = Vec::new();
        let mut joined: Option<Expectations> = None;
        for driver in drivers {
            let Some((bundled, known)) = of_driver(driver).ok().flatten() else {
                continue;
            };
            if names.contains(&bundled.name) {
                continue;
            }
            names.push(bundled.name);
            match &mut joined {
                Some(joined) => joined.findings.extend(known.findings),
                None => joined = Some(known),
            }
        }
        joined.map(|expectations| Self { name: names.join(" and "), expectations })
    }

    pub(crate) fn count(&self, rows: &[FindingRow]) -> KnownFindings {
        let serious = || rows.iter().filter(|row| row.level != FindingRow::NOTE);
        let known = serious().filter(|row| self.expected(row).is_some()).count();
        KnownFindings {
            expectations: self.name.clone(),
            known: known as u64,
            unknown: serious().count().saturating_sub(known) as u64,
        }
    }

    /// Notes in the report which of its findings are known, with their causes.
    pub(crate) fn name(&self, report: &mut Report) {
        report.known_findings = Some(self.count(&report.findings));
        let places = ByPlace::new(&self.expectations.findings);
        for row in &mut report.findings {
            let expected = places.find(row).filter(|_| row.level != FindingRow::NOTE);
            row.known = expected.map(|expected| expected.cause.clone());
        }
    }

    pub(crate) fn expected(&self, row: &FindingRow) -> Option<&Expected> {
        ByPlace::new(&self.expectations.findings).find(row)
    }
}

/// Notes in the report which of its findings are known of its driver. Does nothing where no bundled file is about the
/// driver.
pub fn name_known(report: &mut Report) {
    if let Some(known) = KnownOfDrivers::of_source(&report.source) {
        known.name(report);
    }
}
