//! One run on one driver.

use std::cell::Cell;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use alloc_core::HostAllocator;

use super::files::{unwritable, write_and_say};
use super::progress::Progress;
use super::{ProgramError, SYSTEM, files};
use crate::callback_coverage;
use crate::cli::Drive;
use crate::drivers::{self, Selected};
use crate::shared_context::{self, SharingError};
use crate::symbols::Symbols;
use crate::workload::{self, Moment, Options, WorkloadError};
use vk_accounts::accounting::{AccountError, Accounts, Watching};
use vk_accounts::guard_run::{Guarding, Layers};
use vk_accounts::report::origins::{EventLog, SiteRecorder, StackCapture};
use vk_accounts::report::{Report, RunEnvironment};

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    /// The accounts could not be created.
    #[error(transparent)]
    Accounts(#[from] AccountError),
    /// The test of two contexts failed.
    #[error(transparent)]
    Sharing(#[from] SharingError),
    /// A command failed, or a result was wrong.
    #[error("{driver}: {error}")]
    Workload {
        /// The driver's name.
        driver: String,
        /// What went wrong.
        error: WorkloadError,
    },
}

/// A run on a driver.
pub(super) struct Driven {
    pub(super) report: Report,
    /// The events in the order of time; empty if the recorder keeps none.
    pub(super) events: EventLog,
}

/// Runs the workload with accounts over the system's allocator, with the guard and refusals of `guarding`, and records it if requested.
/// `recorder` keeps the call stacks.
pub(super) fn drive(
    selected: &Selected,
    options: &Drive,
    guarding: &Guarding,
    recorder: SiteRecorder,
) -> Result<Driven, ProgramError> {
    let stacks =
        StackCapture::new(recorder).map_err(|error| DriveError::from(AccountError::from(error)))?;
    if guarding.is_asked_for() {
        let layers = Layers::new(guarding)?;
        layers.begin(&title(selected));
        drive_over(&layers, Some(&layers), selected, options, &stacks)
    } else {
        drive_over(&SYSTEM, None, selected, options, &stacks)
    }
}

/// `layers`, if present, are the backing.
fn drive_over(
    backing: &(impl HostAllocator + Sync),
    layers: Option<&Layers>,
    selected: &Selected,
    options: &Drive,
    stacks: &Arc<StackCapture>,
) -> Result<Driven, ProgramError> {
    let recorded = options.record.as_deref();
    recorded.map_or(Ok(()), files::check)?;
    let own: &(dyn HostAllocator + Sync) = &SYSTEM;
    let watching = Watching {
        stacks: Some(stacks),
        log: recorded.map(|_| own),
        check: (!options.no_check).then_some(own),
        opened: selected.opened(),
    };
    // SAFETY: `SYSTEM` lives for ever, and layers until `drive` returns; the instance ends with `workload::run`.
    let accounts = unsafe { Accounts::new(backing, watching) };
    let accounts = accounts.map_err(DriveError::from)?;
    let seed = seed(options);
    let settings = Options {
        seed,
        rounds: options.rounds,
        ..Options::default()
    };
    let began = Instant::now();
    let progress = Progress::new(&title(selected), options.rounds.into());
    let environment = Cell::new(None);
    let ran = workload::run_watched(selected, &accounts, &settings, &|moment| match moment {
        Moment::DeviceCreated => {
            environment.set(Some(drivers::run_environment(selected)));
        }
        Moment::RoundBegins(round) => progress.at(round.into(), "rounds"),
    });
    let took = began.elapsed();
    if let Some(file) = recorded {
        write_trace(&accounts, &title(selected), file)?;
    }
    let refused = |layers: &Layers| layers.fail_run(None).is_some_and(|fail| fail.refused > 0);
    let shared = match &ran {
        Err(_) if !layers.is_some_and(refused) => None,
        // SAFETY: as for the accounts.
        _ => Some(
            unsafe { shared_context::run(selected, backing, !options.no_check) }
                .map_err(DriveError::from)?,
        ),
    };
    let commands = accounts.commands();
    let mut guard = layers.and_then(Layers::guard_run);
    if let Some(guard) = &mut guard {
        Symbols::default().annotate_run(guard);
    }
    let mut done = accounts.finish().map_err(DriveError::from)?;
    let events = std::mem::take(&mut done.events);
    let ends = [
        ran.as_ref().err().map(ended),
        shared
            .as_ref()
            .and_then(|shared| shared.outcome.as_ref().err())
            .map(ended_early),
    ];
    let ends: Vec<_> = ends.into_iter().flatten().collect();
    let fail =
        layers.and_then(|layers| layers.fail_run((!ends.is_empty()).then(|| ends.join("; "))));
    let was_refused = fail.as_ref().is_some_and(|fail| fail.refused > 0);
    let ran = match ran {
        // All objects were destroyed: the report covers the unfinished run.
        Err(_) if was_refused => unfinished(selected, commands),
        ran => ran.map_err(|error| DriveError::Workload {
            driver: title(selected),
            error,
        })?,
    };
    let mut report = Report::of_run(ran.source(seed), ran.device_memory, done);
    report.defragmentation = ran.defragmentation;
    (report.guard, report.fail) = (guard, fail);
    report.environment = environment.take();
    let warning = report
        .environment
        .as_ref()
        .and_then(RunEnvironment::warning);
    report.limits.extend(warning);
    // Without this note an unchecked run would look free of findings.
    report.limits.extend(
        options
            .no_check
            .then(|| "--no-check: callbacks were not judged by Vulkan's rules".to_owned()),
    );
    if let Some(shared) = shared {
        report.leftovers.extend(shared.leftovers);
        if let Some(leaks) = &mut report.leaks {
            leaks.stacks.extend(shared.leaks.stacks);
            leaks.lost = leaks.lost.saturating_add(shared.leaks.lost);
        }
        report.shared_contexts = match shared.outcome {
            Err(_) if was_refused => None,
            told => Some(told.map_err(DriveError::from)?),
        };
    }
    if let Some(leaks) = &mut report.leaks {
        leaks.name_rules(&report.findings);
    }
    Symbols::default().name_leaks_of_run(&mut report);
    report.callback_coverage = (!options.no_coverage).then(|| {
        let step = |done, next: &str| progress.at(done, next);
        callback_coverage::measure(selected, (seed, options.rounds), took, &step)
    });
    Ok(Driven { report, events })
}

/// How a refused workload ended. The required result has no remedy.
fn ended(error: &WorkloadError) -> String {
    match error {
        WorkloadError::Command { command, result } if error.is_out_of_host_memory() => {
            format!("{command} answered {result:?}, as it must")
        }
        other => other.to_string(),
    }
}

/// The same for two contexts.
fn ended_early(error: &SharingError) -> String {
    match error {
        SharingError::Command { command, result } if error.is_out_of_host_memory() => {
            format!("{command} answered {result:?}, as it must")
        }
        error if error.is_out_of_host_memory() => {
            "two contexts: a command answered ERROR_OUT_OF_HOST_MEMORY, as it must".to_owned()
        }
        other => other.to_string(),
    }
}

/// The report of a workload that ended early, without complete rounds and comparisons.
fn unfinished(selected: &Selected, commands: u64) -> workload::Report {
    workload::Report {
        commands,
        ..workload::Report::new(selected)
    }
}

pub(super) fn title(selected: &Selected) -> String {
    format!(
        "{} {}",
        selected.info().title(),
        selected.info().driver_info
    )
}

fn write_trace(accounts: &Accounts<'_>, driver: &str, file: &Path) -> Result<(), ProgramError> {
    let mut text = String::new();
    accounts
        .write_trace(driver, &mut text)
        .map_err(|error| DriveError::from(AccountError::from(error)))?;
    let mut bytes = text.into_bytes();
    if file.extension().is_some_and(|ending| ending == "gz") {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        bytes = packed
            .write_all(&bytes)
            .and_then(|()| packed.finish())
            .map_err(|reason| unwritable(file, reason))?;
    }
    write_and_say(file, &bytes)
}

/// The requested seed, or one from the clock.
pub(super) fn seed(options: &Drive) -> u32 {
    options.seed.unwrap_or_else(seed_of_the_clock)
}

fn seed_of_the_clock() -> u32 {
    // Any value is fine: the report names it.
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.subsec_nanos() ^ time.as_secs() as u32)
}
