#![forbid(unsafe_code)]

mod screen;

use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;
use std::time::Instant;
use std::{env, io, thread};

use vk_report::state_file::{self, ReadStateError, State, StateUsage};
use vk_report::units::bytes;

use super::requests::processes_named;
use super::{Outcome, ProgramError};
use crate::cli::TopArgs;
use crate::os::processes::{all_states, is_there, listed, own_number, processes, sees_all, state_of};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopError {
    #[error("{} cannot be read ({reason}): name the state file of a program with --state", file.display())]
    Unreadable { file: PathBuf, reason: ReadStateError },
    #[error(
        "process {0} has no state file: start its program with `steward run`, or with VK_STEWARD_MEMORY_STATE; it appears with the first instance"
    )]
    NoState(u32),
    #[error(
        "no running program has a state file: start one with `steward run`, or with VK_STEWARD_MEMORY_STATE; it appears with the first instance"
    )]
    NoProgram,
    #[error("several programs are running: name one of them by its number: {0}")]
    Several(String),
}

struct Watched {
    file: PathBuf,
    known: Option<u32>,
}

pub(super) fn top(options: &TopArgs, out: &mut dyn Write) -> Result<Outcome, ProgramError> {
    let (file, known) = match (&options.state, &options.process) {
        (Some(file), _) => (file.clone(), None),
        (None, Some(named)) => match named.parse() {
            Ok(process) => (state_of(process).ok_or(TopError::NoState(process))?, Some(process)),
            Err(_) => only_state(&processes_named(named)?)?,
        },
        (None, None) => only_state(&[])?,
    };
    let watched = Watched { file, known };
    let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    let is_screen = io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb;
    if is_screen && !options.once {
        if let Some(last) = screen::show(&watched, options.interval)? {
            write!(out, "{last}")?;
        }
        return Ok(Outcome::Done);
    }
    let mut before: Option<Reading> = None;
    loop {
        let now = watched.read(before.as_ref())?;
        write!(out, "{}", now.text(before.as_ref()))?;
        out.flush()?;
        if options.once || !now.process.is_running() {
            return Ok(Outcome::Done);
        }
        before = Some(now);
        thread::sleep(options.interval);
        writeln!(out)?;
    }
}

impl Watched {
    fn read(&self, before: Option<&Reading>) -> Result<Reading, TopError> {
        let read = || state_file::read(&self.file);
        // Before the state is read, so that the last shown state is the process's last.
        let process = read().map(|state| Whereabouts::of(state.process, self.known));
        let (process, state) = match (process, read(), before) {
            (Ok(process), Ok(state), _) => (process, state),
            // The run has ended, and removed its folder.
            (_, Err(ReadStateError::Io(error)), Some(before)) if error.kind() == io::ErrorKind::NotFound => {
                (Whereabouts::Ended, before.state.clone())
            }
            (Err(reason), ..) | (_, Err(reason), _) => {
                let file = self.file.clone();
                return Err(TopError::Unreadable { file, reason });
            }
        };
        let at = Instant::now();
        Ok(Reading { at, process, state })
    }
}

struct Reading {
    at: Instant,
    process: Whereabouts,
    state: State,
}

impl Reading {
    fn text(&self, before: Option<&Self>) -> String {
        format!("{}\n{}", self.head(before), self.state)
    }

    fn head(&self, before: Option<&Self>) -> String {
        let state = &self.state;
        let mut head = format!("process {}, {} commands begun", state.process, state.commands);
        if let Some(rates) = self.rates(before, |state| Some(all_kinds(state))) {
            let [commands, allocations, taken] = rates;
            head += &format!(", {commands} commands, {allocations} allocations and {} a second", bytes(taken));
        }
        match self.process {
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

    /// Commands, allocations and bytes a second since `before`. The usage is none where nothing was used yet.
    fn rates(&self, before: Option<&Self>, usage: impl Fn(&State) -> Option<StateUsage>) -> Option<[u64; 3]> {
        let time = self.at.duration_since(before?.at).as_secs_f64();
        let totals = |reading: &Self| {
            let usage = usage(&reading.state).unwrap_or_default();
            [reading.state.commands, usage.total_blocks, usage.total_bytes]
        };
        let (now, before) = (totals(self), totals(before?));
        let rate = |place: usize| (now[place].saturating_sub(before[place]) as f64 / time) as u64;
        Some([rate(0), rate(1), rate(2)])
    }
}

/// The peak is not known of all together.
fn all_kinds(state: &State) -> StateUsage {
    let mut all = StateUsage::default();
    for StateUsage { live_bytes, live_blocks, total_bytes, total_blocks, .. } in
        state.kinds.iter().map(|kind| kind.usage)
    {
        all.live_bytes = all.live_bytes.saturating_add(live_bytes);
        all.live_blocks = all.live_blocks.saturating_add(live_blocks);
        all.total_bytes = all.total_bytes.saturating_add(total_bytes);
        all.total_blocks = all.total_blocks.saturating_add(total_blocks);
    }
    all
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
        let elsewhere = processes().find(|process| own_number(*process) == own);
        match elsewhere {
            Some(process) => Self::Elsewhere(process),
            None if sees_all() => Self::Ended,
            None => Self::Unseen,
        }
    }

    const fn is_running(self) -> bool {
        matches!(self, Self::Here | Self::Elsewhere(_))
    }
}

fn only_state(of: &[u32]) -> Result<(PathBuf, Option<u32>), TopError> {
    let mut found = all_states();
    found.retain(|(process, _)| of.is_empty() || of.contains(process));
    found.sort();
    found.dedup_by_key(|(process, _)| *process);
    match &mut *found {
        [] => Err(of.first().map_or(TopError::NoProgram, |process| TopError::NoState(*process))),
        [(process, file)] => Ok((std::mem::take(file), Some(*process))),
        several => {
            let several: Vec<_> = several.iter().map(|(process, _)| *process).collect();
            Err(TopError::Several(listed(&several)))
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
