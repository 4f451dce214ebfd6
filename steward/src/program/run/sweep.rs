//! `--fail=each`: runs the program once for each request of its driver, with that request refused, and lists how the runs ended.

#![forbid(unsafe_code)]

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use debug_guard::Fault;
use serde::Serialize;
use vk_accounts::guard_run::Guarding;
use vk_accounts::report::Refusal;

use super::reports::Reports;
use super::{Wanted, faults, prepare};
use crate::callback_coverage::wait;
use crate::cli::Output;
use crate::program::{Outcome, ProgramError, outputs};

/// The most runs, and the time limit of one.
#[derive(Clone, Copy)]
pub(in crate::program) struct SweepLimits {
    pub(in crate::program) runs: u64,
    pub(in crate::program) time: Duration,
}

/// How a run with a refused request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Ending {
    /// With exit status 0.
    Ok,
    /// With another exit status.
    CleanError,
    /// By a signal.
    Crash,
    /// Killed after the time limit.
    Hang,
}

#[derive(Debug, Serialize)]
struct SweptRun {
    /// The number of the request, from 0.
    request: u64,
    /// None if the program crashed or hung before this request.
    refused: Option<Refusal>,
    ended: Ending,
    /// The exit status, or the number of the signal.
    status: Option<i32>,
}

/// The JSON of `--json`.
#[derive(Debug, Serialize)]
struct SweepReport {
    runs: Vec<SweptRun>,
    /// Every request of the program was refused once.
    is_complete: bool,
}

/// Runs `command` until a run has no request of its number. The output of the runs is discarded.
pub(super) fn sweep(
    command: &dyn Fn() -> io::Result<Command>,
    wanted: Wanted<'_>,
    limits: SweepLimits,
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    let mut report = SweepReport {
        runs: Vec::new(),
        is_complete: false,
    };
    for request in 0..limits.runs {
        let mut command = command()?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let guarding = Guarding {
            fail: Some(Fault::Nth(request)),
            ..wanted.guarding
        };
        let folder = prepare(&mut command, &Wanted { guarding, ..wanted })?;
        let (ended, status) = match command.spawn() {
            Ok(mut child) => ending(wait(&mut child, limits.time, &|| {})?),
            Err(error) => return Ok(super::not_started(&command, &error)),
        };
        let refused = faults::first_refusal(&Reports::read(folder.path()));
        let was_harmed = matches!(ended, Ending::Crash | Ending::Hang);
        // Refusals are logged at once: without one the program made no such request, or ended before it.
        let is_last = refused.is_none();
        if !is_last || was_harmed {
            report.runs.push(SweptRun {
                request,
                refused,
                ended,
                status,
            });
        }
        if is_last {
            report.is_complete = !was_harmed;
            break;
        }
    }
    outputs::write(output, &report, &report, outputs::no_page, out)?;
    let is_harmed = report.count(Ending::Crash) + report.count(Ending::Hang) > 0;
    Ok(Outcome::Exited(u8::from(is_harmed)))
}

/// How a run ended, with its exit status or the number of the signal. `None` is a run that was killed.
fn ending(status: Option<ExitStatus>) -> (Ending, Option<i32>) {
    use std::os::unix::process::ExitStatusExt as _;
    let Some(status) = status else {
        return (Ending::Hang, None);
    };
    match (status.code(), status.signal()) {
        (Some(0), _) => (Ending::Ok, Some(0)),
        (Some(code), _) => (Ending::CleanError, Some(code)),
        (None, signal) => (Ending::Crash, signal),
    }
}

impl SweepReport {
    fn count(&self, ending: Ending) -> usize {
        self.runs.iter().filter(|run| run.ended == ending).count()
    }
}

impl Display for SweepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>7}  {:<36}{:<24}{:<10}{:>10}  ended",
            "request", "command", "of", "scope", "bytes"
        )?;
        for run in &self.runs {
            let none = Refusal::default();
            let refused = run.refused.as_ref().unwrap_or(&none);
            let shown = |word: &str| if word.is_empty() { "-" } else { word }.to_owned();
            writeln!(
                f,
                "{:>7}  {:<36}{:<24}{:<10}{:>10}  {run}",
                run.request,
                shown(&refused.command),
                shown(&refused.owner),
                shown(&refused.scope),
                refused.bytes,
            )?;
        }
        writeln!(
            f,
            "{} runs, in each of which one request was refused: {} ok, {} clean errors, {} crashes, {} hangs",
            self.runs.len(),
            self.count(Ending::Ok),
            self.count(Ending::CleanError),
            self.count(Ending::Crash),
            self.count(Ending::Hang),
        )?;
        if self.is_complete {
            return Ok(());
        }
        match self.runs.last() {
            Some(last) if last.refused.is_none() => writeln!(
                f,
                "The last run ended before any request was refused: the program ends so by itself"
            ),
            _ => writeln!(
                f,
                "There may be further requests: --fail=each=N allows N runs"
            ),
        }
    }
}

impl Display for SweptRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.status.unwrap_or_default();
        match self.ended {
            Ending::Ok => f.write_str("ok"),
            Ending::CleanError => write!(f, "clean error, exit status {status}"),
            Ending::Crash => write!(f, "crash, signal {status}"),
            Ending::Hang => f.write_str("hang, killed after the time limit"),
        }
    }
}
