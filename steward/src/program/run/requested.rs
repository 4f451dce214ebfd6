#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::time::{Duration, Instant};

use super::reports::Reports;
use super::{complain, known};
use crate::cli::ReportArgs;
use crate::os::processes::state_of;
use crate::program::requests::{self, processes_named};
use crate::program::terminal::Terminal;
use crate::program::{Outcome, ProgramError, outputs};

const LAST_PATIENCE: Duration = Duration::from_secs(1);

pub(in crate::program) fn report(options: &ReportArgs, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    let mut reports = Reports::default();
    let mut errors = Vec::new();
    let output = &options.output;
    for process in processes_named(&options.process)? {
        match requests::report(process) {
            Ok(json) => reports.add(&json),
            Err(error) => errors.push(error),
        }
    }
    if reports.processes.is_empty()
        && let Some(error) = errors.pop()
    {
        return Err(error.into());
    }
    if reports.has_findings() {
        known::name_drivers(&mut reports, None, None);
    }
    reports.compare_findings();
    reports.name_functions();
    let printed = if outputs::is_for_programs(output) {
        Ok(())
    } else {
        let terminal = Terminal::of_standard_output();
        let text = terminal.rendered(&reports.text(options.findings, terminal.columns()));
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    };
    reports.write_files(output, out)?;
    ProgramError::unless_closed_pipe(printed.map_err(ProgramError::from))?;
    errors.iter().for_each(|error| complain(&error.to_string()));
    Ok(if errors.is_empty() { Outcome::Done } else { Outcome::Failed })
}

/// Processes that outlive their program write what they have until now, if they are about to call a command. Returns
/// the names of the state files of those that did.
pub(super) fn last_reports(processes: &[u32]) -> Vec<OsString> {
    let began = Instant::now();
    let answered = |process: &u32| {
        let rest = LAST_PATIENCE.saturating_sub(began.elapsed());
        let file = state_of(*process)?;
        requests::request_by_state(*process, &file, rest).ok()?;
        // Of one that could not write it the state says more.
        let is_written = file.with_extension("json").exists();
        file.file_name().filter(|_| is_written).map(OsStr::to_owned)
    };
    processes.iter().filter_map(answered).collect()
}
