//! One run on one driver.

use std::io::Write as _;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use alloc_core::HostAllocator;
use vk_callbacks::Opened;

use super::files::{unwritable, write_whole};
use super::{ProgramError, SYSTEM, files};
use crate::accounts::{AccountError, Accounts, Watching};
use crate::cli::Drive;
use crate::drivers::Selected;
use crate::honour;
use crate::report::Report;
use crate::workload::{self, Options, WorkloadError};

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    /// The accounts could not be made.
    #[error(transparent)]
    Accounts(#[from] AccountError),
    /// A command failed, or a result was wrong.
    #[error("{driver}: {error}")]
    Workload {
        /// The driver's name.
        driver: String,
        /// What went wrong.
        error: WorkloadError,
    },
}

/// Runs the workload with accounts over the system's allocator, and records it where asked to.
pub(super) fn drive(selected: &Selected, options: &Drive, opened: Opened) -> Result<Report, ProgramError> {
    let recorded = options.record.as_deref();
    recorded.map_or(Ok(()), files::check)?;
    let own: &(dyn HostAllocator + Sync) = &SYSTEM;
    let watching = Watching { log: recorded.map(|_| own), check: (!options.no_check).then_some(own), opened };
    // SAFETY: `SYSTEM` lives for ever, and the instance ends with `workload::run`.
    let accounts = unsafe { Accounts::new(&SYSTEM, watching) };
    let accounts = accounts.map_err(DriveError::from)?;
    let seed = options.seed.unwrap_or_else(seed_of_the_clock);
    let settings = Options { seed, rounds: options.rounds, ..Options::default() };
    let began = Instant::now();
    let ran = workload::run(selected, &accounts, &settings);
    let took = began.elapsed();
    if let Some(file) = recorded {
        write_trace(&accounts, &title(selected), file)?;
    }
    let done = accounts.finish().map_err(DriveError::from)?;
    let ran = ran.map_err(|error| DriveError::Workload { driver: title(selected), error })?;
    let mut report = Report::of_run(ran, seed, done);
    // No findings would otherwise look like none there are.
    report.limits.extend(options.no_check.then(|| "--no-check: callbacks were not judged by Vulkan's rules".to_owned()));
    report.honour = (!options.no_honour).then(|| honour::measure(selected, seed, options.rounds, took));
    Ok(report)
}

pub(super) fn title(selected: &Selected) -> String {
    format!("{} {}", selected.info().title(), selected.info().driver_info)
}

fn write_trace(accounts: &Accounts<'_>, driver: &str, file: &Path) -> Result<(), ProgramError> {
    let mut text = String::new();
    accounts.write_trace(driver, &mut text).map_err(|error| DriveError::from(AccountError::from(error)))?;
    let mut bytes = text.into_bytes();
    if file.extension().is_some_and(|ending| ending == "gz") {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        bytes = packed.write_all(&bytes).and_then(|()| packed.finish()).map_err(|reason| unwritable(file, reason))?;
    }
    write_whole(file, &bytes)
}

fn seed_of_the_clock() -> u32 {
    // Any value will do; the report says which.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos() ^ time.as_secs() as u32)
}
