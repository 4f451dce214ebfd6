//! The child process: runs the workload once, under the meter.

use serde::{Deserialize, Serialize};

use alloc_core::HostAllocator;

use super::CoverageError;
use super::hooks::Metered;
use crate::drivers::{self, DriverInfo, Selected};
use crate::workload::{self, Options};
use vk_accounts::Hooks;
use vk_accounts::accounting::{Accounts, Watching};
use vk_accounts::meter::{self, CallbackCoverage};
use vk_accounts::report::CoverageRun;

/// The work of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The driver, as the parent listed it.
    pub driver: DriverInfo,
    /// The seed of the workload.
    pub seed: u32,
    /// The rounds of the workload.
    pub rounds: u32,
    /// How to open the driver.
    pub way: Way,
}

/// How to open a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// Through the loader; the environment selects the driver.
    Loader,
    /// The driver's own library, without a loader.
    Direct,
}

/// Runs a job, given as JSON, in this process, into which the meter was preloaded: the workload with callbacks over `backing`. Returns the
/// result as a line for the parent.
///
/// # Safety
/// `backing` outlives the process's use of the driver. As for [`drivers::directly`], if the job says [`Way::Direct`].
#[must_use]
pub unsafe fn answer(job: &str, backing: &(impl HostAllocator + Sync)) -> String {
    let answer = match serde_json::from_str::<Job>(job) {
        Err(error) => Err(failed(format!("the job cannot be read ({error})"))),
        // SAFETY: forwarded.
        Ok(job) => unsafe { run(&job, backing) },
    };
    // Numbers and sentences: JSON can express them all.
    serde_json::to_string(&answer).unwrap_or_default()
}

/// # Safety
/// As for [`answer`].
unsafe fn run(
    job: &Job,
    backing: &(impl HostAllocator + Sync),
) -> Result<CoverageRun, CoverageError> {
    if !meter::is_there() {
        return Err(CoverageError::NotLoaded);
    }
    let driver = match job.way {
        Way::Loader => drivers::through_loader(job.driver.clone())?,
        // SAFETY: forwarded.
        Way::Direct => unsafe { drivers::directly(job.driver.clone()) }?,
    };
    // SAFETY: forwarded.
    let accounts = unsafe { Accounts::new(backing, Watching::default()) }.map_err(failed)?;
    let options = Options {
        seed: job.seed,
        rounds: job.rounds,
        ..Options::default()
    };
    let ran = under_the_meter(&driver, &accounts, &options);
    accounts.finish().map_err(failed)?;
    let opening = driver.opening();
    ran.map(|run| CoverageRun {
        opening_calls: opening.calls,
        opening_bytes: opening.bytes,
        opening_mapped_bytes: opening.mapped,
        ..run
    })
}

/// Runs the workload once under the meter of this process, on the calling thread, with the callbacks of `hooks`.
///
/// # Errors
/// [`CoverageError`]: there is no meter, or the workload failed.
pub fn under_the_meter(
    driver: &Selected,
    hooks: &dyn Hooks,
    options: &Options,
) -> Result<CoverageRun, CoverageError> {
    meter::this_thread_is_application();
    let coverage = CallbackCoverage::begin().ok_or(CoverageError::NotLoaded)?;
    let hooks = Metered::new(hooks, &coverage.requested);
    workload::run(driver, &hooks, options).map_err(failed)?;
    coverage.run().ok_or(CoverageError::NotLoaded)
}

pub(super) fn failed(error: impl ToString) -> CoverageError {
    CoverageError::Failed {
        reason: error.to_string(),
    }
}
