//! What a command says of a driver, and `--driver all`: one driver after the other, each in child processes that see no
//! other.

use std::io::Write;
use std::slice;

use serde::{Serialize, Serializer};
use serde_json::Value;
use vk_report::report::one_line;
use vk_report::report::origins::EventLog;

use super::drive::DriveError;
use super::{Outcome, ProgramError, driver_list, outputs};
use crate::cli::Output;
use crate::drivers::Selected;
use crate::report::{CheckedDriver, ReportOrList, html_of_checks};

pub(super) struct DriverResult {
    pub(super) text: String,
    /// The data of a check; otherwise the report is the data.
    pub(super) check: Option<Value>,
    pub(super) page: CheckedDriver,
    pub(super) outcome: Outcome,
}

impl Serialize for DriverResult {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.check {
            Some(check) => check.serialize(to),
            None => self.page.report.serialize(to),
        }
    }
}

impl DriverResult {
    fn without_report(text: String, page: CheckedDriver, outcome: Outcome) -> Self {
        Self { text, check: None, page, outcome }
    }

    fn of_crash(driver: &str, why: &str, format: &str) -> Self {
        let shown = one_line(driver);
        let text = format!("driver: {shown}\nresult: not as expected: {why}\n");
        let page = CheckedDriver::failed(format, driver, why);
        Self::without_report(text, page, Outcome::Unexpected)
    }

    /// A closed output does not change the outcome.
    pub(super) fn write(
        self,
        events: Option<&EventLog>,
        output: &Output,
        out: &mut dyn Write,
    ) -> Result<Outcome, ProgramError> {
        let profiled = match &self.page.report {
            ReportOrList::Report(report) => outputs::write_profile(output, slice::from_ref(&**report), events, out),
            ReportOrList::Failed(_) => Ok(()),
        };
        let page = || Ok(html_of_checks(slice::from_ref(&self.page))?);
        let written = outputs::write(output, &self.text, &self, page, out).and(profiled);
        ProgramError::unless_closed_pipe(written)?;
        Ok(self.outcome)
    }
}

/// The report of a driver's crash is written in all formats, also to the error output if the standard output is for
/// programs.
pub(super) fn or_report(
    ended: Result<Outcome, ProgramError>,
    format: &str,
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    let (driver, why) = match ended {
        Err(ProgramError::Drive(DriveError::Died { driver, how })) => (driver, how),
        ended => return ended,
    };
    if outputs::is_for_programs(output) {
        let _ = writeln!(std::io::stderr(), "steward: {}: {why}", one_line(&driver));
    }
    DriverResult::of_crash(&driver, &why, format).write(None, output, out)
}

/// The results of the drivers, of which a number could not be run. Such a driver has an object with `error` in the
/// array of data.
pub(super) fn results(
    drivers: impl IntoIterator<Item = Selected>,
    format: &str,
    one: &dyn Fn(&Selected) -> Result<DriverResult, ProgramError>,
) -> Result<(Vec<DriverResult>, usize), ProgramError> {
    let (mut failed, mut results) = (0, Vec::new());
    for selected in drivers {
        results.push(match one(&selected) {
            Ok(result) => result,
            Err(error @ ProgramError::Interrupted(_)) => return Err(error),
            Err(ProgramError::Drive(DriveError::Died { driver, how })) => DriverResult::of_crash(&driver, &how, format),
            Err(error) => {
                failed += 1;
                let (driver, why) = (selected.info.title(), error.to_string());
                let text = format!("driver: {driver} could not be run: {why}\n");
                let page = CheckedDriver::failed(format, driver, &why);
                DriverResult::without_report(text, page, Outcome::Done)
            }
        });
    }
    Ok((results, failed))
}

pub(super) fn unless_failed(
    written: Result<(), ProgramError>,
    failed: usize,
    drivers: usize,
) -> Result<(), ProgramError> {
    match failed {
        0 => written,
        failed => written.and(Err(ProgramError::SomeFailed { failed, drivers })),
    }
}

pub(super) fn each(
    (is_direct, format): (bool, &str),
    one: &dyn Fn(&Selected) -> Result<DriverResult, ProgramError>,
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    let listing = driver_list::listing()?;
    let (results, failed) = results(listing.selected(is_direct), format, one)?;
    let mut text: String = results.iter().map(|result| format!("{}\n", result.text)).collect();
    for refusal in &listing.refused {
        let name = refusal
            .manifest
            .as_deref()
            .map_or_else(|| "the loader's own choice".into(), |path| path.display().to_string());
        text += &format!("driver: {name} shows no device: {}\n", refusal.reason);
    }
    let pages = || results.iter().map(|result| result.page.clone());
    let page = || Ok(html_of_checks(&pages().collect::<Vec<_>>())?);
    let written = outputs::write(output, &text, &results, page, out);
    unless_failed(written, failed, listing.drivers.len())?;
    let mut outcomes = results.iter().map(|result| result.outcome);
    Ok(Outcome::of(!outcomes.any(|one| one == Outcome::Unexpected)))
}
