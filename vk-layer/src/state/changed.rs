//! The kinds whose numbers have changed since the last update. `testkit/models` runs it in every order of its steps.

#![forbid(unsafe_code)]

use crate::sync::{AtomicU64, Ordering};

pub(crate) struct ChangedKinds(AtomicU64);

impl ChangedKinds {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// A read-modify-write even if the bits are set: an update that drains them afterwards reads this thread's numbers,
    /// and one that drained them before leaves them to the next. A plain load would guarantee neither, since it may run
    /// before the numbers are written.
    pub(crate) fn note(&self, bits: u64) {
        self.0.fetch_or(bits, Ordering::Release);
    }

    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn drain(&self) -> u64 {
        self.0.swap(0, Ordering::Acquire)
    }

    /// If `update` is refused, the next update has the kinds of the set.
    pub(crate) fn update(&self, more: u64, update: impl FnOnce(u64) -> Option<()>) -> bool {
        let changed = self.drain();
        let is_done = update(changed | more).is_some();
        if !is_done {
            self.note(changed);
        }
        is_done
    }

    pub(crate) fn reset(&self) {
        self.0.swap(0, Ordering::Relaxed);
    }
}
