use std::io::Write;

use serde_json::{Value, json};
use vk_report::guard_run::Guarding;
use vk_report::report::Report;

use super::all_drivers::{self, DriverResult};
use super::{Outcome, ProgramError, drive, outputs, select, shown};
use crate::cli::{Detail, Drive, Drivers, is_all};
use crate::drivers::{self, DriverError, DriverInfo, DriverTable, Listing, Selected};
use crate::report::{DriversReport, ReportOrList};
use crate::workload_child::Stacks;

const ROUNDS: u32 = 4;
const SEED: u32 = 7;

pub(super) fn command(options: &Drivers, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    let Some(files) = &options.report else {
        let drivers = listing()?.drivers;
        let text = format!("{}\n", DriverTable(&drivers));
        outputs::write_data(&options.json, &text, &as_data(&drivers), out)?;
        return Ok(Outcome::Done);
    };
    let read = files.iter().map(|file| ReportOrList::read(file));
    let read: Vec<_> = read.collect::<Result<_, _>>()?;
    let mut reports: Vec<_> = read.into_iter().flatten().collect();
    let (mut failed, mut ran) = (0, 0);
    if files.is_empty() {
        let drivers = match &options.driver {
            Some(name) if !is_all(name) => vec![select(Some(name), true)?],
            _ => listing()?.selected(true).collect(),
        };
        ran = drivers.len();
        let results;
        (results, failed) = all_drivers::results(drivers, Report::FORMAT, &run)?;
        reports.extend(results.into_iter().map(|result| result.page.report));
    }
    reports.iter_mut().for_each(shorten);
    let text = DriversReport(&reports).to_string();
    let written = outputs::write_data(&options.json, &text, &reports, out);
    all_drivers::unless_failed(written, failed, ran)?;
    Ok(Outcome::Done)
}

fn run(selected: &Selected) -> Result<DriverResult, ProgramError> {
    let options = Drive { seed: Some(SEED), rounds: ROUNDS, ..Drive::default() };
    let report = drive::drive(selected, &options, &Guarding::default(), Stacks::Blocks)?.report;
    Ok(shown(report, &Detail::default(), false, false))
}

/// Removes what only a reader of one run needs.
fn shorten(report: &mut ReportOrList) {
    let ReportOrList::Report(report) = report else {
        return;
    };
    report.phases.clear();
    report.timeline.clear();
    report.leaks = None;
    if let Some(sites) = &mut report.call_sites {
        sites.frames.clear();
        sites.stacks.clear();
        sites.sites.iter_mut().for_each(|site| site.stack = None);
    }
}

pub(super) fn listing() -> Result<Listing, DriverError> {
    let listing = drivers::list()?;
    match listing.drivers.is_empty() {
        true => Err(listing.no_driver()),
        false => Ok(listing),
    }
}

fn as_data(drivers: &[DriverInfo]) -> Vec<Value> {
    let one = |driver: &DriverInfo| {
        json!({
            "index": driver.index,
            "driver": driver.driver_name,
            "id": driver.driver_id,
            "file": driver.stem,
            "version": driver.driver_info,
            "device": driver.device_name,
        })
    };
    drivers.iter().map(one).collect()
}
