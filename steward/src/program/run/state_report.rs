#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitStatus;

use serde::Serialize;
use vk_report::report::{Leaks, Report};
use vk_report::state_file::stacks::{self, StoredStacks};
use vk_report::state_file::{self, State};

use super::reports::{ProcessReport, paths_with_extension};
use crate::os::own_folder::is_locked;
use crate::os::{ended_by, signal_name};
use crate::report::Failed;
use crate::symbols::Symbols;

pub(super) struct StateReport {
    pub(super) written: ProcessReport,
    /// Which process, how it ended, and that nothing was judged.
    pub(super) sentence: String,
    /// The report has the stacks of what was alive, where the state has them.
    pub(super) report: Option<Report>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Missing {
    pub(super) findings: bool,
    pub(super) stacks: bool,
    pub(super) guard: bool,
}

impl Missing {
    fn parts(self) -> Vec<&'static str> {
        let parts = [(self.findings, "findings"), (self.stacks, "call stacks"), (self.guard, "reports of the guard")];
        let missing = parts.into_iter().filter(|(is_missing, _)| *is_missing);
        missing.map(|(_, part)| part).collect()
    }
}

#[derive(Serialize)]
pub(super) struct StateEntry {
    /// Readers of the program's reports see this as one of a driver that could not be run.
    #[serde(flatten)]
    pub(super) failed: Failed,
    source: &'static str,
    ended: String,
    missing: Vec<&'static str>,
    #[serde(flatten)]
    state: State,
}

/// `answered` are the state files of those that have just written a report on request. `child` is the program's own
/// process, which ended with its status.
pub(super) fn of_folder(
    folder: &Path,
    (child, status): (u32, ExitStatus),
    answered: &[OsString],
    missing: Missing,
    symbols: &mut Symbols,
) -> Vec<StateReport> {
    let paths = paths_with_extension(folder, "state");
    let is_answered = |path: &Path| {
        let name = path.file_name();
        name.is_some_and(|name| answered.iter().any(|answered| answered == name))
    };
    let states = paths.iter().filter_map(|path| Some((path, state_file::read(path).ok()?)));
    let states: Vec<_> = states.collect();
    let is_own = |state: &State| state.process == u64::from(child);
    let last = states.iter().rposition(|(_, state)| is_own(state));
    let unreported = states
        .iter()
        .enumerate()
        .filter(|(_, (path, state))| !is_answered(path) && state.started_commands > state.reported_commands);
    let reports = unreported.map(|(place, (path, state))| {
        let ended = match is_own(state) {
            true if Some(place) == last => ended(Some(status)),
            true => "executed another program without a report".to_owned(),
            false if is_locked(path) => "still runs".to_owned(),
            false => ended(None),
        };
        let stacks = stacks::read(path).ok().flatten();
        report(state, &ended, missing, stacks.map(|stacks| (stacks, &mut *symbols)))
    });
    reports.collect()
}

fn ended(status: Option<ExitStatus>) -> String {
    let Some(status) = status else {
        return "ended without a report".to_owned();
    };
    match (ended_by(status), status.code()) {
        (Some(signal), _) => format!("ended by {}", signal_name(signal)),
        (None, Some(code)) => {
            format!("ended with status {code} without a report (it ran no exit handlers, or could not write it)")
        }
        (None, None) => "ended".to_owned(),
    }
}

fn report(state: &State, ended: &str, missing: Missing, stacks: Option<(StoredStacks, &mut Symbols)>) -> StateReport {
    let State { process, commands, started_commands, .. } = state;
    let mut text = format!(
        "Host memory that Vulkan allocated through callbacks: process {process} {ended}; its state after command {commands}\n\
         (with the 16 bytes in front of each block; all instances and devices together; nothing was judged)\n"
    );
    if started_commands > commands {
        let name = state.last_command.unwrap_or("a command");
        text += &format!(
            "The last command that began was {name}, number {started_commands}: what came after {commands} is not counted below.\n"
        );
    }
    if !state.is_whole {
        text += "It ended during an update: some rows are a command older than others.\n";
    }
    let missing = Missing { stacks: missing.stacks && stacks.is_none(), ..missing };
    let missing = missing.parts();
    if !missing.is_empty() {
        text += &format!(
            "Missing: {}. A process writes them when it exits; while it runs, `steward report` asks for them.\n",
            missing.join(", ")
        );
    }
    text += &format!("\n{state}");
    let how = format!("{ended}: its state after command {commands} is known, and nothing was judged");
    let leaks = stacks.map(|(stacks, symbols)| name_stacks(stacks, symbols, &mut text));
    let report = leaks.as_ref().map(|leaks| Report::of_stacks(*process, *commands, leaks));
    let entry = StateEntry {
        failed: Failed {
            format: Report::FORMAT.to_owned(),
            driver: format!("process {process}"),
            error: format!("it {how}"),
            leaks,
        },
        source: "state file",
        ended: ended.to_owned(),
        missing,
        state: state.clone(),
    };
    StateReport {
        sentence: format!("process {process} {how}"),
        written: ProcessReport::State(Box::new(entry), text),
        report,
    }
}

fn name_stacks(stacks: StoredStacks, symbols: &mut Symbols, text: &mut String) -> Leaks {
    let StoredStacks { mut leaks, unstored, is_damaged } = stacks;
    leaks.merge();
    *text += &symbols.name_leaks(&mut leaks).to_string();
    if !leaks.stacks.is_empty() {
        *text += "  which objects these were is not known: their handles and debug names ended with the process\n";
    }
    if unstored > 0 {
        *text += &format!("  {unstored} more call stacks had no room in the state file\n");
    }
    if is_damaged {
        *text += "  the rest of the stacks cannot be read: something else has written into the state file\n";
    }
    leaks
}

#[cfg(all(test, unix))] // a signal
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use serde_json::Value;
    use vk_report::state_file::{StateHeap, StateKind, StateUsage};

    use super::*;
    use crate::report::ReportOrList;

    #[test]
    fn ly44_every_field_of_a_state_is_documented_and_nothing_else_is() {
        const TEXT: &str = include_str!("../../../REPORT-FORMAT.md");
        let (_, behind) = TEXT.split_once("<!-- state:begin -->").expect("the mark");
        let (table, _) = behind.split_once("<!-- state:end -->").expect("the mark");
        let names = table.lines().filter_map(|line| line.strip_prefix("| `"));
        let names = names.filter_map(|line| Some(line.split_once('`')?.0));
        let mut documented: Vec<_> = names.map(str::to_owned).collect();
        let usage = StateUsage::default();
        let kind =
            StateKind { kind: "VkBuffer".to_owned(), usage, objects_created: 1, objects_alive: 1, foreign_commands: 0 };
        let heap = StateHeap { index: 0, usage, refusals: 0, size: 0 };
        let state = State { kinds: vec![kind], heaps: vec![heap], ..state() };
        let stacks = StoredStacks { leaks: Leaks::default(), unstored: 0, is_damaged: false };
        let stacks = Some((stacks, &mut Symbols::default()));
        let json = report(&state, "still runs", Missing::default(), stacks);
        let json = serde_json::to_value(&json.written).expect("JSON");
        let mut found = Vec::new();
        for (name, value) in json.as_object().expect("an object") {
            match value.as_array().and_then(|list| list.first()) {
                Some(Value::Object(row)) => {
                    found.extend(row.keys().map(|field| format!("{name}[].{field}")));
                }
                _ => found.push(name.clone()),
            }
        }
        found.sort();
        documented.sort();
        assert_eq!(found, documented);
    }

    fn state() -> State {
        State {
            process: 7,
            commands: 12,
            started_commands: 12,
            reported_commands: 0,
            last_command: Some("vkCreateBuffer"),
            answers: 0,
            reports: 0,
            has_stacks: true,
            is_whole: true,
            kinds: Vec::new(),
            heaps: Vec::new(),
        }
    }

    #[test]
    fn ly44_numbers_of_a_killed_process_read_as_a_report_that_is_not_there() {
        let state = state();
        let missing = Missing { findings: true, stacks: true, guard: false };
        let ended = ended(Some(ExitStatus::from_raw(9)));
        let report = report(&state, &ended, missing, None);
        let lost = "\nMissing: findings, call stacks. A process writes them";
        let json = serde_json::to_string(&report.written).expect("JSON");
        let ProcessReport::State(_, text) = report.written else { unreachable!("of a state") };
        assert!(text.contains(lost), "{text}");
        let entries = ReportOrList::parse("a file", json.as_bytes()).expect("JSON of the program");
        let [ReportOrList::Failed(failed)] = &*entries else {
            panic!("{entries:?}");
        };
        assert_eq!(failed.driver, "process 7");
        let sentence = "it ended by SIGKILL: its state after command 12 is known, and nothing was judged";
        assert_eq!(failed.error, sentence);
    }
}
