//! Runs the commands of the program.

mod all_drivers;
mod check;
mod child_run;
mod drive;
mod files;
mod layer;
mod lock;
mod mark;
mod options;
mod output_paths;
mod outputs;
pub(crate) mod own_folder;
mod processes;
mod requests;
mod rules;
mod run;
mod symbols;
mod terminal;
mod top;

use std::io::{self, Write};

use crate::cli::{Cli, Command, DiffArgs, Drive, Output};
use crate::diff::{self, Diff, DiffFilter};
use crate::drivers::{self, DriverError, DriverTable, Selected};
use crate::expectations::{self, Checked, EXPECTATIONS, FileFault};
use crate::replay::{self, ReplayError, TraceFile};
use crate::report::{ReadError, ReportOrList, html};
use crate::signals::{self, HelperError, signal_name};
use crate::workload_child;
use drive::{DriveError, Driven};
use terminal::Terminal;
use vk_callbacks::check::Opened;
use vk_report::guard_run::{Guarding, GuardingError};
use vk_report::report::Report;

/// How the program ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Success; a check found everything as expected.
    Done,
    /// A check, a guard, or a comparison with `--exit-code` found a difference or an error, and reported it.
    Unexpected,
    /// A child of the program failed, and wrote its error to the error output.
    Failed,
    /// A started program ended with this status.
    Exited(u8),
}

impl Outcome {
    fn of(is_as_expected: bool) -> Self {
        if is_as_expected {
            Self::Done
        } else {
            Self::Unexpected
        }
    }
}

/// What helps if a file cannot be written.
fn remedy(reason: &io::Error) -> &'static str {
    match reason.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or name a file on another disk"
        }
        io::ErrorKind::FileTooLarge => "raise the limit of file sizes (`ulimit -f`)",
        _ => "name a file in a folder that can be written to",
    }
}

/// An error of the program: one sentence that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// No driver, or none of that name.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The run failed.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The driver cannot be opened without the loader.
    #[error(transparent)]
    Reopen(#[from] drivers::ReopenError),
    /// A program cannot be run with the layer.
    #[error(transparent)]
    Run(#[from] run::RunError),
    /// The state of a program cannot be shown.
    #[error(transparent)]
    Top(#[from] top::TopError),
    /// The layer cannot be installed.
    #[error(transparent)]
    Layer(#[from] layer::LayerError),
    /// An option of earlier versions.
    #[error(
        "the layer observes every run of `drive` now: leave --layer out, or use `steward run` to put it below another program"
    )]
    LayerOption,
    /// A running program was asked in vain.
    #[error(transparent)]
    Request(#[from] requests::RequestError),
    /// The trace cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A file cannot be written.
    #[error("{file} cannot be written ({reason}): {}", remedy(.reason))]
    Unwritable {
        /// The file.
        file: String,
        /// The error of the operating system.
        reason: io::Error,
    },
    /// A file cannot be read.
    #[error(
        "{file} cannot be read ({reason}): name a file with the reports of a guard, or `-` for the standard input"
    )]
    Unreadable {
        /// The file.
        file: String,
        /// The error of the operating system.
        reason: io::Error,
    },
    /// Two results for one file, or a result for a file that is read.
    #[error("{first} and {second} both name {file}: name two files")]
    SameFile {
        /// The first option.
        first: String,
        /// The second option.
        second: String,
        /// The file.
        file: String,
    },
    /// `-` for an option that needs a file.
    #[error(
        "{by} writes a file, and cannot write to the standard output: name a file, `./-` if it is to be called `-`"
    )]
    NoFile {
        /// The option.
        by: String,
    },
    /// Neither file of a comparison holds a report.
    #[error(
        "neither file holds a report, since nothing ran: there is nothing to compare, so run the driver or program again"
    )]
    NothingToCompare,
    /// Two reports from the standard input.
    #[error("`-` is the standard input, which can be read once: name a file for one of the two")]
    ReadTwice,
    /// `--write-expect` would overwrite a file of another kind.
    #[error(
        "{file} holds something else than expectations ({reason}): --write-expect would destroy it; name another file"
    )]
    NotExpectations {
        /// The file.
        file: String,
        /// Why it is none.
        reason: String,
    },
    /// The command runs no driver.
    #[error(
        "--guard and --fail are for runs of a driver: leave them out, or use them with `drive`, with `check` without --trace, or alone"
    )]
    NothingToGuard,
    /// The command cannot be swept.
    #[error(
        "--fail=each is for `run` and `drive`: use it with one of the two, or name one plan with --fail"
    )]
    NothingToSweep,
    /// An option that means nothing beside `--fail=each`.
    #[error(
        "--fail=each runs the program again and again and only lists how it ends: leave {option} out, or name one plan with --fail"
    )]
    NotInSweep {
        /// The option.
        option: &'static str,
    },
    /// `--fail=each` on a driver that is opened without the loader.
    #[error(
        "--fail=each refuses requests by the layer, which Vulkan's loader loads, and here the driver is opened without the loader: leave --direct \
         out, name another driver than `reference`, or name one plan with --fail"
    )]
    SweepDirect,
    /// `--time-limit` without runs that it limits.
    #[error("--time-limit is for --fail=each: leave it out, or start the program with `timeout`")]
    NoTimeLimit,
    /// Expectations from a run with a guard or refusals.
    #[error(
        "--write-expect writes down what the driver does by itself: leave --guard and --fail out"
    )]
    ExpectGuarded,
    /// A back end without a guard.
    #[error("--guard-back-end says what a guard is to use: name the guard as well, with --guard")]
    NoGuard,
    /// The guard could not be created.
    #[error(transparent)]
    Guarding(#[from] GuardingError),
    /// The command draws no page.
    #[error(
        "--html draws a report, and this makes none: leave it out, or use it with `drive`, `check`, `run`, `report`, `replay` \
         or `diff`"
    )]
    NoPage,
    /// The command keeps no call stacks.
    #[error(
        "--profile needs one run whose call stacks are kept: leave it out, or use it with `drive` or `check` of one driver, `replay`, \
         `report` or `run`, without --fail=each and --write-expect"
    )]
    NoProfile,
    /// The command lists no findings.
    #[error(
        "--findings lists what a report counts, and this command lists no findings: leave it out, or use it with `drive`, `run`, `report` or `replay`"
    )]
    NothingToList,
    /// The page could not be created.
    #[error("the page could not be made: {0}")]
    Page(#[from] askama::Error),
    /// A report cannot be read back.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The output was closed.
    #[error("the output ended: {0}")]
    Output(#[from] io::Error),
    /// The process was asked to end while a child ran, which has ended.
    #[error("ended by {}", signal_name(*.0))]
    Interrupted(i32),
    /// One file for the traces of several drivers.
    #[error(
        "--record writes one trace: name one driver with --driver, `steward drivers` lists them"
    )]
    RecordAll,
    /// One file of expectations for several drivers.
    #[error(
        "--expect and --write-expect name the file of one driver: name it with --driver, `steward drivers` lists them"
    )]
    ExpectAll,
    /// There is no such file of expectations.
    #[error(
        "{file} cannot be read ({reason}): name a file that --write-expect wrote, or one of the bundled ones: {}",
        bundled_expectations()
    )]
    NoExpectations {
        /// The requested name.
        file: String,
        /// The error of the operating system.
        reason: io::Error,
    },
    /// The file is invalid.
    #[error(
        "{file}, {fault}: if it is a list of --write-expect, correct that line; else name another file"
    )]
    Expectations {
        /// The file.
        file: String,
        /// The error with its line.
        fault: FileFault,
    },
    /// The file is about another driver.
    #[error(
        "{file} is about the driver \"{about}\", and this is \"{driver}\": name another file, or none"
    )]
    OtherDriver {
        /// The file.
        file: String,
        /// The driver of the file.
        about: String,
        /// The checked driver.
        driver: String,
    },
    /// Some drivers of `--driver all` could not be run.
    #[error("{failed} of {drivers} drivers could not be run: each said why above")]
    SomeFailed {
        /// How many failed.
        failed: usize,
        /// How many there are.
        drivers: usize,
    },
}

impl ProgramError {
    /// Whether the reader closed the output (`| head`), which is no error.
    #[must_use]
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Ends this process by the signal that [`Interrupted`](Self::Interrupted) names, if the error is that.
    pub fn end_if_interrupted(&self) {
        if let Self::Interrupted(signal) = self {
            signals::end_by(*signal);
        }
    }

    /// Ignores a closed output: it does not change the outcome.
    fn unless_closed_pipe(written: Result<(), Self>) -> Result<(), Self> {
        match written {
            Err(error) if error.is_closed_pipe() => Ok(()),
            written => written,
        }
    }
}

impl From<HelperError> for ProgramError {
    fn from(error: HelperError) -> Self {
        match error {
            HelperError::Io(error) => Self::Output(error),
            HelperError::Interrupted(signal) => Self::Interrupted(signal),
            // None has a limit here.
            HelperError::Overtime => Self::Output(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Runs the command, and prints to `out`.
///
/// # Errors
/// [`ProgramError`].
///
/// # Safety
/// As for [`drivers::select`]: no other thread of the process, including a driver's, may read or write the environment. Call it from `main`.
pub unsafe fn run(cli: &Cli, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    // SAFETY: forwarded.
    match unsafe { run_command(cli, out) } {
        Err(ProgramError::Drive(DriveError::Died { driver, how })) => {
            let format = match cli.command {
                Some(Command::Check(_)) => Checked::FORMAT,
                _ => Report::FORMAT,
            };
            child_run::report(&driver, &how, format, &cli.output, out)
        }
        done => done,
    }
}

/// # Safety
/// As [`run()`].
unsafe fn run_command(cli: &Cli, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    signals::survive_file_limit();
    output_paths::check(cli)?;
    let guarding = Guarding::from(cli.guarding);
    options::check(cli, &guarding)?;
    let sweep = cli.guarding.runs_of_sweep();
    let done = match &cli.command {
        Some(Command::Check(options)) => {
            // SAFETY: forwarded.
            return unsafe { check::check(options, &guarding, &cli.output, out) };
        }
        // SAFETY: forwarded.
        None => return unsafe { drive_first(&guarding, &cli.output, out) },
        Some(Command::Drive(options)) if options.driver.as_deref().is_some_and(is_all) => {
            if options.record.is_some() {
                return Err(ProgramError::RecordAll);
            }
            // SAFETY: forwarded.
            return unsafe { all_drivers::drive(options, &guarding, &cli.output, out) };
        }
        Some(Command::Drive(options)) => {
            // SAFETY: forwarded.
            let selected = unsafe { select(options.driver.as_deref(), options.direct) }?;
            if let Some(runs) = sweep {
                if selected.opened() == Opened::Directly {
                    return Err(ProgramError::SweepDirect);
                }
                let job = drive::unobserved(&selected, options);
                return run::sweep_drive(&job, &guarding, runs, &cli.output, out);
            }
            let stacks = outputs::stacks(&cli.output);
            let driven = drive::drive(&selected, options, &guarding, stacks)?;
            return finish_with(driven, options.exit_code, &cli.output, out);
        }
        Some(Command::Replay(options)) => {
            let trace = TraceFile::open(&options.file)?;
            return finish(replayed(&trace, &cli.output)?, &cli.output, out);
        }
        Some(Command::Run(options)) => {
            return match sweep {
                Some(runs) => run::sweep(options, &guarding, runs, &cli.output, out),
                None => run::run(options, &guarding, &cli.output, out),
            };
        }
        Some(Command::Top(options)) => return top::top(options, out),
        Some(Command::Layer(options)) => return layer::layer(options, out),
        Some(Command::WorkloadChild { job }) => {
            return Ok(Outcome::Exited(workload_child::run(job)?));
        }
        Some(Command::SignalProbe { owner }) => {
            signals::become_probe(*owner);
            Ok(())
        }
        Some(Command::Mark { process }) => mark::mark(process, out),
        Some(Command::Report { process }) => return run::report(process, &cli.output, out),
        Some(Command::Diff(options)) => return diff(options, &cli.output, out),
        Some(Command::Drivers) => {
            // SAFETY: forwarded.
            let listing = unsafe { drivers::list() }?;
            if listing.drivers.is_empty() {
                return Err(listing.no_driver().into());
            }
            let text = format!("{}\n", DriverTable(&listing.drivers));
            outputs::write(
                &cli.output,
                &text,
                &all_drivers::as_data(&listing.drivers),
                outputs::no_page,
                out,
            )
        }
        Some(Command::Symbols(options)) => symbols::symbols(options, &cli.output, out),
        Some(Command::Rules) => {
            let (text, rules) = (rules::text(), rules::as_data());
            outputs::write(&cli.output, &text, &rules, outputs::no_page, out)
        }
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::for_completions(), "steward", &mut script);
            Ok(out.write_all(&script).and_then(|()| out.flush())?)
        }
    };
    done.map(|()| Outcome::Done)
}

/// Selects a driver; with `is_direct` its library is opened without the loader.
///
/// # Safety
/// As for [`drivers::select`].
unsafe fn select(name: Option<&str>, is_direct: bool) -> Result<Selected, ProgramError> {
    // SAFETY: forwarded.
    let selected = unsafe { drivers::select(name) }?;
    if !is_direct {
        return Ok(selected);
    }
    // SAFETY: the loader has just run the library that this manifest names.
    Ok(unsafe { drivers::directly(selected.info().clone()) }?)
}

/// Without arguments: the first driver, or the program's own if there is none.
///
/// # Safety
/// As [`run()`].
unsafe fn drive_first(
    guarding: &Guarding,
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    // SAFETY: forwarded.
    let (selected, absent) = match unsafe { drivers::select(None) } {
        Ok(selected) => (selected, None),
        Err(error) => {
            // SAFETY: forwarded.
            let own = unsafe { drivers::select(Some(drivers::REFERENCE)) }?;
            (own, Some(format!("no driver: {error}")))
        }
    };
    let options = Drive {
        rounds: 1,
        ..Drive::default()
    };
    let mut driven = drive::drive(&selected, &options, guarding, outputs::stacks(output))?;
    driven.report.limits.extend(absent);
    finish(driven, output, out)
}

/// Replays a trace that holds a call: in others nothing can be found.
fn replayed(trace: &TraceFile, output: &Output) -> Result<Driven, ProgramError> {
    let (report, events) = replay::replay_into(trace, outputs::recorder(output))?;
    let mut phases = report.phases.iter();
    let has_calls = phases.any(|phase| phase.blocks > 0 || phase.freed > 0 || phase.commands > 0);
    if has_calls || !report.findings.is_empty() || report.unjudged.is_some() {
        return Ok(Driven { report, events });
    }
    let file = trace.name.clone();
    Err(ReplayError::NoCalls { file }.into())
}

fn finish(driven: Driven, output: &Output, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    finish_with(driven, false, output, out)
}

/// With `exit_code` it is unexpected, too, if something is left or a finding is not known of the driver.
fn finish_with(
    Driven { mut report, events }: Driven,
    exit_code: bool,
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    outputs::name_sites(output, &mut report);
    expectations::name_known(&mut report);
    let is_failure = exit_code && (!report.leftovers.is_empty() || report.has_unknown_findings());
    let terminal = Terminal::of_standard_output(output);
    let text = report
        .text(output.findings)
        .depth(output.depth.into())
        .width(terminal.columns())
        .all_rounds(output.all_rounds);
    let text = text.to_string();
    let outcome = Outcome::of(report.is_clean() && !is_failure);
    let reports = std::slice::from_ref(&report);
    let profiled = outputs::write_profile(output, reports, Some(&events), out);
    let entry = ReportOrList::Report(Box::new(report));
    let page = || Ok(html(std::slice::from_ref(&entry))?);
    outputs::write(output, &text, &entry, page, out)
        .and(profiled)
        .map(|()| outcome)
}

/// Compares two files.
fn diff(options: &DiffArgs, output: &Output, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    let before = ReportOrList::read(&options.before)?;
    let after = ReportOrList::read(&options.after)?;
    let mut entries = before.iter().chain(&after);
    // Nothing would be the same as nothing.
    if !entries.any(|entry| matches!(entry, ReportOrList::Report(_))) {
        return Err(ProgramError::NothingToCompare);
    }
    let filter = DiffFilter {
        threshold: options.threshold / 100.0,
        top: options.top,
        ignore: options.ignore.clone(),
        all: options.all,
    };
    let diffs: Vec<_> = Diff::all(&before, &after)
        .into_iter()
        .map(|diff| diff.filtered(&filter))
        .collect();
    let text: Vec<_> = diffs.iter().map(ToString::to_string).collect();
    let page = || Ok(diff::html(&diffs)?);
    match diffs.as_slice() {
        [one] => outputs::write(output, &text.concat(), one, page, out),
        all => outputs::write(output, &text.join("\n"), &all, page, out),
    }?;
    let is_same = diffs.iter().all(Diff::is_empty);
    Ok(Outcome::of(is_same || !options.exit_code))
}

fn bundled_expectations() -> String {
    EXPECTATIONS.map(|bundled| bundled.name).join(", ")
}

fn is_all(name: &str) -> bool {
    name.trim().eq_ignore_ascii_case("all")
}
