#![forbid(unsafe_code)]

mod environment;
mod exit_code;
pub(super) mod faults;
mod folder;
mod known;
mod metered;
mod no_report;
pub(super) mod place;
mod recorded;
mod reports;
mod requested;
mod search_path;
mod state_report;
mod sweep;
mod write_expect;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use std::time::Duration;

use super::files;
use super::layer::Library;
use super::own_folder::OwnFolder;
use super::terminal::Terminal;
use super::{Outcome, ProgramError, check, outputs};
use crate::cli::{Output, RunArgs};
use crate::drivers;
use crate::expectations::KnownOfDrivers;
use crate::os::executable;
use crate::os::own_folder::processes_of;
use crate::os::processes::{is_running, listed};
use crate::os::{ChildKind, HeldSignals, ended_by, exit_code as code_of};
use crate::workload_child::{self, Job};
use no_report::{no_report, other_libraries};
use reports::Reports;
use state_report::Missing;
use sweep::SweepLimits;
use vk_report::guard_run::Guarding;
use vk_report::report::one_line;

pub(super) use requested::report;

const NOT_RUNNABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

const TIME_LIMIT: Duration = Duration::from_secs(60);
const SELECT: &str = "VK_LOADER_DRIVERS_SELECT";

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    #[error(
        "the layer {} was found neither beside the program nor in it, nor where STEWARD_LAYER says: build it with \
         `cargo build --release -p vk-layer`, and name it with STEWARD_LAYER or put it beside the program",
        crate::os::layer_place::LIBRARY
    )]
    NoLayer,
    #[error("no manifest of a driver fits --driver {pattern:?}: there are {manifests}")]
    NoManifest { pattern: OsString, manifests: String },
    #[error("no folder for temporary files could be made ({reason}): {}", folder_remedy(reason))]
    NoFolder { reason: io::Error },
    #[error("the report could not be written to the error output ({0}): name a file with --text")]
    Lost(io::Error),
}

fn folder_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::FileTooLarge => "raise the limit of file sizes (ulimit -f)",
        _ => {
            "name one with TMPDIR that has room, can be written to and may hold libraries, without `:`, `%` and control characters"
        }
    }
}

pub(super) fn command(options: &RunArgs, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    let guarding = Guarding::from(options.guarding);
    if let Some(runs) = options.guarding.runs_of_sweep() {
        return sweep(options, &guarding, runs, out);
    }
    let expect = options.expect.as_deref().map(expected).transpose()?;
    // Refuse an invalid file before the run.
    let write_expect = options.write_expect.as_deref();
    write_expect.map_or(Ok(None), check::written_before)?;
    let mut options = with_filter(options)?;
    options.stacks |= options.output.profile.is_some();
    with_layer(&options, &guarding, expect, out)
}

fn expected(name: &str) -> Result<KnownOfDrivers, ProgramError> {
    check::expectations_named(name).map(|(name, expectations)| KnownOfDrivers { name, expectations })
}

fn sweep(options: &RunArgs, guarding: &Guarding, runs: u64, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    let options = with_filter(options)?;
    let swept = sweep::Swept {
        command: &|| Ok(program(&options)),
        options: &options,
        guarding,
        limits: SweepLimits { runs, time: options.time_limit.map_or(TIME_LIMIT, Duration::from_secs) },
    };
    swept.run(out)
}

pub(super) fn sweep_drive(
    job: &Job,
    guarding: &Guarding,
    runs: u64,
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    let options = RunArgs { no_check: !job.check, output: output.clone(), ..RunArgs::default() };
    let swept = sweep::Swept {
        command: &|| workload_child::command(job),
        options: &options,
        guarding,
        limits: SweepLimits { runs, time: TIME_LIMIT },
    };
    swept.run(out)
}

fn with_filter(options: &RunArgs) -> Result<RunArgs, ProgramError> {
    let mut options = options.clone();
    if let Some(pattern) = options.driver.take() {
        let filter = drivers::selection(&pattern)
            .map_err(|manifests| RunError::NoManifest { pattern, manifests: manifests.join(", ") })?;
        options.driver = Some(filter);
    }
    Ok(options)
}

fn program(options: &RunArgs) -> Command {
    // The command line has at least one word.
    let (program, arguments) = options.program.split_first().unzip();
    let mut command = Command::new(program.map_or(OsStr::new(""), OsString::as_os_str));
    command.args(arguments.unwrap_or_default());
    if let Some(driver) = &options.driver {
        command.env(SELECT, driver);
    }
    environment::set_stacks(&mut command, options);
    command
}

/// The layer writes its reports into the returned folder.
fn prepare(command: &mut Command, options: &RunArgs, guarding: &Guarding) -> Result<OwnFolder, ProgramError> {
    let layer = Library::find().ok_or(RunError::NoLayer)?;
    let folder = folder::new(&layer).map_err(|reason| RunError::NoFolder { reason })?;
    environment::set(command, folder.path(), options.no_check);
    faults::set_environment(command, guarding, folder.path());
    if options.expect.is_some() || options.write_expect.is_some() || options.exit_code {
        // Expectations name all commands, including those that record.
        command.env("VK_STEWARD_MEMORY_BRACKETS", "all");
    }
    if options.record.is_some() {
        recorded::set_environment(command, folder.path());
    }
    Ok(folder)
}

fn not_started(command: &Command, error: &io::Error) -> Outcome {
    let program = Path::new(command.get_program());
    let (shown, remedy) = (program.display(), executable::remedy(program, error));
    complain(&format!("{shown} cannot be run ({error}): {remedy}"));
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    Outcome::Exited(if is_missing { NOT_FOUND } else { NOT_RUNNABLE })
}

fn with_layer(
    options: &RunArgs,
    guarding: &Guarding,
    expect: Option<KnownOfDrivers>,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    let (mut command, output) = (program(options), &options.output);
    let mut signals = HeldSignals::new(ChildKind::Program)?;
    let folder = prepare(&mut command, options, guarding)?;
    let preload = options.meter.then(|| metered::preload(&mut command, folder.path()));
    let program = PathBuf::from(command.get_program());
    let warning = executable::why_no_layer(&program);
    if let Some(warning) = &warning {
        complain(warning);
    }
    if outputs::is_for_programs(output) {
        // There it would be in front of the result.
        command.stdout(io::stderr());
    }
    let ran = signals.spawn(&mut command).and_then(|mut child| {
        let status = signals.wait(&mut child, None)?.unwrap_or_default();
        Ok((child.id(), status))
    });
    let (process, status) = match ran {
        Ok(ran) => ran,
        Err(error) => return Ok(not_started(&command, &error)),
    };
    signals.release_quit();
    let living = processes_of(folder.path());
    let answered = requested::last_reports(&living);
    let mut reports = Reports::read(folder.path());
    reports.known = expect;
    if reports.has_findings() || options.write_expect.is_some() || options.record.is_some() {
        let select = command.get_envs().find(|(name, _)| *name == SELECT);
        let select = select.and_then(|(_, value)| value);
        known::name_drivers(&mut reports, select, Some(&signals));
    }
    // What is said of it where it was read is enough.
    let is_gate = options.expect.is_some() || options.exit_code || guarding.guard.is_some();
    let is_unread = is_gate && !reports.unreadable.is_empty();
    let mut wrong = Vec::new();
    // Only reports of the layer: states are not judged.
    if options.expect.is_some() || options.exit_code && !options.no_check && !reports.processes.is_empty() {
        let known = reports.known().map(|known| known.expectations);
        wrong.extend(exit_code::unexpected(&known.unwrap_or_default(), &reports));
    }
    reports.compare_findings();
    if let Some(layer) = Library::find() {
        other_libraries(&reports, &layer.file(folder.path())).iter().for_each(|line| complain(line));
    }
    let missing = Missing { findings: !options.no_check, stacks: options.stacks, guard: guarding.guard.is_some() };
    let ended = (process, status);
    let states = state_report::of_folder(folder.path(), ended, &answered, missing, &mut reports.symbols);
    let traces = options.record.as_deref().map(|file| (file, recorded::read(folder.path(), &reports)));
    // A signal that ends this process from now on leaves nothing behind.
    let no_room = no_room(folder.path());
    drop((preload, folder));
    if options.stacks {
        reports.name_functions();
    }
    reports.add_states(states);
    wrong.extend(faults::faults(guarding, &reports));
    if options.exit_code {
        wrong.extend(exit_code::failures(&reports));
    }
    // Some have ended meanwhile.
    let living: Vec<_> = living.into_iter().filter(|it| is_running(*it)).collect();
    if !living.is_empty() {
        complain(&still_running(&program, &living));
    }
    let mut lost = None;
    let has_report = !reports.processes.is_empty();
    if !has_report {
        // A report that cannot be read was there.
        if reports.unreadable.is_empty() {
            complain(&no_room.unwrap_or_else(|| no_report(&program, status)));
        }
    } else if let Some(file) = &options.text {
        let text = reports.text(options.findings, usize::MAX);
        files::write_and_say(file, text.as_bytes())?;
    } else if !outputs::is_for_programs(output) {
        let terminal = Terminal::of_standard_error();
        let text = terminal.rendered(&reports.text(options.findings, terminal.columns()));
        lost = io::stderr().write_all(text.as_bytes()).err();
        // Its reader has read enough; the exit status remains the program's.
        lost = lost.filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
    }
    reports.write_files(output, out)?;
    if let Some((file, traces)) = traces {
        wrong.extend(recorded::write(&traces, file)?);
    }
    if let Some(file) = &options.write_expect {
        wrong.extend(write_expect::write(&reports, file)?);
    }
    if let Some(error) = lost {
        return Err(RunError::Lost(error).into());
    }
    wrong.iter().for_each(|line| complain(line));
    Ok(Outcome::Exited(match code(status) {
        0 if is_unread || !wrong.is_empty() => 1,
        code => code,
    }))
}

fn still_running(program: &Path, living: &[u32]) -> String {
    let (s, run, they) = match living {
        [_] => ("", "runs", "it"),
        _ => ("es", "run", "they"),
    };
    format!(
        "process{s} {} still {run} after {} has ended: what {they} allocate{} from now on is in no report; let the program wait for them, or start \
         them with `steward run` themselves",
        listed(living),
        program.display(),
        if living.len() == 1 { "s" } else { "" },
    )
}

fn no_room(folder: &Path) -> Option<String> {
    // More than the state file takes.
    let tried = fs::write(folder.join("room"), [1; 1 << 16]);
    let is_full = tried.is_err_and(|error| error.kind() == io::ErrorKind::StorageFull);
    is_full.then(|| {
        format!(
            "no report: {} has no room for it: free some space, or name a folder on another disk with TMPDIR",
            folder.display()
        )
    })
}

fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "steward: {}", one_line(what));
}

fn code(status: ExitStatus) -> i32 {
    const UNKNOWN: i32 = 255;
    let by_signal = || ended_by(status).map_or(UNKNOWN, code_of);
    status.code().unwrap_or_else(by_signal)
}
