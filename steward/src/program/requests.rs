//! Requests to a running program with the layer: a report, or a mark.
//!
//! A program is asked through its state file: no signal is needed, and none that the program may use.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{io, thread};

use vk_report::files;
use vk_report::state_file::{self, MARK_REQUEST, REPORT_REQUEST, ReadStateError};

use super::own_folder;
use crate::os;
use crate::os::processes::{is_running, is_stopped, listed, named_file, shown, state_of, with_layer};

pub(super) const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    #[error(
        "no process {named} runs with the layer{}: start it with `steward run`, and name it when it has created its instance",
        if running.is_empty() { String::new() } else { format!("; these do: {running}") }
    )]
    NotFound { named: String, running: String },
    #[error(
        "process {0} takes no requests: start it with `steward run`, or set VK_STEWARD_MEMORY_STATE and VK_STEWARD_MEMORY_JSON to names of files"
    )]
    NoChannel(u32),
    #[error(
        "process {0} writes no report as JSON to a file: start it with `steward run`, or set VK_STEWARD_MEMORY_JSON to the name of a file, without `%t`"
    )]
    NoFile(u32),
    #[error("process {0} counts no growth: start it with `steward run --stacks`, or set VK_STEWARD_MEMORY_STACKS")]
    NoStacks(u32),
    #[error(
        "process {shown} did not answer within {} s: it {reason}; `steward top {process}` shows its numbers",
        PATIENCE.as_secs()
    )]
    NoAnswer { process: u32, shown: String, reason: &'static str },
    #[error("process {0} has ended: its report is where its run says")]
    Ended(u32),
    #[error("{} cannot be read ({reason}): process {process} says on its error output why it wrote no report", file.display())]
    NotWritten { process: u32, file: PathBuf, reason: io::Error },
    #[error("{} cannot be used ({reason}): the layer of process {process} is another version's, or it is another user's", file.display())]
    State { process: u32, file: PathBuf, reason: ReadStateError },
}

pub(super) fn processes_named(named: &str) -> Result<Vec<u32>, RequestError> {
    let found = with_layer(Some(named));
    if found.is_empty() {
        return Err(RequestError::NotFound { named: named.to_owned(), running: listed(&with_layer(None)) });
    }
    Ok(found)
}

pub(super) fn mark(process: u32) -> Result<(), RequestError> {
    let file = state_of(process).ok_or(RequestError::NoChannel(process))?;
    let failed = |reason| state_error(process, &file, reason);
    if !state_file::read(&file).map_err(failed)?.has_stacks {
        return Err(RequestError::NoStacks(process));
    }
    state_file::request(&file, MARK_REQUEST).map_err(failed)
}

pub(super) fn report(process: u32) -> Result<String, RequestError> {
    let state = state_of(process).ok_or(RequestError::NoChannel(process))?;
    let folder = state.parent().and_then(Path::parent).and_then(Path::file_name);
    let is_of_run = folder.is_some_and(|folder| folder.as_encoded_bytes().starts_with(own_folder::RUN.as_bytes()));
    let name = |number| match is_of_run {
        // A run has all files beside each other.
        true => Some(state.with_extension("json")),
        false => named_file(process, "JSON", number),
    };
    let first = name(1).ok_or(RequestError::NoFile(process))?;
    let before = identity(&first);
    let number = request_by_state(process, &state, PATIENCE)?;
    let file = name(number).unwrap_or(first);
    let text = match before.is_some() && identity(&file) == before {
        true => Err(io::Error::other("it is the report before")),
        false => files::open(&file).and_then(io::read_to_string),
    };
    text.map_err(|reason| RequestError::NotWritten { process, file, reason })
}

pub(super) fn request_by_state(process: u32, file: &Path, patience: Duration) -> Result<u64, RequestError> {
    let failed = |reason| state_error(process, file, reason);
    let before = state_file::read(file).map_err(failed)?.answers;
    state_file::request(file, REPORT_REQUEST).map_err(failed)?;
    wait(process, patience, || {
        let state = state_file::read(file).ok()?;
        (state.answers != before).then_some(state.reports)
    })
}

/// A report that is written anew has another inode or time.
fn identity(file: &Path) -> Option<impl PartialEq + use<>> {
    let metadata = fs::metadata(file).ok()?;
    Some((os::files::identity(&metadata), metadata.modified().ok()))
}

fn wait<T>(process: u32, patience: Duration, answer: impl Fn() -> Option<T>) -> Result<T, RequestError> {
    let began = Instant::now();
    loop {
        // Before the look for the answer: it may have ended after it.
        let is_there = is_running(process);
        if let Some(answer) = answer() {
            return Ok(answer);
        }
        if !is_there {
            return Err(RequestError::Ended(process));
        }
        if began.elapsed() >= patience {
            return Err(RequestError::NoAnswer { process, shown: shown(process), reason: why_no_answer(process) });
        }
        thread::sleep(PAUSE);
    }
}

fn why_no_answer(process: u32) -> &'static str {
    if is_stopped(process) {
        "is stopped: let it go on (kill -CONT)"
    } else {
        "writes the report in its next Vulkan command that has a pAllocator, or submit, and there was none: let it go on, and ask again"
    }
}

fn state_error(process: u32, file: &Path, reason: ReadStateError) -> RequestError {
    RequestError::State { process, file: file.to_owned(), reason }
}
