//! It guards no state, so it may be held over calls of the driver.

#![forbid(unsafe_code)]

use crate::sync::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use crate::waiting;

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;
/// Held, and a thread waits.
const CONTENDED: u32 = 2;

pub(super) struct DispatchLock {
    word: AtomicU32,
    /// The number of the thread whose turn it is, or 0.
    thread: AtomicU64,
}

#[must_use = "dropping it ends the turn"]
pub(super) struct Turn<'t>(&'t DispatchLock);

impl DispatchLock {
    pub(super) const fn new() -> Self {
        Self { word: AtomicU32::new(UNLOCKED), thread: AtomicU64::new(0) }
    }

    /// `None` if the thread has the turn already, which is not detected for a thread without a number (0).
    pub(super) fn enter(&self, thread: u64) -> Option<Turn<'_>> {
        // Only this thread writes its own number, and clears it at the end of its turn.
        if thread != 0 && self.thread.load(Relaxed) == thread {
            return None;
        }
        if self.word.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed).is_err() {
            // A thread that waited does not know whether others wait: the lock stays contended.
            while self.word.swap(CONTENDED, Acquire) != UNLOCKED {
                waiting::wait_while(&self.word, CONTENDED);
            }
        }
        self.thread.store(thread, Relaxed);
        Some(Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.thread.store(0, Relaxed);
        if self.0.word.swap(UNLOCKED, Release) == CONTENDED {
            waiting::wake(&self.0.word);
        }
    }
}
