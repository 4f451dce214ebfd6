//! `--driver all`: each driver in a process of its own, since the loader keeps to what it saw first.

use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output as Finished};

use serde_json::{Value, json};

use super::ProgramError;
use super::files::write_json;
use crate::cli::{Drive, Output};
use crate::drivers::{self, DriverError, DriverInfo};
use crate::report::Report;

/// Runs every driver there is, prints the reports one after the other, and writes an array of them where JSON is wanted: a
/// driver that could not be run has an object with `error` there.
///
/// # Safety
/// As for [`drivers::list`].
pub(super) unsafe fn drive(options: &Drive, output: &Output, out: &mut dyn Write) -> Result<(), ProgramError> {
    // SAFETY: forwarded.
    let listing = unsafe { drivers::list() }?;
    if listing.drivers.is_empty() {
        return Err(DriverError::NoDriver { refused: listing.refused }.into());
    }
    let folder = tempfile::tempdir()?;
    let mut reports = Vec::new();
    let mut text = Vec::new();
    let mut failed = 0;
    for driver in &listing.drivers {
        let file = folder.path().join(format!("{}.json", driver.index));
        let done = run(driver, options, output.findings, &file)?;
        text.extend_from_slice(&done.stdout);
        if done.status.success() {
            // It wrote the report and said so.
            reports.extend(fs::read(&file).ok().and_then(|report| serde_json::from_slice::<Value>(&report).ok()));
        } else {
            failed += 1;
            let why = why(&done);
            writeln!(text, "driver: {} could not be run: {why}", driver.title())?;
            reports.push(json!({ "format": Report::FORMAT, "driver": driver.title(), "error": why }));
        }
        writeln!(text)?;
    }
    for refusal in &listing.refused {
        let name =
            refusal.manifest.as_deref().map_or_else(|| "the loader's own choice".into(), |path| path.display().to_string());
        writeln!(text, "driver: {name} shows no device: {}", refusal.reason)?;
    }
    let printed = out.write_all(&text).and_then(|()| out.flush());
    output.json.as_deref().map_or(Ok(()), |file| write_json(file, &reports))?;
    match failed {
        0 => Ok(printed?),
        failed => Err(ProgramError::SomeFailed { failed, drivers: listing.drivers.len() }),
    }
}

fn run(driver: &DriverInfo, options: &Drive, findings: bool, json: &Path) -> Result<Finished, ProgramError> {
    let mut child = Command::new(env::current_exe()?);
    child.args(["drive", "--driver", &driver.index.to_string(), "--rounds", &options.rounds.to_string()]);
    if let Some(seed) = options.seed {
        child.args(["--seed", &seed.to_string()]);
    }
    if findings {
        child.arg("--findings");
    }
    if options.no_honour {
        child.arg("--no-honour");
    }
    Ok(child.arg("--json").arg(json).output()?)
}

/// The child's own sentence; how it ended where it had none, as when a signal killed it.
fn why(done: &Finished) -> String {
    let said = String::from_utf8_lossy(&done.stderr);
    let said = said.trim().trim_start_matches("steward: ");
    if said.is_empty() { format!("its process ended with {}", done.status) } else { said.to_owned() }
}

/// The listing for programs.
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
