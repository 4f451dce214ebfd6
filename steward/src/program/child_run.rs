//! `--fail`: a run in its own process, because a driver may crash after a refusal.

use std::env;
use std::io::Write;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};

use serde_json::json;

use super::{Outcome, ProgramError, outputs};
use crate::cli::Output;
use crate::report::{ReportOrList, html};
use crate::signals::{self, Kept, signal_name};
use vk_accounts::guard_run::Guarding;
use vk_accounts::guard_run::refused::{self, RefusalLog};
use vk_accounts::report::{Refusal, Report, one_line};

/// Whether the run needs a child process: a refusal is planned, and this process is not the child.
pub(super) fn is_wanted(guarding: &Guarding) -> bool {
    guarding.fail.is_some() && !refused::is_child()
}

/// Runs this program with its own arguments in a child, and passes its output on. If the child crashes, the report names the last refusal.
pub(super) fn run(
    guarding: &Guarding,
    format: &str,
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    let log = tempfile::NamedTempFile::new()?;
    let mut child = Command::new(env::current_exe()?);
    child
        .args(env::args_os().skip(1))
        .env(refused::FILE, log.path());
    // The guard's reports and the child's errors are shown at once.
    let done = signals::output(&mut child, Kept::Output, None)?;
    let outcome = match done.status.code() {
        Some(0) => Outcome::Done,
        Some(1) => Outcome::Unexpected,
        Some(2) => Outcome::Failed,
        _ => {
            let refusals = RefusalLog::read(log.path())?;
            let plan = guarding
                .fail
                .map(|fail| fail.to_string())
                .unwrap_or_default();
            let why = sentence(&ended(done.status), &plan, &refusals);
            return report_step(&refusals.driver, &why, format, output, out)
                .map(|()| Outcome::Unexpected);
        }
    };
    let passed_on = out
        .write_all(&done.stdout)
        .and_then(|()| out.flush())
        .map_err(ProgramError::from);
    ProgramError::unless_closed_pipe(passed_on)?;
    Ok(outcome)
}

/// Writes the report in all formats, and to the error output if the standard output is for programs.
fn report_step(
    driver: &str,
    why: &str,
    format: &str,
    output: &Output,
    out: &mut dyn Write,
) -> Result<(), ProgramError> {
    let driver = if driver.is_empty() {
        "the driver"
    } else {
        driver
    };
    let report = json!({ "format": format, "driver": driver, "error": why });
    let page = || {
        // A page of a check is one of its report as well.
        let shown = json!({ "format": Report::FORMAT, "driver": driver, "error": why });
        let reports = serde_json::to_vec(&[&shown]).map_err(std::io::Error::from)?;
        Ok(html(&ReportOrList::parse(
            "the driver's report",
            &reports,
        )?)?)
    };
    let text = format!(
        "driver: {}\nresult: not as expected: {why}\n",
        one_line(driver)
    );
    if outputs::is_for_programs(output) {
        let _ = writeln!(std::io::stderr(), "steward: {}: {why}", one_line(driver));
    }
    outputs::write(output, &text, &report, page, out)
}

fn sentence(ended: &str, plan: &str, refusals: &RefusalLog) -> String {
    let Some(Refusal {
        command,
        serial,
        owner,
        scope,
        bytes,
    }) = &refusals.last
    else {
        return format!(
            "the driver's process {ended} before a request was refused ({plan}): what ended it is not the refusal"
        );
    };
    let place = if command.is_empty() {
        "outside of any command".to_owned()
    } else {
        format!("in {command}, command {serial}")
    };
    let (refused, s) = (
        refusals.refused,
        if refusals.refused == 1 { "" } else { "s" },
    );
    one_line(&format!(
        "the driver's process {ended} after {refused} request{s} had been refused on purpose ({plan}), the last {place}: {bytes} charged bytes of \
         scope {scope}, asked of the callbacks of {owner}; a driver must answer ERROR_OUT_OF_HOST_MEMORY then"
    ))
}

/// How a process ended.
fn ended(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("crashed ({})", signal_name(signal)),
        None => format!("ended with {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_names_the_last_refusal_or_says_that_there_was_none() {
        let none = sentence("crashed (SIGABRT)", "nth=9", &RefusalLog::default());
        assert!(
            none.contains("crashed (SIGABRT) before a request was refused (nth=9)"),
            "{none}"
        );
        let command = "vkCmdDraw".to_owned();
        let last = Refusal {
            command,
            serial: 7,
            owner: "VkDevice".into(),
            scope: "object".into(),
            bytes: 64,
        };
        let refusals = RefusalLog {
            driver: "d".into(),
            refused: 2,
            last: Some(last),
            ..RefusalLog::default()
        };
        let after = sentence("crashed (SIGSEGV)", "from=9", &refusals);
        assert!(
            after.contains("after 2 requests had been refused on purpose (from=9), the last in vkCmdDraw, command 7: 64 charged bytes")
        );
        assert!(
            after.contains("of scope object, asked of the callbacks of VkDevice;"),
            "{after}"
        );
    }
}
