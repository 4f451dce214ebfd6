//! The workload in a child of this program, with the linked layer between it and the driver.
//!
//! ```text
//!   steward --Job, as an argument--> child: workload -> layer -> loader or driver
//!           <--JobResult, a file------         \--> layer.json, the state file, refusals
//! ```
//!
//! The layer observes one run a process, and a driver may crash.

use std::cell::Cell;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use VkLayer_steward_memory::in_process;
use serde::{Deserialize, Serialize};

use crate::drivers::{self, OpenDriver, Selected, chained};
use crate::os::run_folder::STATE;
use crate::progress::Progress;
use crate::symbols::Symbols;
use crate::workload::{self, Moment, Options, WorkloadError};
use vk_report::guard_run::Layers;
use vk_report::report::origins::{EventLog, SiteRecorder, StackCapture};
use vk_report::report::{ProgramAccounts, Report, RunEnvironment};

pub(crate) const COMMAND: &str = "workload-child";

/// What the layer writes, in the job's folder.
const LAYER: &str = "layer.json";
pub(crate) const REFUSALS: &str = "refusals";
const ANSWER: &str = "answer.json";
pub(crate) const TRACE: &str = "trace";

/// The child could not write its answer, and has said why on its error output. The code is that of a panic, which is
/// this program's fault as well.
pub(crate) const OWN_FAILURE: u8 = 101;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) driver: Selected,
    pub(crate) seed: u32,
    pub(crate) rounds: u32,
    /// Without the layer the workload is a program like any other, and nothing is answered.
    pub(crate) is_observed: bool,
    pub(crate) check: bool,
    pub(crate) records: bool,
    pub(crate) stacks: Stacks,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) folder: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stacks {
    None,
    Blocks,
    /// And each event, for a profile over time.
    Events,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct JobResult {
    pub(crate) report: Report,
    pub(crate) events: EventLog,
}

pub(crate) fn command(job: &Job) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.arg(COMMAND).arg(serde_json::to_string(job)?);
    job.driver.narrow(&mut command);
    Ok(command)
}

/// The answer, or why there is none, goes to the job's folder. Returns the exit code.
pub(crate) fn run(job: &str) -> io::Result<u8> {
    let job: Job = serde_json::from_str(job)?;
    if !job.is_observed {
        let ran = open(&job).and_then(|driver| {
            let options = options(&job);
            workload::run(&driver, &options, &|_| {})
                .map_err(|error| ChildError::Workload { driver: job.driver.title(), error })
        });
        return ran.map(|_| 0).map_err(io::Error::other);
    }
    let answer = answer(&job).map_err(|error| error.to_string());
    let file = job.folder.join(ANSWER);
    let written = serde_json::to_vec(&answer).map_err(io::Error::from);
    match written.and_then(|answer| fs::write(&file, answer)) {
        Ok(()) => Ok(0),
        Err(reason) => {
            let unwritten = unwritten(&file, &reason);
            let _ = writeln!(io::stderr(), "steward: {unwritten}");
            Ok(OWN_FAILURE)
        }
    }
}

fn unwritten(file: &Path, reason: &io::Error) -> String {
    format!(
        "{} could not be written ({reason}): free some space there, name another folder with TMPDIR, or raise the limit of file sizes \
         (ulimit -f)",
        file.display()
    )
}

pub(crate) fn read(folder: &Path) -> Option<Result<JobResult, String>> {
    serde_json::from_slice(&fs::read(folder.join(ANSWER)).ok()?).ok()
}

#[derive(Debug, thiserror::Error)]
enum ChildError {
    #[error(transparent)]
    Open(#[from] drivers::OpenError),
    #[error("{driver}: {error}")]
    Workload { driver: String, error: WorkloadError },
    #[error(transparent)]
    Host(#[from] alloc_core::HostError),
    #[error("{}", unwritten(file, reason))]
    Unwritten { file: PathBuf, reason: io::Error },
    #[error("the layer's report cannot be read ({0}): please report this defect")]
    NoReport(io::Error),
    #[error("the layer panicked, as the lines above say: please report this defect")]
    Panicked,
    #[error("the guard or the plan was not set up: run this driver alone, and the layer says why")]
    NotGuarded,
    #[error("the trace could not be recorded: free host memory")]
    NoTrace,
}

fn open(job: &Job) -> Result<OpenDriver, ChildError> {
    // SAFETY: the loader has just run the library that this manifest names, in the child that showed the device.
    Ok(unsafe { job.driver.open() }?)
}

fn options(job: &Job) -> Options {
    Options { seed: job.seed, rounds: job.rounds, ..Options::default() }
}

fn answer(job: &Job) -> Result<JobResult, ChildError> {
    let direct = open(job)?;
    let recorder = match job.stacks {
        Stacks::None => None,
        Stacks::Blocks => Some(SiteRecorder::default()),
        Stacks::Events => Some(SiteRecorder::default().with_events()),
    };
    let stacks = recorder.map(StackCapture::new).transpose()?;
    let observation = in_process::Observation {
        opened: direct.opened(),
        stacks: stacks.clone(),
        records: job.records,
        settings: settings(job),
    };
    let Some(selected) = chained(&direct, observation) else {
        unreachable!("the first chain of this process");
    };
    let options = options(job);
    let title = job.driver.title();
    let progress = Progress::new(&title, job.rounds.into());
    let environment = Cell::new(None);
    let ran = workload::run(&selected, &options, &|moment| match moment {
        Moment::PhaseBegins(name) => in_process::phase(name),
        Moment::DeviceCreated => environment.set(Some(drivers::run_environment(&direct))),
        Moment::RoundBegins(round) => progress.at(round.into(), "rounds"),
    });
    if job.records {
        let mut trace = String::new();
        if !in_process::write_trace(&title, &mut trace) {
            return Err(ChildError::NoTrace);
        }
        let file = job.folder.join(TRACE);
        fs::write(&file, trace).map_err(|reason| ChildError::Unwritten { file, reason })?;
    }
    if in_process::has_panicked() {
        return Err(ChildError::Panicked);
    }
    let file = job.folder.join(LAYER);
    let (mut report, objects) = match fs::read_to_string(&file) {
        Ok(text) => of_layer(&text)?,
        // The layer has said why above.
        Err(reason) if ran.is_ok() => return Err(ChildError::Unwritten { file, reason }),
        // There was no instance, so that the layer had nothing to report.
        Err(_) => {
            let source = workload::Report::new(&selected).source(job.seed, 0, Vec::new());
            (Report::of_trace(source, Vec::new(), 0), Vec::new())
        }
    };
    if !job.check {
        // The layer's own note says less.
        report.limits.clear();
    }
    let layers = in_process::layers();
    let is_guarded = job.settings.iter().any(|(name, _)| name == "guard" || name == "fail");
    if is_guarded && layers.is_none() {
        return Err(ChildError::NotGuarded);
    }
    report.guard = layers.and_then(Layers::guard_run);
    report.fail = layers.and_then(|layers| layers.fail_run(ran.as_ref().err().map(ended)));
    let was_refused = report.fail.as_ref().is_some_and(|fail| fail.refused > 0);
    let ran = match ran {
        // All objects were destroyed: the report covers the unfinished run.
        Err(_) if was_refused => workload::Report::new(&selected),
        ran => ran.map_err(|error| ChildError::Workload { driver: title, error })?,
    };
    let commands = report.phases.iter().map(|phase| phase.commands).sum();
    report.source = ran.source(job.seed, commands, objects);
    let measured = report.callback_coverage.as_mut();
    if let Some(run) = measured.and_then(|coverage| coverage.with_loader.as_mut()) {
        let opening = direct.opening();
        run.opening_calls = opening.calls;
        run.opening_bytes = opening.bytes;
        run.opening_mapped_bytes = opening.mapped;
    }
    report.device_memory = ran.device_memory;
    report.defragmentation = ran.defragmentation;
    let mut events = EventLog::default();
    if let Some(stacks) = &stacks {
        let at = stacks.moment().at;
        stacks.with(|recorder| {
            // The last phase, whose end no other one has told.
            recorder.end_phase(false, at);
            report.leaks = Some(recorder.leaks(&report.phases));
            report.call_sites = Some(recorder.sites());
            events = recorder.drain_events();
        });
    }
    let symbols = &mut Symbols::default();
    if let Some(guard) = &mut report.guard {
        symbols.annotate_run(guard);
    }
    report.environment = environment.take();
    let warning = report.environment.as_ref().and_then(RunEnvironment::warning);
    report.limits.extend(warning);
    if !job.check {
        // Without this note an unchecked run would look free of findings.
        let note = "--no-check: callbacks were not judged by Vulkan's rules";
        report.limits.push(note.to_owned());
    }
    if let Some(leaks) = &mut report.leaks {
        leaks.name_rules(&report.findings);
    }
    symbols.name_leaks_of_run(&mut report);
    Ok(JobResult { report, events })
}

/// The layer's settings. They live for ever, as the layer does.
fn settings(job: &Job) -> &'static [(&'static str, &'static str)] {
    let file = |name: &str| job.folder.join(name).display().to_string();
    let mut settings = vec![
        ("json".to_owned(), file(LAYER)),
        ("state".to_owned(), file(STATE)),
        ("brackets".to_owned(), "all".to_owned()),
        ("check".to_owned(), job.check.to_string()),
    ];
    settings.extend(job.settings.iter().cloned());
    let settings: Vec<(&str, &str)> =
        settings.into_iter().map(|(name, value)| (&*name.leak(), &*value.leak())).collect();
    settings.leak()
}

fn created_objects(program: &ProgramAccounts) -> Vec<(String, u32)> {
    let created = program.kinds().filter(|row| row.objects_created > 0);
    let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
    created.map(|row| (row.kind.clone(), count(row.objects_created))).collect()
}

fn of_layer(text: &str) -> Result<(Report, Vec<(String, u32)>), ChildError> {
    let mut report: Report = serde_json::from_str(text).map_err(|error| ChildError::NoReport(error.into()))?;
    let program = report.program.take();
    let objects = program.as_ref().map(created_objects).unwrap_or_default();
    report.vulkan_memory = None;
    // One instance and one device.
    for row in report.contexts.iter_mut().filter(|row| row.group) {
        let (name, peak) = match row.depth {
            0 => ("vulkan", report.peak_bytes),
            _ => ("objects of the device", row.peak_bytes),
        };
        (row.name, row.peak_bytes) = (name.to_owned(), peak);
    }
    Ok((report, objects))
}

/// How a refused workload ended. The required result has no remedy.
fn ended(error: &WorkloadError) -> String {
    match error {
        WorkloadError::Command { command, result } if error.is_out_of_host_memory() => {
            format!("{command} answered {result:?}, as it must")
        }
        WorkloadError::Suballocation { what, .. } if error.is_out_of_host_memory() => {
            format!("{what}: the driver answered ERROR_OUT_OF_HOST_MEMORY, as it must")
        }
        other => other.to_string(),
    }
}
