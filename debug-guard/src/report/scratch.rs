//! The process has one memory for reports. A thread that reports while another does waits; a report within a report
//! fails.

use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::os;

const OUT: usize = 16 * 1024;

pub(super) struct Scratch {
    pub(super) mapping: [u8; 256],
    pub(super) out: [u8; OUT],
}

struct ScratchCell(UnsafeCell<Scratch>);

// SAFETY: only the holder of `REPORTER` uses it.
unsafe impl Sync for ScratchCell {}

/// Parent and child use different ones: a report's function may fork, and its data must stay while the child reports.
static SCRATCH: [ScratchCell; 2] =
    [const { ScratchCell(UnsafeCell::new(Scratch { mapping: [0; 256], out: [0; OUT] })) }; 2];

static REPORTER: ReporterTurn = ReporterTurn(AtomicU64::new(0));

/// The reporting thread, with the number of forks of its process above it; 0 when none reports.
#[derive(Debug)]
struct ReporterTurn(AtomicU64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unavailable {
    /// Something went wrong within a report.
    Nested,
    /// Only a holder that waits for this thread takes that long.
    Busy,
}

pub(super) fn exclusively<R>(report: impl FnOnce(&mut Scratch) -> R) -> Result<R, Unavailable> {
    let [even, odd] = &SCRATCH;
    let forks = os::forks();
    let scratch = if forks.is_multiple_of(2) { even } else { odd };
    let _held = REPORTER.acquire(forks, os::thread_id())?;
    // SAFETY: the turn excludes every other report of this process.
    Ok(report(unsafe { &mut *scratch.0.get() }))
}

#[derive(Debug)]
struct ScratchGuard<'t>(&'t ReporterTurn);

impl ReporterTurn {
    fn acquire(&self, forks: u32, thread: u32) -> Result<ScratchGuard<'_>, Unavailable> {
        // Systems without thread numbers have one for all threads: there a report within a report is lost after a
        // wait.
        let me = (u64::from(forks) << 32) | u64::from(thread.max(1));
        let turn = os::wait_for(|| {
            let holder = self.0.load(Ordering::Relaxed);
            if holder == me && thread != 0 {
                return Some(Err(Unavailable::Nested));
            }
            // A thread of the parent process does not exist here.
            let left_behind = holder >> 32 != u64::from(forks);
            let free = (holder == 0 || left_behind)
                && self.0.compare_exchange(holder, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
            free.then(|| Ok(ScratchGuard(self)))
        });
        turn.unwrap_or(Err(Unavailable::Busy))
    }
}

impl Drop for ScratchGuard<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}

pub(super) struct Out<'a> {
    fd: i32,
    room: &'a mut [u8],
    used: usize,
}

impl<'a> Out<'a> {
    pub(super) fn new(fd: i32, room: &'a mut [u8]) -> Self {
        Self { fd, room, used: 0 }
    }

    fn flush(&mut self) {
        if let Some(text @ [_, ..]) = self.room.get(..self.used) {
            os::write(self.fd, text);
        }
        self.used = 0;
    }
}

impl fmt::Write for Out<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() > self.room.len().saturating_sub(self.used) {
            self.flush();
        }
        let end = self.used.saturating_add(text.len());
        match self.room.get_mut(self.used..end) {
            Some(room) => {
                room.copy_from_slice(text.as_bytes());
                self.used = end;
            }
            None => os::write(self.fd, text.as_bytes()),
        }
        Ok(())
    }
}

impl Drop for Out<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_one_thread_s_at_a_time_and_nobody_waits_for_whom_a_fork_left_behind() {
        let turn = ReporterTurn(AtomicU64::new(0));
        let held = turn.acquire(3, 70).expect("nobody's");
        assert_eq!(turn.acquire(3, 70).err(), Some(Unavailable::Nested));
        core::mem::forget(held);
        let child = turn.acquire(4, 70).expect("its holder is not in this process");
        assert_eq!(turn.acquire(4, 70).err(), Some(Unavailable::Nested));
        drop(child);
        let _held = turn.acquire(4, 71).expect("given back");
        let began = std::time::Instant::now();
        assert_eq!(turn.acquire(4, 72).err(), Some(Unavailable::Busy), "somebody in this process has it, and keeps it");
        let waited = began.elapsed();
        assert!((2..20).contains(&waited.as_secs()), "{waited:?}");
    }
}
