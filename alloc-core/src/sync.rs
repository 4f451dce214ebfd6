//! The atomics and the lock that the accounts are made of.

pub(crate) use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use crate::threads;

/// A short spin lock for state of ours; never held over a call to a backing allocator (law 5).
///
/// Order, outermost first: tree, registry, table, row, budget.
pub(crate) struct Lock(AtomicU32);

/// Holds a [`Lock`] until dropped.
pub(crate) struct Held<'l>(&'l Lock);

impl Lock {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    #[inline]
    pub(crate) fn lock(&self) -> Held<'_> {
        if self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait();
        }
        threads::lock_taken();
        Held(self)
    }

    #[cold]
    fn wait(&self) {
        let mut tries = 0u32;
        loop {
            if self.0.load(Ordering::Relaxed) == 0
                && self.0.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            tries = tries.saturating_add(1);
            threads::relax(tries);
        }
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        threads::lock_given_back();
        self.0.0.store(0, Ordering::Release);
    }
}
