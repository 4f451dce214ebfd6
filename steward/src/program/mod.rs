//! Runs the commands of the program.

mod all_drivers;
mod check;
mod child_run;
mod drive;
mod driver_list;
mod files;
mod layer;
mod manual;
mod mark;
mod output_paths;
mod outputs;
pub(crate) mod own_folder;
mod requests;
mod rules;
mod run;
mod symbols;
mod terminal;
mod top;

use std::ffi::OsString;
use std::io::{self, Write};

use crate::cli::{Cli, Command, Detail, DiffArgs, Output};
use crate::diff::{Diff, DiffFilter};
use crate::drivers::{self, DriverError, Selected};
use crate::expectations::{self, EXPECTATIONS, FileFault};
use crate::os::{self, HelperError, signal_name};
use crate::replay::{self, ReplayError, TraceFile};
use crate::report::{CheckedDriver, ReadError, ReportOrList};
use crate::workload_child;
use all_drivers::DriverResult;
use drive::{DriveError, Driven};
pub use layer::embed as embed_layer;
use terminal::Terminal;
use vk_report::guard_run::GuardingError;
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
    Exited(i32),
}

impl Outcome {
    fn of(is_as_expected: bool) -> Self {
        if is_as_expected { Self::Done } else { Self::Unexpected }
    }
}

fn remedy(reason: &io::Error) -> &'static str {
    match reason.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space, or name a file on another disk",
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
    /// A program cannot be run with the layer.
    #[error(transparent)]
    Run(#[from] run::RunError),
    /// The state of a program cannot be shown.
    #[error(transparent)]
    Top(#[from] top::TopError),
    /// The layer cannot be installed.
    #[error(transparent)]
    Layer(#[from] layer::LayerError),
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
    #[error("{file} cannot be read ({reason}): name a file with the reports of a guard, or `-` for the standard input")]
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
    /// `--fail=each` on a driver that is opened without the loader.
    #[error(
        "--fail=each refuses requests by the layer, which Vulkan's loader loads, and here the driver is opened without the loader: leave --direct \
         out, name another driver than `reference`, or name one plan with --fail"
    )]
    SweepDirect,
    /// The guard could not be created.
    #[error(transparent)]
    Guarding(#[from] GuardingError),
    /// The page could not be created.
    #[error("the page could not be made: {0}")]
    Page(#[from] askama::Error),
    /// A report cannot be read back.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The output was closed.
    #[error("the output ended, or the system refused something: {0}")]
    Output(#[from] io::Error),
    /// The process was asked to end while a child ran, which has ended.
    #[error("ended by {}", signal_name(*.0))]
    Interrupted(i32),
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
    #[error("{file}, {fault}: if it is a list of --write-expect, correct that line; else name another file")]
    Expectations {
        /// The file.
        file: String,
        /// The error with its line.
        fault: FileFault,
    },
    /// The file is about another driver.
    #[error("{file} is about the driver \"{about}\", and this is \"{driver}\": name another file, or none")]
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
            os::end_by(*signal);
        }
    }

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

/// What this program starts itself as: `None` if the words are those of a user.
#[must_use]
pub fn run_as_child(words: &[OsString]) -> Option<Result<Outcome, ProgramError>> {
    let [name, argument] = words else {
        return None;
    };
    let argument = argument.to_str()?;
    match name.to_str()? {
        workload_child::COMMAND => {
            os::survive_file_limit();
            let code = workload_child::run(argument).map(|code| Outcome::Exited(code.into()));
            Some(code.map_err(ProgramError::from))
        }
        drivers::COMMAND => {
            os::survive_file_limit();
            let shown = drivers::show_devices(&mut io::stdout());
            Some(shown.map(|()| Outcome::Done).map_err(ProgramError::from))
        }
        name => os::run_as_helper(name, argument).map(|()| Ok(Outcome::Done)),
    }
}

/// Runs the command, and prints to `out`.
///
/// # Errors
/// [`ProgramError`].
pub fn run(cli: &Cli, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    os::survive_file_limit();
    terminal::set_colours(cli.color);
    output_paths::check(&cli.files)?;
    let done = match &cli.command {
        None => Ok(()),
        Some(Command::Check(options)) => return check::check(options, out),
        Some(Command::Drive(options)) => return drive::command(options, out),
        Some(Command::Replay(options)) => {
            let trace = TraceFile::open(&options.recording)?;
            let (output, detail) = (&options.output, &options.detail);
            let Driven { report, events } = replayed(&trace, output)?;
            return shown(report, detail, false, true).write(Some(&events), output, out);
        }
        Some(Command::Run(options)) => return run::command(options, out),
        Some(Command::Top(options)) => return top::top(options, out),
        Some(Command::Layer(options)) => return layer::layer(options, out),
        Some(Command::Mark { process }) => mark::mark(process, out),
        Some(Command::Report(options)) => return run::report(options, out),
        Some(Command::Diff(options)) => return diff(options, out),
        Some(Command::Drivers(options)) => return driver_list::command(options, out),
        Some(Command::Symbols(options)) => symbols::symbols(options, out),
        Some(Command::Rules { json }) => outputs::write_data(json, &rules::text(), &rules::as_data(), out),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::shown(), "steward", &mut script);
            Ok(out.write_all(&script).and_then(|()| out.flush())?)
        }
        Some(Command::Manual { folder }) => manual::manual(folder, out),
    };
    done.map(|()| Outcome::Done)
}

fn select(name: Option<&str>, is_direct: bool) -> Result<Selected, DriverError> {
    let mut selected = drivers::select(name)?;
    selected.is_direct |= is_direct;
    Ok(selected)
}

/// In a trace without a call nothing can be found.
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

/// With `exit_code` the report is unexpected, too, if something is left or a finding is not known of the driver.
fn shown(mut report: Report, detail: &Detail, exit_code: bool, names_sites: bool) -> DriverResult {
    if names_sites {
        outputs::name_sites(&mut report);
    }
    expectations::name_known(&mut report);
    let is_failure = exit_code && (!report.leftovers.is_empty() || report.has_unknown_findings());
    let text = report
        .text(detail.findings)
        .depth(detail.depth.into())
        .width(Terminal::of_standard_output().columns())
        .all_rounds(detail.all_rounds);
    DriverResult {
        text: text.to_string(),
        check: None,
        outcome: Outcome::of(report.is_clean() && !is_failure),
        page: CheckedDriver { report: ReportOrList::Report(Box::new(report)), check: None },
    }
}

fn diff(options: &DiffArgs, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
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
    let diffs: Vec<_> = Diff::all(&before, &after).into_iter().map(|diff| diff.filtered(&filter)).collect();
    let text: Vec<_> = diffs.iter().map(ToString::to_string).collect();
    match diffs.as_slice() {
        [one] => outputs::write_data(&options.json, &text.concat(), one, out),
        all => outputs::write_data(&options.json, &text.join("\n"), &all, out),
    }?;
    let is_same = diffs.iter().all(Diff::is_empty);
    Ok(Outcome::of(is_same || !options.exit_code))
}

fn bundled_expectations() -> String {
    EXPECTATIONS.map(|bundled| bundled.name).join(", ")
}
