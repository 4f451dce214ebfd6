//! A lock that may be held over calls of the driver: it guards no state of ours.

#![forbid(unsafe_code)]

use crate::sync::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use crate::threads;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody waits.
const WANTED: u32 = 2;

/// One thread's turn at a time.
pub(super) struct Turns {
    word: AtomicU32,
}

impl Turns {
    pub(super) const fn new() -> Self {
        Self { word: AtomicU32::new(FREE) }
    }

    pub(super) fn lock(&self) {
        if self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok() {
            return;
        }
        // Whoever waited does not know whether others do: it says so.
        while self.word.swap(WANTED, Acquire) != FREE {
            threads::wait_while(&self.word, WANTED);
        }
    }

    pub(super) fn unlock(&self) {
        if self.word.swap(FREE, Release) == WANTED {
            threads::wake(&self.word);
        }
    }
}
