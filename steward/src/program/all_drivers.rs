//! `--driver all`: each driver in its own process, because the loader keeps its first choice of drivers.

use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output as Finished};

use serde_json::{Value, json};

use super::own_folder::{self, OwnFolder};
use super::run::RunError;
use super::{Outcome, ProgramError, outputs};
use crate::cli::{Check, Drive, Output};
use crate::drivers::{self, DriverInfo};
use crate::expectations::Checked;
use crate::report::{CheckedDriver, Failed, ReportOrList, html, html_of_checks};
use crate::signals::{ChildKind, HeldSignals};
use vk_report::guard_run::Guarding;
use vk_report::report::Report;

/// The command for every driver.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AllDrivers {
    Drive,
    Check,
}

/// Runs the workload on every driver.
///
/// # Safety
/// As for [`drivers::list`].
pub(super) unsafe fn drive(
    options: &Drive,
    guarding: &Guarding,
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    let mut arguments = vec!["drive".to_owned()];
    arguments.extend(settings(options.rounds, options.seed, guarding));
    arguments.extend(output.findings.then(|| "--findings".to_owned()));
    arguments.extend(output.all_rounds.then(|| "--all-rounds".to_owned()));
    arguments.extend((output.depth > 0).then(|| format!("--depth={}", output.depth)));
    arguments.extend(options.no_check.then(|| "--no-check".to_owned()));
    arguments.extend(options.exit_code.then(|| "--exit-code".to_owned()));
    arguments.extend(options.no_coverage.then(|| "--no-coverage".to_owned()));
    arguments.extend(options.direct.then(|| "--direct".to_owned()));
    // SAFETY: forwarded.
    unsafe { each(&arguments, AllDrivers::Drive, output, out) }
}

/// Checks every driver against the bundled file about it.
///
/// # Safety
/// As for [`drivers::list`].
pub(super) unsafe fn check(
    options: &Check,
    guarding: &Guarding,
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    let mut arguments = vec!["check".to_owned()];
    arguments.extend(settings(options.rounds, options.seed, guarding));
    arguments.extend(options.direct.then(|| "--direct".to_owned()));
    // SAFETY: forwarded.
    unsafe { each(&arguments, AllDrivers::Check, output, out) }
}

fn settings(rounds: u32, seed: Option<u32>, guarding: &Guarding) -> Vec<String> {
    let all = [
        ("--rounds", Some(rounds.to_string())),
        ("--seed", seed.map(|seed| seed.to_string())),
        ("--guard", guarding.guard.map(|guard| guard.to_string())),
        (
            "--guard-back-end",
            guarding.back_end.map(|back_end| back_end.to_string()),
        ),
        ("--fail", guarding.fail.map(|fail| fail.to_string())),
    ];
    all.into_iter()
        .filter_map(|(name, value)| value.map(|value| format!("{name}={value}")))
        .collect()
}

/// Runs the program for every driver, prints all outputs, and writes an array of their JSON if requested. A driver that could not be run has an
/// object with `error` in it.
///
/// # Safety
/// As for [`drivers::list`].
unsafe fn each(
    arguments: &[String],
    what: AllDrivers,
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    let format = match what {
        AllDrivers::Drive => Report::FORMAT,
        AllDrivers::Check => Checked::FORMAT,
    };
    // SAFETY: forwarded.
    let listing = unsafe { drivers::list() }?;
    if listing.drivers.is_empty() {
        return Err(listing.no_driver().into());
    }
    // Held until the folder is gone.
    let mut signals = HeldSignals::new(ChildKind::Helper)?;
    let folder =
        OwnFolder::new(own_folder::DRIVERS).map_err(|reason| RunError::NoFolder { reason })?;
    let mut reports = Vec::new();
    let mut checked = Vec::new();
    let mut text = Vec::new();
    let (mut failed, mut outcome) = (0, Outcome::Done);
    for driver in &listing.drivers {
        let file = folder.path().join(format!("{}.json", driver.index));
        let part = folder.path().join(format!("{}.part", driver.index));
        let wanted = (what == AllDrivers::Check && output.html.is_some()).then_some(&*part);
        let done = run(driver, arguments, (&file, wanted), &mut signals)?;
        text.extend_from_slice(&done.stdout);
        let unexpected = done.status.code() == Some(1);
        if unexpected {
            outcome = Outcome::Unexpected;
        }
        if done.status.success() || unexpected {
            // The child wrote the report.
            reports.extend(
                fs::read(&file)
                    .ok()
                    .and_then(|report| serde_json::from_slice::<Value>(&report).ok()),
            );
        } else {
            failed += 1;
            let why = why(&done);
            writeln!(text, "driver: {} could not be run: {why}", driver.title())?;
            reports.push(json!({ "format": format, "driver": driver.title(), "error": why }));
        }
        checked.extend(wanted.map(|part| checked_driver(part, driver, reports.last())));
        writeln!(text)?;
    }
    drop(folder);
    signals.interrupted()?;
    drop(signals);
    for refusal in &listing.refused {
        let name = refusal.manifest.as_deref().map_or_else(
            || "the loader's own choice".into(),
            |path| path.display().to_string(),
        );
        writeln!(text, "driver: {name} shows no device: {}", refusal.reason)?;
    }
    let page = || {
        if what == AllDrivers::Check {
            return Ok(html_of_checks(&checked)?);
        }
        let reports = serde_json::to_vec(&reports).map_err(std::io::Error::from)?;
        Ok(html(&ReportOrList::parse(
            "the drivers' reports",
            &reports,
        )?)?)
    };
    let written = outputs::write(output, &String::from_utf8_lossy(&text), &reports, page, out);
    match failed {
        0 => written.map(|()| outcome),
        failed => written.and(Err(ProgramError::SomeFailed {
            failed,
            drivers: listing.drivers.len(),
        })),
    }
}

fn run(
    driver: &DriverInfo,
    arguments: &[String],
    (json, page_part): (&Path, Option<&Path>),
    signals: &mut HeldSignals,
) -> Result<Finished, ProgramError> {
    let mut child = Command::new(env::current_exe()?);
    child
        .args(arguments)
        .args(["--driver", &driver.index.to_string()]);
    if let Some(part) = page_part {
        child.arg("--page-part").arg(part);
    }
    child.arg("--json").arg(json);
    Ok(signals.output(&mut child, None)?)
}

/// The child's data for the page; if it wrote none, `written` says why.
fn checked_driver(part: &Path, driver: &DriverInfo, written: Option<&Value>) -> CheckedDriver {
    let part = fs::read(part).ok();
    let part = part.and_then(|part| serde_json::from_slice(&part).ok());
    if let Some((report, check)) = part {
        return CheckedDriver {
            report: ReportOrList::Report(report),
            check: Some(check),
        };
    }
    let error = written.and_then(|written| written["error"].as_str());
    CheckedDriver {
        report: ReportOrList::Failed(Failed {
            format: Report::FORMAT.to_owned(),
            driver: driver.title().to_owned(),
            error: error.unwrap_or("it wrote no report").to_owned(),
            leaks: None,
        }),
        check: None,
    }
}

/// The child's error; if it has none, as after a signal, how the child ended.
fn why(done: &Finished) -> String {
    let said = String::from_utf8_lossy(&done.stderr);
    // Files that it wrote are in a folder that is deleted.
    let said: Vec<_> = said
        .lines()
        .filter(|line| !line.starts_with("wrote "))
        .collect();
    let said = said.join("\n");
    let said = said.trim().trim_start_matches("steward: ");
    if said.is_empty() {
        format!("its process ended with {}", done.status)
    } else {
        said.to_owned()
    }
}

/// The listing as data.
pub(super) fn as_data(drivers: &[DriverInfo]) -> Vec<Value> {
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
