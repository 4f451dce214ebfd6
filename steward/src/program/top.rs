//! `steward top`: the numbers of a running program, from its state file.

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::io::{IsTerminal as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use vk_accounts::state_file::{self, ReadStateError, State};

use super::{Outcome, ProgramError};
use crate::cli::TopArgs;

/// The setting that names the file, in the environment of the program.
const STATE: &str = "VK_STEWARD_MEMORY_STATE=";
/// Clears a terminal and begins at its top.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopError {
    /// The file that was named, or found.
    #[error("{} cannot be read ({reason}): name the state file of a program with --state", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: ReadStateError,
    },
    /// The process has none.
    #[error(
        "process {0} has no state file: start its program with `steward run`, or with VK_STEWARD_MEMORY_STATE; it appears with the first instance"
    )]
    NoState(u32),
    /// No process has one.
    #[error(
        "no running program has a state file: start one with `steward run`, or with VK_STEWARD_MEMORY_STATE; it appears with the first instance"
    )]
    NoProgram,
    /// Which one is meant?
    #[error("several programs are running: name one of the processes {0}")]
    Several(String),
}

/// Shows the state, again and again unless it is to be shown once, until the process is gone.
pub(super) fn top(options: &TopArgs, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    let file = match (&options.state, options.process) {
        (Some(file), _) => file.clone(),
        (None, Some(process)) => state_of(process).ok_or(TopError::NoState(process))?,
        (None, None) => only_state()?,
    };
    let read = || {
        state_file::read(&file).map_err(|reason| TopError::Unreadable {
            file: file.clone(),
            reason,
        })
    };
    let clear = if io::stdout().is_terminal() && !options.once {
        CLEAR
    } else {
        ""
    };
    let mut before: Option<(Instant, State)> = None;
    loop {
        // Before the state is read: the last one that is shown is then the last that there was.
        let is_running = fs::exists(format!("/proc/{}", read()?.process)).unwrap_or(false);
        let (now, state) = (Instant::now(), read()?);
        let since = before
            .as_ref()
            .map(|(then, state)| (now.duration_since(*then), state));
        write!(out, "{clear}{}\n{state}", head(&state, is_running, since))?;
        out.flush()?;
        if options.once || !is_running {
            return Ok(Outcome::Done);
        }
        before = Some((now, state));
        thread::sleep(Duration::from_secs(options.interval.max(1).into()));
        writeln!(out)?;
    }
}

/// The lines above the table. Rates are those since the last time.
fn head(state: &State, is_running: bool, since: Option<(Duration, &State)>) -> String {
    let total = |state: &State| -> u64 {
        let totals = state.kinds.iter().map(|kind| kind.usage.total_bytes);
        totals.fold(0, u64::saturating_add)
    };
    let mut head = format!("process {}, {} commands", state.process, state.commands);
    if let Some((time, before)) = since {
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / time.as_secs_f64();
        head += &format!(
            ", {:.0} commands and {:.0} bytes a second",
            rate(state.commands, before.commands),
            rate(total(state), total(before)),
        );
    }
    if !is_running {
        head += ", ended";
    }
    if let Some(command) = state.last_command {
        head += &format!("; last began: {command}");
    }
    head + "\n"
}

/// Where programs of this user put it that are told nothing else.
fn default_folder() -> Option<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty())?;
    Some(Path::new(&runtime).join("steward"))
}

/// The file of a process: in the default folder, or where its environment says.
fn state_of(process: u32) -> Option<PathBuf> {
    let folder = default_folder().into_iter();
    let mut files = folder
        .map(|folder| folder.join(process.to_string()))
        .chain(ordered_by(process));
    files.find(|file| file.is_file())
}

/// What the environment of the process asks for, in its own words.
fn ordered_by(process: u32) -> Option<PathBuf> {
    let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let pattern = variables.find_map(|variable| variable.strip_prefix(STATE.as_bytes()))?;
    let pattern = std::str::from_utf8(pattern).ok()?;
    let executable = fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
    let executable = executable.file_name().unwrap_or_else(|| OsStr::new(""));
    let name = pattern
        .replace("%p", &process.to_string())
        .replace("%e", &String::from_utf8_lossy(executable.as_bytes()));
    let folder = PathBuf::from(format!("/proc/{process}/cwd"));
    // An absolute name stays what it is.
    Some(folder.join(name))
}

/// The file of the only running process that has one.
fn only_state() -> Result<PathBuf, TopError> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<(u32, PathBuf)> = processes
        .filter_map(|process| Some((process, state_of(process)?)))
        .collect();
    found.sort();
    match &mut *found {
        [] => Err(TopError::NoProgram),
        [(_, file)] => Ok(std::mem::take(file)),
        several => {
            let several: Vec<_> = several
                .iter()
                .map(|(process, _)| process.to_string())
                .collect();
            Err(TopError::Several(several.join(", ")))
        }
    }
}
