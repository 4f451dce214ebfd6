//! `--driver all`: each driver in a process of its own, since the loader keeps to what it saw first.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::process::Command;

use serde_json::Value;

use super::{ProgramError, unwritable};
use crate::cli::{Drive, Output};
use crate::drivers::{self, DriverError};

/// Runs every driver there is, prints the reports one after the other, and writes an array of them where JSON is wanted.
///
/// # Safety
/// As for [`drivers::list`].
pub(super) unsafe fn drive(options: &Drive, output: &Output, out: &mut dyn Write) -> Result<(), ProgramError> {
    // SAFETY: forwarded.
    let listing = unsafe { drivers::list() }?;
    if listing.drivers.is_empty() {
        return Err(DriverError::NoDriver { refused: listing.refused }.into());
    }
    let program = env::current_exe()?;
    let mut reports = Vec::new();
    let mut failed = 0;
    for driver in &listing.drivers {
        let json = output.json.as_ref().map(|file| file.with_extension(format!("{}.tmp", driver.index)));
        let mut child = Command::new(&program);
        child.args(["drive", "--driver", &driver.index.to_string(), "--rounds", &options.rounds.to_string()]);
        if let Some(seed) = options.seed {
            child.args(["--seed", &seed.to_string()]);
        }
        if let Some(json) = &json {
            child.arg("--json").arg(json);
        }
        let done = child.output()?;
        out.write_all(&done.stdout)?;
        if !done.status.success() {
            failed += 1;
            writeln!(out, "driver: {} could not be run: {}", driver.title(), String::from_utf8_lossy(&done.stderr).trim())?;
        }
        writeln!(out)?;
        if let Some(json) = json {
            if let Ok(text) = fs::read_to_string(&json) {
                reports.extend(serde_json::from_str::<Value>(&text).ok());
            }
            // It may never have been written.
            let _ = fs::remove_file(&json);
        }
    }
    for refusal in &listing.refused {
        let name = refusal.manifest.as_deref().map_or_else(|| "the loader's own choice".into(), |path| path.display().to_string());
        writeln!(out, "driver: {name} shows no device: {}", refusal.reason)?;
    }
    out.flush()?;
    if let Some(file) = &output.json {
        let text = serde_json::to_string_pretty(&reports).map_err(io::Error::from);
        text.and_then(|text| fs::write(file, text + "\n")).map_err(|reason| unwritable(file, reason))?;
    }
    match failed {
        0 => Ok(()),
        failed => Err(ProgramError::SomeFailed { failed, drivers: listing.drivers.len() }),
    }
}
