//! Requests to a running program with the layer: a report, or a mark.
//!
//! A program that has a state file is asked through it: no signal is needed, and none that the program may use. One that has none is asked by
//! the signal that its settings name, or, for a report, by a file beside the report.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use std::{io, thread};

use vk_report::files::{self, FilePlace};
use vk_report::state_file::{self, MARK_REQUEST, REPORT_REQUEST, ReadStateError};

use super::own_folder;
use super::processes::{
    has_signal, is_running, is_stopped, listed, named_file, setting, shown, state_of, with_layer,
};

/// How long a program may take to answer: until its next command.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks for the answer.
const PAUSE: Duration = Duration::from_millis(5);

/// Why a request was not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No process with the number or name has loaded the layer.
    #[error(
        "no process {named} runs with the layer{}: start it with `steward run`, and name it when it has created its instance",
        if running.is_empty() { String::new() } else { format!("; these do: {running}") }
    )]
    NotFound {
        /// The number or name.
        named: String,
        /// Those that do, for a sentence.
        running: String,
    },
    /// The process has neither a state file nor files for reports.
    #[error(
        "process {0} takes no requests: start it with `steward run`, or set VK_STEWARD_MEMORY_STATE and VK_STEWARD_MEMORY_JSON to names of files"
    )]
    NoChannel(u32),
    /// It has no file for reports, or none for the JSON that an output is made of.
    #[error(
        "process {0} writes no report as JSON to a file: start it with `steward run`, or set VK_STEWARD_MEMORY_JSON to the name of a file"
    )]
    NoFile(u32),
    /// It has no call stacks, and so no growth to count.
    #[error(
        "process {0} counts no growth: start it with `steward run --stacks`, or set VK_STEWARD_MEMORY_STACKS"
    )]
    NoStacks(u32),
    /// The process has not answered.
    #[error(
        "process {shown} did not answer within {} s: it {reason}; `steward top {process}` shows its numbers",
        PATIENCE.as_secs()
    )]
    NoAnswer {
        /// The process.
        process: u32,
        /// Its number and name.
        shown: String,
        /// Why.
        reason: &'static str,
    },
    /// It ended meanwhile.
    #[error("process {0} has ended: its report is where its run says")]
    Ended(u32),
    /// It has answered, but there is no file.
    #[error("{} cannot be read ({reason}): process {process} says on its error output why it wrote no report", file.display())]
    NotWritten {
        /// The process.
        process: u32,
        /// The file of the report.
        file: PathBuf,
        /// The error of the operating system.
        reason: io::Error,
    },
    /// The state file cannot be used.
    #[error("{} cannot be used ({reason}): the layer of process {process} is another version's, or it is another user's", file.display())]
    State {
        /// The process.
        process: u32,
        /// Its state file.
        file: PathBuf,
        /// Why.
        reason: ReadStateError,
    },
    /// It cannot be signalled, or no file can be created for it.
    #[error("process {0} cannot be asked ({1}): it may be another user's")]
    Refused(u32, io::Error),
}

/// The report that a process has written on request.
pub(super) struct Answer {
    /// Where its settings name no file for JSON.
    pub(super) text: Option<String>,
    pub(super) json: Option<String>,
}

/// The processes with this number or name.
pub(super) fn processes_named(named: &str) -> Result<Vec<u32>, RequestError> {
    let found = with_layer(Some(named));
    if found.is_empty() {
        return Err(RequestError::NotFound {
            named: named.to_owned(),
            running: listed(&with_layer(None)),
        });
    }
    Ok(found)
}

/// Requests a mark, which the process sets with its next command.
pub(super) fn mark(process: u32) -> Result<(), RequestError> {
    if let Some(file) = state_of(process) {
        let failed = |reason| state_error(process, &file, reason);
        if !state_file::read(&file).map_err(failed)?.has_stacks {
            return Err(RequestError::NoStacks(process));
        }
        return state_file::request(&file, MARK_REQUEST).map_err(failed);
    }
    let signal = signal_of(process, "MARK_SIGNAL").ok_or(RequestError::NoStacks(process))?;
    send(process, signal)
}

/// Requests a report and waits for it.
pub(super) fn report(process: u32) -> Result<Answer, RequestError> {
    let state = state_of(process);
    // A run has all files beside each other.
    let beside = |extension| Some(state.as_ref()?.with_extension(extension));
    let is_of_run = state.as_ref().is_some_and(|file| {
        let folder = file
            .parent()
            .and_then(Path::parent)
            .and_then(Path::file_name);
        folder.is_some_and(|folder| folder.as_bytes().starts_with(own_folder::RUN.as_bytes()))
    });
    let names = |number| {
        if is_of_run {
            return [None, beside("json")];
        }
        ["TEXT", "JSON"].map(|name| named_file(process, name, number))
    };
    if names(1).iter().all(Option::is_none) {
        return Err(if state.is_some() {
            RequestError::NoFile(process)
        } else {
            RequestError::NoChannel(process)
        });
    }
    let last = |number| names(number).into_iter().flatten().next_back();
    let before = last(1).as_deref().and_then(identity);
    let number = match &state {
        Some(file) => request_by_state(process, file, PATIENCE)?,
        None => request_by_file(process, &names)?,
    };
    if let Some(file) = last(number)
        && before.is_some()
        && identity(&file) == before
    {
        return Err(RequestError::NotWritten {
            process,
            file,
            reason: io::Error::other("it is the report before"),
        });
    }
    let read = |file: PathBuf| {
        let text = files::open(&file).and_then(io::read_to_string);
        text.map_err(|reason| RequestError::NotWritten {
            process,
            file,
            reason,
        })
    };
    let [text, json] = names(number);
    Ok(Answer {
        text: text.map(read).transpose()?,
        json: json.map(read).transpose()?,
    })
}

/// Requests a report by the state file, and waits until it is written. Returns the report's number.
pub(super) fn request_by_state(
    process: u32,
    file: &Path,
    patience: Duration,
) -> Result<u64, RequestError> {
    let failed = |reason| state_error(process, file, reason);
    let before = state_file::read(file).map_err(failed)?.answers;
    state_file::request(file, REPORT_REQUEST).map_err(failed)?;
    wait(process, patience, || {
        let state = state_file::read(file).ok()?;
        (state.answers != before).then_some(state.reports)
    })
}

/// Requests a report by a signal or a file, and waits until the file of the report is another one.
fn request_by_file(
    process: u32,
    names: &dyn Fn(u64) -> [Option<PathBuf>; 2],
) -> Result<u64, RequestError> {
    // The last one that is written.
    let last = |number| names(number).into_iter().flatten().next_back();
    let is_numbered = last(1) != last(2);
    let is_free = |number: &u64| last(*number).is_none_or(|file| !file.exists());
    let number = if is_numbered {
        (1..).find(is_free).unwrap_or(1)
    } else {
        1
    };
    let written = || identity(&last(number)?);
    let before = written();
    match signal_of(process, "SIGNAL") {
        Some(signal) => send(process, signal)?,
        None => {
            let first = names(number).into_iter().flatten().next();
            let mut request = first.unwrap_or_default().into_os_string();
            request.push(".request");
            let place = FilePlace::find(Path::new(&request));
            let created = place.and_then(|place| place.create_new());
            let is_there = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
            if let Err(error) = created
                && !is_there(&error)
            {
                return Err(RequestError::Refused(process, error));
            }
        }
    }
    wait(process, PATIENCE, || {
        let now = written();
        (now.is_some() && now != before).then_some(number)
    })
}

/// What tells a report from the one before in the same file.
fn identity(file: &Path) -> Option<(u64, Option<SystemTime>)> {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.ino(), metadata.modified().ok()))
}

/// The signal that the process's settings name, if the process handles it: otherwise it would end the process.
fn signal_of(process: u32, name: &str) -> Option<i32> {
    let signal = match setting(process, name)?.as_str() {
        "USR1" => libc::SIGUSR1,
        "USR2" => libc::SIGUSR2,
        _ => return None,
    };
    has_signal(process, "SigCgt", signal).then_some(signal)
}

fn send(process: u32, signal: i32) -> Result<(), RequestError> {
    // SAFETY: sends a signal that the process handles; no memory is touched.
    match unsafe { libc::kill(process.cast_signed(), signal) } {
        0 => Ok(()),
        _ => Err(RequestError::Refused(process, io::Error::last_os_error())),
    }
}

fn wait<T>(
    process: u32,
    patience: Duration,
    answer: impl Fn() -> Option<T>,
) -> Result<T, RequestError> {
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
            return Err(RequestError::NoAnswer {
                process,
                shown: shown(process),
                reason: why_no_answer(process),
            });
        }
        thread::sleep(PAUSE);
    }
}

fn why_no_answer(process: u32) -> &'static str {
    let blocks = |name| {
        let signal = signal_of(process, name);
        signal.is_some_and(|signal| has_signal(process, "SigBlk", signal))
    };
    if is_stopped(process) {
        "is stopped: let it go on (kill -CONT)"
    } else if state_of(process).is_none() && blocks("SIGNAL") {
        "blocks the signal: set VK_STEWARD_MEMORY_STATE to the name of a file"
    } else {
        "writes the report in its next Vulkan command that has a pAllocator, or submit, and there was none: let it go on, and ask again"
    }
}

fn state_error(process: u32, file: &Path, reason: ReadStateError) -> RequestError {
    RequestError::State {
        process,
        file: file.to_owned(),
        reason,
    }
}
