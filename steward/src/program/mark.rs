//! `steward mark`: sets a mark in a program that runs with the layer.

use std::fs;

use super::layer::LIBRARY;
use super::top::{executable, processes};

/// The signal of marks, as `steward run --stacks` sets it.
pub(super) const SIGNAL: &str = "USR1";

/// Why no mark was set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MarkError {
    /// No process with the number or name has loaded the layer.
    #[error(
        "no process {0} runs with the layer: start it with `steward run --stacks`, and name it when it has created its instance"
    )]
    NotFound(String),
    /// The signal would end the process.
    #[error(
        "process {0} does not take SIG{SIGNAL} as a request for a mark: start it with `steward run --stacks`"
    )]
    NotListening(u32),
    /// The process is another user's.
    #[error("process {0} cannot be signalled ({1}): it is another user's")]
    Refused(u32, std::io::Error),
}

/// Requests a mark of the process with this number, or of all with this name.
pub(super) fn mark(process: &str) -> Result<(), MarkError> {
    let mut processes = with_layer(process).peekable();
    if processes.peek().is_none() {
        return Err(MarkError::NotFound(process.to_owned()));
    }
    processes.try_for_each(|pid| {
        if !handles_signal(pid) {
            return Err(MarkError::NotListening(pid));
        }
        send(pid).map_err(|error| MarkError::Refused(pid, error))
    })
}

/// The processes with this number or name that have the layer mapped.
fn with_layer(process: &str) -> impl Iterator<Item = u32> {
    processes().filter(move |pid| {
        let is_named = process.parse() == Ok(*pid) || executable(*pid) == process;
        let maps = || fs::read_to_string(format!("/proc/{pid}/maps"));
        is_named && maps().is_ok_and(|maps| maps.contains(LIBRARY))
    })
}

/// Whether the process has a handler for the signal: the layer's or its own.
fn handles_signal(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & (1 << (libc::SIGUSR1 - 1)) != 0)
}

fn send(pid: u32) -> std::io::Result<()> {
    // SAFETY: sends a signal that the process handles; no memory is touched.
    match unsafe { libc::kill(pid.cast_signed(), libc::SIGUSR1) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::{MarkError, handles_signal, mark};

    #[test]
    fn a_process_without_the_layer_is_left_alone() {
        let own = std::process::id();
        // Else the signal would end these tests.
        assert!(!handles_signal(own));
        let refused = mark(&own.to_string());
        assert!(matches!(refused, Err(MarkError::NotFound(_))));
    }
}
