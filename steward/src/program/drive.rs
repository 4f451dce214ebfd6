//! One run on one driver, in a child of this program: a driver may crash.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::all_drivers::{self, or_report};
use super::child_run::sentence;
use super::files::unwritable;
use super::own_folder::{self, OwnFolder};
use super::run::{self, RunError, faults};
use super::{Outcome, ProgramError, files, outputs, select, shown};
use crate::callback_coverage::{self, CoverageError};
use crate::cli::{Drive, is_all};
use crate::drivers::{self, Selected};
use crate::os::run_folder::STATE;
use crate::os::{ChildKind, HeldSignals, MORE_MEMORY, ended_by, is_from_outside, signal_name};
use crate::progress::Progress;
use crate::workload_child::{self, Job, JobResult, OWN_FAILURE, REFUSALS, Stacks, TRACE};
use vk_report::guard_run::Guarding;
use vk_report::guard_run::refused::RefusalLog;
use vk_report::report::origins::EventLog;
use vk_report::report::{Coverage, Report};
use vk_report::state_file;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    #[error("{0}")]
    Failed(String),
    /// The child has said why on the error output; or it panicked.
    #[error("the run has no result: run this driver alone, and the lines above this one say why")]
    NoAnswer,
    #[error("{driver}: {how}")]
    Died { driver: String, how: String },
}

pub(super) struct Driven {
    pub(super) report: Report,
    /// The events in the order of time; empty if they are not kept.
    pub(super) events: EventLog,
}

pub(super) fn command(options: &Drive, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    let guarding = Guarding::from(options.guarding);
    let (output, stacks) = (&options.output, outputs::stacks(&options.output));
    let driven = |selected: &Selected| drive(selected, options, &guarding, stacks);
    let names_sites = options.detail.depth > 0 || outputs::has_files(output);
    let shown = |report| shown(report, &options.detail, options.exit_code, names_sites);
    if options.driver.as_deref().is_some_and(is_all) {
        let one = |selected: &Selected| Ok(shown(driven(selected)?.report));
        return all_drivers::each((options.direct, Report::FORMAT), &one, output, out);
    }
    let (selected, absent) = match select(options.driver.as_deref(), options.direct) {
        Ok(selected) => (selected, None),
        Err(error) if options.is_implied && options.driver.is_none() => {
            let own = drivers::select(Some(drivers::REFERENCE))?;
            (own, Some(format!("no driver: {error}")))
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(runs) = options.guarding.runs_of_sweep() {
        if selected.is_direct {
            return Err(ProgramError::SweepDirect);
        }
        return run::sweep_drive(&unobserved(&selected, options), &guarding, runs, output, out);
    }
    let ended = driven(&selected).and_then(|Driven { mut report, events }| {
        report.limits.extend(absent);
        shown(report).write(Some(&events), output, out)
    });
    or_report(ended, Report::FORMAT, output, out)
}

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

fn coverage(selected: &Selected, (seed, rounds): (u32, u32), took: Duration) -> Result<Coverage, ProgramError> {
    let progress = Progress::new(&selected.title(), rounds.into());
    let step = |done, next: &str| progress.at(done, next);
    let mut signals = HeldSignals::new(ChildKind::Helper)?;
    let folder =
        OwnFolder::new(own_folder::METER).map_err(|reason| CoverageError::Unwritable { reason: reason.to_string() });
    let measured = folder.and_then(|folder| {
        let run = (seed, rounds, took);
        callback_coverage::measure(selected, run, folder.path(), &step, &mut signals)
    });
    let measured = measured.unwrap_or_else(|error| Coverage { absent: Some(error.to_string()), ..Coverage::default() });
    signals.interrupted()?;
    Ok(measured)
}

struct Ran {
    ended: Result<JobResult, DriveError>,
    /// What it recorded, also where it failed.
    trace: Option<Vec<u8>>,
    took: Duration,
}

fn run_child(
    selected: &Selected,
    options: &Drive,
    (seed, guarding, stacks): (u32, &Guarding, Stacks),
    signals: &mut HeldSignals,
) -> Result<Ran, ProgramError> {
    let folder = OwnFolder::new(own_folder::DRIVE).map_err(|reason| RunError::NoFolder { reason })?;
    let refusals = folder.path().join(REFUSALS);
    let settings = faults::settings(guarding, &refusals);
    let job = Job {
        driver: selected.clone(),
        seed,
        rounds: options.rounds,
        is_observed: true,
        check: !options.no_check,
        records: options.record.is_some(),
        stacks,
        settings: settings.map(|(name, value)| (name.to_owned(), value)).collect(),
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

pub(super) fn unobserved(selected: &Selected, options: &Drive) -> Job {
    Job {
        driver: selected.clone(),
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

fn died(driver: &str, status: ExitStatus, guarding: &Guarding, folder: &Path) -> DriveError {
    if let Some(signal) = ended_by(status).filter(|signal| is_from_outside(*signal)) {
        return DriveError::Failed(format!(
            "{driver}: the workload was ended by {}, which comes from another process, or from the system where memory or a limit is used up: \
             {MORE_MEMORY}, and run it again",
            signal_name(signal)
        ));
    }
    let state = state_file::read(&folder.join(STATE)).ok();
    let last = state.and_then(|state| Some((state.last_command?, state.started_commands)));
    let refusals = guarding.fail.map(|plan| {
        let log = RefusalLog::read(&folder.join(REFUSALS)).unwrap_or_default();
        (plan.to_string(), log)
    });
    DriveError::Died { driver: driver.to_owned(), how: sentence(status, last, refusals.as_ref()) }
}

fn seed(options: &Drive) -> u32 {
    options.seed.unwrap_or_else(seed_of_the_clock)
}

fn seed_of_the_clock() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.subsec_nanos() ^ time.as_secs() as u32)
}
