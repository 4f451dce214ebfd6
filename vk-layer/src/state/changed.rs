//! The kinds whose numbers have changed since the last update. `testkit/models` runs it in every order of its steps.

#![forbid(unsafe_code)]

use crate::sync::{AtomicU64, Ordering};

/// A set of kinds, a bit each.
pub(crate) struct ChangedKinds(AtomicU64);

impl ChangedKinds {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// This thread has changed numbers of the kinds with these bits.
    ///
    /// A read-modify-write even if the bits are set: an update that drains them afterwards reads this thread's numbers, and one that
    /// drained them before leaves them to the next. A plain load would guarantee neither, since it may run before the numbers are written.
    pub(crate) fn note(&self, bits: u64) {
        self.0.fetch_or(bits, Ordering::Release);
    }

    /// Whether the set has a kind.
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// An update begins, which reads the numbers of these kinds.
    pub(crate) fn drain(&self) -> u64 {
        self.0.swap(0, Ordering::Acquire)
    }

    /// Updates the kinds of the set and of `more` by `update`. If that is refused, the next update has those of the set. Returns whether it was
    /// done.
    pub(crate) fn update(&self, more: u64, update: impl FnOnce(u64) -> Option<()>) -> bool {
        let changed = self.drain();
        let is_done = update(changed | more).is_some();
        if !is_done {
            self.note(changed);
        }
        is_done
    }

    /// In the child of a fork.
    pub(crate) fn reset(&self) {
        self.0.swap(0, Ordering::Relaxed);
    }
}
