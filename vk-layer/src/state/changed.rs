//! Which kinds have numbers that no update knows of yet. `testkit/models` runs it in every order of its steps.

#![forbid(unsafe_code)]

use crate::sync::{AtomicU64, Ordering};

/// A bit for each kind.
pub(crate) struct ChangedKinds(AtomicU64);

impl ChangedKinds {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// This thread has changed numbers of the kinds with these bits.
    ///
    /// An exchange, where the bits are set already, too: an update that drains them afterwards reads what this thread has written, and one that
    /// drained them before leaves them to the next. To look at them alone says neither, since the look may come before the numbers are there.
    pub(crate) fn note(&self, bits: u64) {
        self.0.fetch_or(bits, Ordering::Release);
    }

    /// Whether there are any.
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// An update begins, which reads the numbers of these kinds.
    pub(crate) fn drain(&self) -> u64 {
        self.0.swap(0, Ordering::Acquire)
    }

    /// In the child of a fork.
    pub(crate) fn reset(&self) {
        self.0.swap(0, Ordering::Relaxed);
    }
}
