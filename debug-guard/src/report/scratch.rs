//! The memory that reports are made in: one for the process, one user at a time.
//!
//! A thread that comes while another reports waits for it; one that comes a second time, from within its own report, does not.

use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use super::modules::Modules;
use crate::os;

/// Bytes that go out in one write, as far as a report is no longer.
const OUT: usize = 16 * 1024;

pub(super) struct Scratch {
    pub(super) modules: Modules,
    /// The name of the mapping that an address lies in.
    pub(super) mapping: [u8; 256],
    out: [u8; OUT],
}

struct Shared(UnsafeCell<Scratch>);

// SAFETY: used by the one that holds `REPORTER`.
unsafe impl Sync for Shared {}

static SCRATCH: Shared = Shared(UnsafeCell::new(Scratch { modules: Modules::NONE, mapping: [0; 256], out: [0; OUT] }));

/// The thread that reports; 0 when none does.
static REPORTER: AtomicU32 = AtomicU32::new(0);

/// How often somebody who waits looks again: about two seconds in all. Longer than that takes only a thread that is gone (a fork left
/// it behind) or that waits for this one.
const PATIENCE: usize = 20_000;

/// Why there is nothing to report in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unavailable {
    /// This thread is just reporting: something went wrong within a report.
    Nested,
    /// Another thread is, and does not end.
    Busy,
}

/// Runs `report` with the scratch, alone.
pub(super) fn alone<R>(report: impl FnOnce(&mut Scratch) -> R) -> Result<R, Unavailable> {
    // Systems without numbers for threads have one for all: there a report within a report waits, and is then left out.
    let me = os::thread_id().max(1);
    for _ in 0..PATIENCE {
        match REPORTER.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {
                let _last = Release;
                // SAFETY: nobody else is here until `REPORTER` is 0 again.
                return Ok(report(unsafe { &mut *SCRATCH.0.get() }));
            }
            Err(other) if other == me && me != 1 => return Err(Unavailable::Nested),
            Err(_) => os::pause(),
        }
    }
    Err(Unavailable::Busy)
}

/// Lets the next one in, also where a function of the program's unwinds.
struct Release;

impl Drop for Release {
    fn drop(&mut self) {
        REPORTER.store(0, Ordering::Release);
    }
}

/// Collects text and writes it to a descriptor, as much at a time as there is room for.
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
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let room = self.room.get_mut(self.used..).unwrap_or_default();
            let now = rest.len().min(room.len());
            let (Some(to), Some((from, later))) = (room.get_mut(..now), rest.split_at_checked(now)) else {
                return Err(fmt::Error);
            };
            to.copy_from_slice(from);
            rest = later;
            self.used = self.used.saturating_add(now);
            if !rest.is_empty() {
                if self.used == 0 {
                    return Err(fmt::Error);
                }
                self.flush();
            }
        }
        Ok(())
    }
}

impl Drop for Out<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Scratch {
    /// The parts that a report is made of, and what it is written through.
    pub(super) fn parts(&mut self) -> (&mut Modules, &mut [u8; 256], &mut [u8]) {
        (&mut self.modules, &mut self.mapping, &mut self.out)
    }
}
