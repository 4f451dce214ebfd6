//! One run on one driver, in a child of this program: a driver may crash.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::child_run::sentence;
use super::files::unwritable;
use super::own_folder::{self, OwnFolder};
use super::run::RunError;
use super::{ProgramError, files};
use crate::callback_coverage::{self, CoverageError};
use crate::cli::Drive;
use crate::drivers::Selected;
use crate::progress::Progress;
use crate::signals::{ChildKind, HeldSignals, is_from_outside, signal_name};
use crate::workload_child::{
    self, Job, JobResult, OWN_FAILURE, REFUSALS, STATE, Stacks, TRACE, Way,
};
use vk_report::guard_run::Guarding;
use vk_report::guard_run::refused::RefusalLog;
use vk_report::report::origins::EventLog;
use vk_report::report::{Coverage, Report};
use vk_report::state_file;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    /// The child has said why.
    #[error("{0}")]
    Failed(String),
    /// The child could not write its result, and has said why on the error output; or it panicked.
    #[error("the run has no result: the lines above say why")]
    NoAnswer,
    /// The driver has ended its process.
    #[error("{driver}: {how}")]
    Died {
        /// The driver's name.
        driver: String,
        /// A sentence.
        how: String,
    },
}

/// A run on a driver.
pub(super) struct Driven {
    pub(super) report: Report,
    /// The events in the order of time; empty if they are not kept.
    pub(super) events: EventLog,
}

/// Runs the workload, with the guard and refusals of `guarding`, and records it if requested. `stacks` are kept.
pub(super) fn drive(
    selected: &Selected,
    options: &Drive,
    guarding: &Guarding,
    stacks: Stacks,
) -> Result<Driven, ProgramError> {
    let recorded = options.record.as_deref();
    recorded.map_or(Ok(()), files::check)?;
    let seed = seed(options);
    // Held until the folder is gone.
    let mut signals = HeldSignals::new(ChildKind::Helper)?;
    let ran = run_child(selected, options, (seed, guarding, stacks), &mut signals);
    signals.interrupted()?;
    drop(signals);
    let Ran { ended, trace, took } = ran?;
    if let Some((file, trace)) = recorded.zip(trace) {
        files::write_trace(file, &trace)?;
    }
    let JobResult { mut report, events } = ended?;
    if !options.no_coverage {
        report.callback_coverage = Some(coverage(selected, (seed, options.rounds), took)?);
    }
    Ok(Driven { report, events })
}

/// Callback coverage, in a folder that is gone afterwards.
fn coverage(
    selected: &Selected,
    (seed, rounds): (u32, u32),
    took: Duration,
) -> Result<Coverage, ProgramError> {
    let progress = Progress::new(&selected.title(), rounds.into());
    let step = |done, next: &str| progress.at(done, next);
    // Held until the folder is gone.
    let mut signals = HeldSignals::new(ChildKind::Helper)?;
    let measured = match OwnFolder::new(own_folder::METER) {
        Ok(folder) => {
            let path = folder.path();
            callback_coverage::measure(selected, (seed, rounds), took, path, &step, &mut signals)
        }
        Err(reason) => callback_coverage::absent(&CoverageError::Unwritable {
            reason: reason.to_string(),
        }),
    };
    signals.interrupted()?;
    Ok(measured)
}

/// What a child has left.
struct Ran {
    ended: Result<JobResult, DriveError>,
    /// What it recorded, also where it failed.
    trace: Option<Vec<u8>>,
    took: Duration,
}

/// Runs the child in a folder that is gone afterwards.
fn run_child(
    selected: &Selected,
    options: &Drive,
    (seed, guarding, stacks): (u32, &Guarding, Stacks),
    signals: &mut HeldSignals,
) -> Result<Ran, ProgramError> {
    let folder =
        OwnFolder::new(own_folder::DRIVE).map_err(|reason| RunError::NoFolder { reason })?;
    let job = Job {
        driver: selected.info().clone(),
        way: Way::of(selected),
        seed,
        rounds: options.rounds,
        is_observed: true,
        check: !options.no_check,
        records: options.record.is_some(),
        stacks,
        settings: guard_settings(guarding, folder.path()),
        folder: folder.path().to_owned(),
    };
    let began = Instant::now();
    let status = signals.status(&mut workload_child::command(&job)?)?;
    let took = began.elapsed();
    let ended = match workload_child::read(folder.path()) {
        Some(Err(reason)) => Err(DriveError::Failed(reason)),
        // A driver may also crash when the process ends.
        Some(Ok(result)) if status.success() => Ok(result),
        None if status.code() == Some(OWN_FAILURE.into()) => Err(DriveError::NoAnswer),
        _ => Err(died(&selected.title(), status, guarding, folder.path())),
    };
    let trace = folder.path().join(TRACE);
    let trace = match fs::read(&trace) {
        Ok(bytes) => Some(bytes),
        // Without a result the reason for that is what counts.
        Err(reason) if job.records && ended.is_ok() => return Err(unwritable(&trace, reason)),
        Err(_) => None,
    };
    Ok(Ran { ended, trace, took })
}

/// The job of a run that the linked layer does not observe, for `run`.
pub(super) fn unobserved(selected: &Selected, options: &Drive) -> Job {
    Job {
        driver: selected.info().clone(),
        way: Way::of(selected),
        seed: seed(options),
        rounds: options.rounds,
        is_observed: false,
        check: !options.no_check,
        records: false,
        stacks: Stacks::None,
        settings: Vec::new(),
        folder: PathBuf::new(),
    }
}

/// The layer's settings for guard and refusals.
fn guard_settings(guarding: &Guarding, folder: &Path) -> Vec<(String, String)> {
    let refusals = || folder.join(REFUSALS).display().to_string();
    let settings = [
        ("guard", guarding.guard.map(|guard| guard.to_string())),
        (
            "back_end",
            guarding.back_end.map(|back_end| back_end.name().to_owned()),
        ),
        ("fail", guarding.fail.map(|fail| fail.to_string())),
        ("refusals", guarding.fail.map(|_| refusals())),
    ];
    settings
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// The child has died: by what, and where it was.
fn died(driver: &str, status: ExitStatus, guarding: &Guarding, folder: &Path) -> DriveError {
    if let Some(signal) = status.signal().filter(|signal| is_from_outside(*signal)) {
        return DriveError::Failed(format!(
            "{driver}: the workload was ended by {}, which comes from another process, or from the system where memory or a limit is used up: \
             free memory or raise the limit (ulimit), and run it again",
            signal_name(signal)
        ));
    }
    let state = state_file::read(&folder.join(STATE)).ok();
    let last = state.and_then(|state| Some((state.last_command?, state.started_commands)));
    let refusals = guarding.fail.map(|plan| {
        let log = RefusalLog::read(&folder.join(REFUSALS)).unwrap_or_default();
        (plan.to_string(), log)
    });
    DriveError::Died {
        driver: driver.to_owned(),
        how: sentence(status, last, refusals.as_ref()),
    }
}

/// The requested seed, or one from the clock.
fn seed(options: &Drive) -> u32 {
    options.seed.unwrap_or_else(seed_of_the_clock)
}

fn seed_of_the_clock() -> u32 {
    // Any value is fine: the report names it.
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.subsec_nanos() ^ time.as_secs() as u32)
}
