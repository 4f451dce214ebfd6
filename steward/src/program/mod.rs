//! What `main` does, with a sink for its output.

mod apart;
mod check;
mod drive;
mod every;
mod files;
mod named;
mod outputs;
mod rules;
mod symbols;

use std::alloc::System;
use std::io::{self, Write};

use alloc_core::FromGlobalAlloc;
use vk_callbacks::Opened;

use crate::bundled;
use crate::cli::{Cli, Command, DiffArgs, Drive, Output};
use crate::devices::{self, DevicesError};
use crate::diff::{self, Diff};
use crate::drivers::{self, DriverError, DriverTable};
use crate::expectations::{EXPECTATIONS, FileFault};
use crate::guarding::{Guarding, GuardingError};
use crate::honour;
use crate::replayed::{self, ReplayError, TraceFile};
use crate::report::{Entry, ReadError, Report, html};

/// Where the program's accounted memory comes from in the end.
static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// How the program ended when it could do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done, and a check found everything as expected.
    Done,
    /// A check found what is not as expected, a comparison that was asked for an exit code a difference, or a guard something wrong; each
    /// named it.
    Unexpected,
    /// It could not be done, and a child of the program said why on the error output.
    Failed,
}

/// Why the program could not do what it was asked. One sentence that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// No driver, or not that one.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The devices cannot be shown.
    #[error(transparent)]
    Devices(#[from] DevicesError),
    /// The run failed.
    #[error(transparent)]
    Drive(#[from] drive::DriveError),
    /// The driver cannot be opened without the loader.
    #[error(transparent)]
    Reopen(#[from] drivers::ReopenError),
    /// The trace cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A file cannot be written.
    #[error("{file} cannot be written ({reason}): name a file in a folder that can be written to")]
    Unwritable {
        /// The file.
        file: String,
        /// What the operating system said.
        reason: io::Error,
    },
    /// A file cannot be read.
    #[error("{file} cannot be read ({reason}): name a file with the reports of a guard, or `-` for the standard input")]
    Unreadable {
        /// The file.
        file: String,
        /// What the operating system said.
        reason: io::Error,
    },
    /// Two results for one file, or a result for a file that is read.
    #[error("{first} and {second} both name {file}: name two files")]
    SameFile {
        /// What names it.
        first: String,
        /// What names it as well.
        second: String,
        /// The file.
        file: String,
    },
    /// `-` where only a file will do.
    #[error("{by} writes a file, and cannot write to the standard output: name a file, `./-` if it is to be called `-`")]
    NoFile {
        /// The option.
        by: String,
    },
    /// Two reports from the standard input.
    #[error("`-` is the standard input, which can be read once: name a file for one of the two")]
    ReadTwice,
    /// A file of expectations would be written over what is none.
    #[error(
        "{file} holds something else than expectations ({reason}): --write-expect would destroy it; delete it, or name another file"
    )]
    NotExpectations {
        /// The file.
        file: String,
        /// What shows it.
        reason: String,
    },
    /// There is no run that could be guarded.
    #[error(
        "--guard and --fail are for runs of a driver: leave them out, or use them with `drive`, with `check` without --trace, or alone"
    )]
    NothingToGuard,
    /// Expectations of a driver that is not itself.
    #[error("--write-expect writes down what the driver does by itself: leave --guard and --fail out")]
    ExpectGuarded,
    /// A back end without a guard.
    #[error("--guard-back-end says what a guard is to use: name the guard as well, with --guard")]
    NoGuard,
    /// The guard could not be made.
    #[error(transparent)]
    Guarding(#[from] GuardingError),
    /// There is nothing to draw.
    #[error("--html draws a report, and this makes none: leave it out, or use it with `drive`, `replay`, `diff` or `devices`")]
    NoPage,
    /// There is nothing to list.
    #[error("--findings lists what a run shows, and this runs nothing: leave it out, or use it with `drive` or `replay`")]
    NothingToList,
    /// The page could not be made.
    #[error("the page could not be made: {0}")]
    Page(#[from] askama::Error),
    /// A report cannot be read back.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The terminal, or what the output was piped into, is gone.
    #[error("the output ended: {0}")]
    Output(#[from] io::Error),
    /// One file for the traces of several drivers.
    #[error("--record writes one trace: name one driver with --driver, `steward drivers` lists them")]
    RecordAll,
    /// One file of expectations for several drivers.
    #[error("--expect and --write-expect name the file of one driver: name it with --driver, `steward drivers` lists them")]
    ExpectAll,
    /// There is no such file of expectations.
    #[error(
        "{file} cannot be read ({reason}): name a file that --write-expect wrote, or one of the bundled ones: {}",
        bundled_expectations()
    )]
    NoExpectations {
        /// What was asked for.
        file: String,
        /// What the operating system said.
        reason: io::Error,
    },
    /// The file is not as it should be.
    #[error("{file}, {fault}: correct it, delete it, or name another file")]
    Expectations {
        /// The file.
        file: String,
        /// The line, and what is wrong there.
        fault: FileFault,
    },
    /// The file is about another driver.
    #[error("{file} is about the driver \"{about}\", and this is \"{driver}\": name another file, or none")]
    OtherDriver {
        /// The file.
        file: String,
        /// What it is about.
        about: String,
        /// What was checked.
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
    /// True when the reader of the output has had enough (`| head`), which is no error.
    #[must_use]
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Does what the command line asks, and prints to `out`.
///
/// # Errors
/// [`ProgramError`].
///
/// # Safety
/// As for [`drivers::select`]: no other thread of the process reads or writes the environment, one of a driver's included. Call
/// it from `main`.
pub unsafe fn run(cli: &Cli, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    named::check(cli)?;
    let makes_page = !matches!(
        cli.command,
        Some(Command::Check(_) | Command::Drivers | Command::Symbols(_) | Command::Rules | Command::HonourChild { .. })
    );
    if cli.output.html.is_some() && !makes_page {
        return Err(ProgramError::NoPage);
    }
    if cli.output.findings
        && matches!(cli.command, Some(Command::Drivers | Command::Devices | Command::Symbols(_) | Command::Rules))
    {
        return Err(ProgramError::NothingToList);
    }
    let guarding = Guarding::from(cli.guarding);
    if guarding.back_end.is_some() && guarding.guard.is_none() {
        return Err(ProgramError::NoGuard);
    }
    let runs_driver = match &cli.command {
        None | Some(Command::Drive(_)) => true,
        Some(Command::Check(options)) => options.trace.is_none(),
        _ => false,
    };
    if guarding.is_asked_for() && !runs_driver {
        return Err(ProgramError::NothingToGuard);
    }
    let fits = matches!(&cli.command, Some(Command::Check(options)) if options.write_expect.is_some());
    if guarding.is_asked_for() && fits {
        return Err(ProgramError::ExpectGuarded);
    }
    let done = match &cli.command {
        // SAFETY: forwarded.
        Some(Command::Check(options)) => return unsafe { check::check(options, &guarding, &cli.output, out) },
        None if apart::is_wanted(&guarding) => return apart::run(&guarding, Report::FORMAT, &cli.output, out),
        // SAFETY: forwarded.
        None => return unsafe { main_job(&guarding, &cli.output, out) },
        Some(Command::Drive(options)) if options.driver.as_deref().is_some_and(is_all) => {
            if options.record.is_some() {
                return Err(ProgramError::RecordAll);
            }
            // SAFETY: forwarded.
            return unsafe { every::drive(options, &guarding, &cli.output, out) };
        }
        Some(Command::Drive(_)) if apart::is_wanted(&guarding) => {
            return apart::run(&guarding, Report::FORMAT, &cli.output, out);
        }
        Some(Command::Drive(options)) => {
            // SAFETY: forwarded.
            let selected = unsafe { drivers::select(options.driver.as_deref()) }?;
            return finish(drive::drive(&selected, options, &guarding, Opened::ThroughLoader)?, &cli.output, out);
        }
        Some(Command::Replay(options)) => {
            let trace = TraceFile::open(&options.file)?;
            return finish(replayed::replay(&SYSTEM, &trace, None)?, &cli.output, out);
        }
        Some(Command::Diff(options)) => return diff(options, &cli.output, out),
        Some(Command::Drivers) => {
            // SAFETY: forwarded.
            let listing = unsafe { drivers::list() }?;
            if listing.drivers.is_empty() {
                return Err(listing.no_driver().into());
            }
            let text = format!("{}\n", DriverTable(&listing.drivers));
            outputs::write(&cli.output, &text, &every::as_data(&listing.drivers), outputs::no_page, out)
        }
        Some(Command::Devices) => {
            let report = devices::survey(&drivers::open()?)?;
            outputs::write(&cli.output, &report, &report, || Ok(devices::html(&report)?), out)
        }
        Some(Command::Symbols(options)) => symbols::symbols(options, &cli.output, out),
        Some(Command::Rules) => {
            let text = rules::Rules.to_string();
            outputs::write(&cli.output, &text, &rules::as_data(), outputs::no_page, out)
        }
        Some(Command::HonourChild { job }) => {
            // SAFETY: manifests are trusted here as the loader trusts them; `SYSTEM` lives for ever.
            let answer = unsafe { honour::answer(job, &SYSTEM) };
            // A driver may have begun a line.
            writeln!(out, "\n{answer}").and_then(|()| out.flush()).map_err(ProgramError::from)
        }
    };
    done.map(|()| Outcome::Done)
}

/// Without arguments: a driver if there is one, the bundled trace if not.
///
/// # Safety
/// As [`run`].
unsafe fn main_job(guarding: &Guarding, output: &Output, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    // SAFETY: forwarded.
    let report = match unsafe { drivers::select(None) } {
        Ok(selected) => drive::drive(&selected, &Drive { rounds: 1, ..Drive::default() }, guarding, Opened::ThroughLoader)?,
        // A trace can be replayed instead, but not guarded.
        Err(error) if guarding.is_asked_for() => return Err(error.into()),
        Err(error) => {
            let reason = error.to_string();
            let trace = TraceFile::bundled(&bundled::TRACES[0])?;
            replayed::replay(&SYSTEM, &trace, Some(reason))?
        }
    };
    finish(report, output, out)
}

fn finish(report: Report, output: &Output, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    let text = report.text(output.findings).to_string();
    let outcome = if report.is_clean() { Outcome::Done } else { Outcome::Unexpected };
    let entry = Entry::Report(Box::new(report));
    outputs::write(output, &text, &entry, || Ok(html(std::slice::from_ref(&entry))?), out).map(|()| outcome)
}

/// Compares two files.
fn diff(options: &DiffArgs, output: &Output, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    let [before, after] = [&options.before, &options.after].map(|file| Entry::read(file));
    let diffs = Diff::all(&before?, &after?);
    let text: Vec<_> = diffs.iter().map(ToString::to_string).collect();
    let page = || Ok(diff::html(&diffs)?);
    match diffs.as_slice() {
        [one] => outputs::write(output, &text.concat(), one, page, out),
        all => outputs::write(output, &text.join("\n"), &all, page, out),
    }?;
    let differ = !diffs.iter().all(Diff::is_empty);
    Ok(if options.exit_code && differ { Outcome::Unexpected } else { Outcome::Done })
}

fn bundled_expectations() -> String {
    EXPECTATIONS.map(|bundled| bundled.name).join(", ")
}

fn is_all(name: &str) -> bool {
    name.trim().eq_ignore_ascii_case("all")
}
