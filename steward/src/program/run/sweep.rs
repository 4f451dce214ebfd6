#![forbid(unsafe_code)]

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use debug_guard::Fault;
use serde::Serialize;
use vk_report::guard_run::Guarding;
use vk_report::report::{self, Refusal};

use super::reports::Reports;
use super::{complain, faults, no_report, prepare};
use crate::cli::RunArgs;
use crate::os::executable;
use crate::os::own_folder::processes_of;
use crate::os::{ChildKind, HeldSignals, ended_by, exit_code, kill, signal_name};
use crate::program::{Outcome, ProgramError, files, outputs};
use crate::table::aligned;
use vk_report::units::bytes;

#[derive(Clone, Copy)]
pub(super) struct SweepLimits {
    pub(super) runs: u64,
    pub(super) time: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Ending {
    Ok,
    CleanError,
    Crash,
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

#[derive(Debug, Serialize)]
struct SweepReport {
    runs: Vec<SweptRun>,
    /// Every request of the program was refused once.
    is_complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_by: Option<String>,
}

pub(super) struct Swept<'a> {
    pub(super) command: &'a dyn Fn() -> io::Result<Command>,
    pub(super) options: &'a RunArgs,
    pub(super) guarding: &'a Guarding,
    pub(super) limits: SweepLimits,
}

impl Swept<'_> {
    /// Runs the command until a run has no request of its number. If no request was refused in any run, nothing was
    /// tested, and the outcome says so.
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
        let json = &self.options.output.json;
        let mut report = SweepReport { runs: Vec::new(), is_complete: false, ended_by: None };
        let mut signals = HeldSignals::new(ChildKind::Program)?;
        let mut untested = None;
        for request in 0..self.limits.runs {
            let mut command = (self.command)()?;
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let guarding = Guarding { fail: Some(Fault::Nth(request)), ..*self.guarding };
            let folder = prepare(&mut command, self.options, &guarding)?;
            let program = PathBuf::from(command.get_program());
            let status = match signals.spawn(&mut command) {
                Ok(mut child) => signals.wait(&mut child, Some((self.limits.time, &|| {})))?,
                Err(error) => return Ok(super::not_started(&command, &error)),
            };
            if status.is_none() {
                // What it started would go on, and hold the folder.
                processes_of(folder.path()).into_iter().for_each(kill);
            }
            // How this run ended says nothing of the refusal.
            if let Some(signal) = signals.last() {
                report.ended_by = Some(signal_name(signal));
                break;
            }
            let (ended, status_number) = ending(status);
            let reports = Reports::read(folder.path());
            let refused = faults::first_refusal(&reports);
            let was_harmed = matches!(ended, Ending::Crash | Ending::Hang);
            // Refusals are logged at once: without one the program made no such request, or ended before it.
            let is_last = refused.is_none();
            if is_last && request == 0 {
                untested = Some(why_untested(&program, status, &reports));
            }
            if !is_last || was_harmed {
                report.runs.push(SweptRun { request, refused, ended, status: status_number });
            }
            if is_last {
                report.is_complete = !was_harmed && request > 0;
                break;
            }
        }
        if let Some(file) = &self.options.text {
            files::write_and_say(file, report.to_string().as_bytes())?;
            if let Some(json) = json {
                outputs::put(json, report::json(&report).map_err(io::Error::from)?, out)?;
            }
        } else {
            outputs::write_data(json, &report, &report, out)?;
        }
        if let Some(why) = &untested {
            complain(why);
        }
        if let Some(signal) = signals.last() {
            return Ok(Outcome::Exited(exit_code(signal)));
        }
        let is_harmed = report.count(Ending::Crash) + report.count(Ending::Hang) > 0;
        Ok(Outcome::Exited(i32::from(is_harmed || untested.is_some())))
    }
}

fn why_untested(program: &Path, status: Option<ExitStatus>, reports: &Reports) -> String {
    let reason = match (reports.processes.is_empty(), status) {
        (false, _) => "its driver requested no memory through callbacks".to_owned(),
        (true, Some(status)) => executable::why_no_layer(program).unwrap_or_else(|| no_report(program, status)),
        (true, None) => "it was killed after the time limit".to_owned(),
    };
    format!("--fail=each refused nothing, so nothing was tested: {reason}")
}

/// A run without a status was killed.
fn ending(status: Option<ExitStatus>) -> (Ending, Option<i32>) {
    let Some(status) = status else {
        return (Ending::Hang, None);
    };
    match (ended_by(status), status.code()) {
        (Some(signal), _) => (Ending::Crash, Some(signal)),
        (None, Some(0)) => (Ending::Ok, Some(0)),
        (None, code) => (Ending::CleanError, code),
    }
}

impl SweepReport {
    fn count(&self, ending: Ending) -> usize {
        self.runs.iter().filter(|run| run.ended == ending).count()
    }
}

impl Display for SweepReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![["request", "command", "of", "scope", "bytes", "ended"].map(str::to_owned)];
        rows.extend(self.runs.iter().map(|run| {
            let none = Refusal::default();
            let refused = run.refused.as_ref().unwrap_or(&none);
            let shown = |word: &str| if word.is_empty() { "-" } else { word }.to_owned();
            [
                run.request.to_string(),
                shown(&refused.command),
                shown(&refused.owner),
                shown(&refused.scope),
                bytes(refused.bytes),
                run.to_string(),
            ]
        }));
        let rows: Vec<_> = rows.into_iter().map(Vec::from).collect();
        writeln!(f, "{}", aligned(&rows))?;
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
        if let Some(signal) = &self.ended_by {
            return writeln!(f, "The sweep was ended by {signal}: requests with higher numbers were not refused");
        }
        match self.runs.last() {
            None => Ok(()),
            Some(last) if last.refused.is_none() => {
                writeln!(f, "The last run ended before any request was refused: the program ends so by itself")
            }
            _ => writeln!(f, "There may be further requests: --fail=each=N allows N runs"),
        }
    }
}

impl Display for SweptRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.status.unwrap_or_default();
        match self.ended {
            Ending::Ok => f.write_str("ok"),
            Ending::CleanError => write!(f, "clean error, exit status {status}"),
            Ending::Crash => write!(f, "crash, {}", signal_name(status)),
            Ending::Hang => f.write_str("hang, killed after the time limit"),
        }
    }
}
