//! `steward top`: shows the numbers of a running program, from its state file.

#![forbid(unsafe_code)]

use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use vk_report::state_file::{self, ReadStateError, State};
use vk_report::units::bytes;

use super::processes::{own_number, processes, state_of};
use super::{Outcome, ProgramError};
use crate::cli::TopArgs;

const CLEAR: &str = "\x1b[H\x1b[2J";

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopError {
    #[error("{} cannot be read ({reason}): name the state file of a program with --state", file.display())]
    Unreadable {
        file: PathBuf,
        reason: ReadStateError,
    },
    #[error(
        "process {0} has no state file: start its program with `steward run`, or with VK_STEWARD_MEMORY_STATE; it appears with the first instance"
    )]
    NoState(u32),
    #[error(
        "no running program has a state file: start one with `steward run`, or with VK_STEWARD_MEMORY_STATE; it appears with the first instance"
    )]
    NoProgram,
    #[error("several programs are running: name one of the processes {0}")]
    Several(String),
}

pub(super) fn top(options: &TopArgs, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    let (file, known) = match (&options.state, options.process) {
        (Some(file), known) => (file.clone(), known),
        (None, Some(process)) => (
            state_of(process).ok_or(TopError::NoState(process))?,
            Some(process),
        ),
        (None, None) => only_state().map(|(process, file)| (file, Some(process)))?,
    };
    let read = || state_file::read(&file);
    let unreadable = |reason| TopError::Unreadable {
        file: file.clone(),
        reason,
    };
    let clear = if io::stdout().is_terminal() && !options.once {
        CLEAR
    } else {
        ""
    };
    let mut before: Option<(Instant, State)> = None;
    loop {
        // Before the state is read, so that the last shown state is the process's last.
        let running = read().map(|state| Whereabouts::of(state.process, known));
        let (process, state) = match (running, read()) {
            (Ok(process), Ok(state)) => (process, state),
            // The run has ended, and removed its folder.
            (_, Err(ReadStateError::Io(error)))
                if before.is_some() && error.kind() == io::ErrorKind::NotFound =>
            {
                return Ok(Outcome::Done);
            }
            (Err(reason), _) | (_, Err(reason)) => return Err(unreadable(reason).into()),
        };
        let now = Instant::now();
        let since = before
            .as_ref()
            .map(|(then, state)| (now.duration_since(*then), state));
        write!(out, "{clear}{}\n{state}", head(&state, process, since))?;
        out.flush()?;
        if options.once || !process.is_running() {
            return Ok(Outcome::Done);
        }
        before = Some((now, state));
        thread::sleep(options.interval);
        writeln!(out)?;
    }
}

/// Rates are those since the last time.
fn head(state: &State, process: Whereabouts, since: Option<(Duration, &State)>) -> String {
    let total = |state: &State| -> u64 {
        let totals = state.kinds.iter().map(|kind| kind.usage.total_bytes);
        totals.fold(0, u64::saturating_add)
    };
    let mut head = format!(
        "process {}, {} commands begun",
        state.process, state.commands
    );
    if let Some((time, before)) = since {
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / time.as_secs_f64();
        head += &format!(
            ", {:.0} commands and {} a second",
            rate(state.commands, before.commands),
            bytes(rate(total(state), total(before)) as u64),
        );
    }
    match process {
        Whereabouts::Here => {}
        Whereabouts::Elsewhere(number) => {
            head += &format!(", which is {number} in this PID namespace");
        }
        Whereabouts::Unseen => {
            head += ", ended or in a PID namespace that is not seen from here";
        }
        Whereabouts::Ended => head += ", ended",
    }
    if let Some(command) = state.last_command {
        head += &format!("; last began: {command}");
    }
    head + "\n"
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// In this PID namespace, under the same number.
    Here,
    /// In another PID namespace, with this number here.
    Elsewhere(u32),
    /// Not found, but this namespace does not show all processes.
    Unseen,
    Ended,
}

impl Whereabouts {
    fn of(own: u64, known: Option<u32>) -> Self {
        let is_there = |process: u64| fs::exists(format!("/proc/{process}")).unwrap_or(false);
        if let Some(known) = known {
            return match is_there(known.into()) {
                false => Self::Ended,
                true if u64::from(known) == own => Self::Here,
                true => Self::Elsewhere(known),
            };
        }
        if is_there(own) {
            return Self::Here;
        }
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let elsewhere = processes().find(|process| own_number(*process) == own);
        match elsewhere {
            Some(process) => Self::Elsewhere(process),
            None if namespace.as_os_str() == FIRST_NAMESPACE => Self::Ended,
            None => Self::Unseen,
        }
    }

    const fn is_running(self) -> bool {
        matches!(self, Self::Here | Self::Elsewhere(_))
    }
}

const FIRST_NAMESPACE: &str = "pid:[4026531836]";

fn only_state() -> Result<(u32, PathBuf), TopError> {
    let mut found: Vec<(u32, PathBuf)> = processes()
        .filter_map(|process| Some((process, state_of(process)?)))
        .collect();
    found.sort();
    match &mut *found {
        [] => Err(TopError::NoProgram),
        [(process, file)] => Ok((*process, std::mem::take(file))),
        several => {
            let several: Vec<_> = several
                .iter()
                .map(|(process, _)| process.to_string())
                .collect();
            Err(TopError::Several(several.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Whereabouts, own_number};

    #[test]
    fn a_process_of_another_namespace_is_told_from_one_that_has_ended() {
        let own = std::process::id();
        assert_eq!(own_number(own), u64::from(own));
        assert_eq!(Whereabouts::of(own.into(), None), Whereabouts::Here);
        // The state file has the number that the process has for itself.
        let elsewhere = Whereabouts::of(u64::MAX, Some(own));
        assert_eq!(elsewhere, Whereabouts::Elsewhere(own));
        assert!(elsewhere.is_running());
        let nobody = Whereabouts::of(u64::MAX, None);
        assert!(!nobody.is_running(), "{nobody:?}");
        assert_eq!(Whereabouts::of(1, Some(u32::MAX)), Whereabouts::Ended);
    }
}
