//! A lock that may be held over calls of the driver: it guards no state of ours.

#![forbid(unsafe_code)]

use crate::sync::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use crate::threads;

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;
/// Held, and somebody waits.
const CONTENDED: u32 = 2;

/// One thread's turn at a time.
pub(super) struct DispatchLock {
    word: AtomicU32,
    /// The thread whose turn it is, by number; 0 where that is not known.
    thread: AtomicU64,
}

/// A turn, until dropped.
#[must_use = "dropping it ends the turn"]
pub(super) struct Turn<'t>(&'t DispatchLock);

impl DispatchLock {
    pub(super) const fn new() -> Self {
        Self {
            word: AtomicU32::new(UNLOCKED),
            thread: AtomicU64::new(0),
        }
    }

    /// Waits for a turn of this thread's. `None` where it has the turn already: it would wait for itself. A thread without a number (0)
    /// does.
    pub(super) fn enter(&self, thread: u64) -> Option<Turn<'_>> {
        // Only this thread writes its own number: who reads it here wrote it, and has not ended the turn.
        if thread != 0 && self.thread.load(Relaxed) == thread {
            return None;
        }
        if self
            .word
            .compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed)
            .is_err()
        {
            // Whoever waited does not know whether others do: it says so.
            while self.word.swap(CONTENDED, Acquire) != UNLOCKED {
                threads::wait_while(&self.word, CONTENDED);
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
            threads::wake(&self.0.word);
        }
    }
}
