//! A process that shows whether a signal was sent to the whole process group.
//!
//! It is in this process's group and blocks all signals, so that one that was sent to the group stays pending in it,
//! where `/proc` shows it. It has its own name and arguments, so that a search for this process by either does not find
//! it.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs, io, thread};

use super::signals::{change_mask, set_mask};

/// The command's argument is the number of the process that the probe belongs to.
pub(super) const PROBE_COMMAND: &str = "signal-probe";

/// The kernel sends to a group's newest process first, so that the probe has a signal before this process has it.
/// Elsewhere it may be later.
const GRACE: Duration = Duration::from_millis(20);

pub(super) struct GroupProbe(Child);

impl GroupProbe {
    pub(super) fn start() -> io::Result<Self> {
        let all: Vec<_> = (1..=libc::SIGRTMAX()).collect();
        // The child inherits the mask.
        let before = change_mask(libc::SIG_BLOCK, &all)?;
        let child = Command::new(env::current_exe()?)
            .arg0(PROBE_COMMAND)
            .args([PROBE_COMMAND, &std::process::id().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        set_mask(&before)?;
        child.map(Self)
    }

    pub(super) fn got(&mut self, signal: i32) -> bool {
        let is_there = self.is_pending(signal) || {
            thread::sleep(GRACE);
            self.is_pending(signal)
        };
        if is_there {
            // One that has it pending would not show it a second time.
            if let Ok(next) = Self::start() {
                *self = next;
            }
        }
        is_there
    }

    fn is_pending(&self, signal: i32) -> bool {
        let file = format!("/proc/{}/status", self.0.id());
        let status = fs::read_to_string(file).unwrap_or_default();
        pending(&status).is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
    }
}

fn pending(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

impl Drop for GroupProbe {
    fn drop(&mut self) {
        // Refused if it was killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn become_probe(owner: u32) {
    // SAFETY: sets what happens at the owner's end.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // SAFETY: a text that ends with 0.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"signal-probe".as_ptr()) };
    // The owner may have ended before.
    while std::os::unix::process::parent_id() == owner {
        // SAFETY: waits.
        unsafe { libc::pause() };
    }
}

#[cfg(test)]
mod tests {
    use super::pending;

    #[test]
    fn a_mask_of_pending_signals_is_read() {
        let status = "SigPnd:\t0000000000000000\nShdPnd:\t0000000000004002\n";
        assert_eq!(pending(status), Some(1 << 14 | 1 << 1));
        assert_eq!(pending("Name:\tprobe\n"), None);
    }
}
