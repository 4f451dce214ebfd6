//! The atomics and the lock that the accounts are made of.

pub(crate) use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use crate::threads;

/// A short spin lock for state of ours; never held over a call to a host allocator, a driver or a destructor (law 5).
///
/// For the crates built on this one: that it is held shows in [`held_state_locks`](crate::held_state_locks). It guards nothing by
/// itself, is not fair, and a thread that takes it twice waits for ever. Order here, outermost first: owned
/// values (of two contexts, the older one's first), tree, registry, table, row, budget.
///
/// ```
/// let lock = alloc_core::StateLock::new();
/// let held = lock.lock();
/// drop(held);
/// assert_eq!(alloc_core::held_state_locks(), 0);
/// ```
#[derive(Debug, Default)]
pub struct StateLock(AtomicU32);

/// The name in this crate.
pub(crate) use StateLock as Lock;

/// Holds a [`StateLock`] until dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the lock back"]
pub struct StateLockHeld<'l>(&'l StateLock);

pub(crate) use StateLockHeld as Held;

impl StateLock {
    /// A lock that nobody holds.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Waits until nobody holds it, spinning, after a while yielding.
    #[inline]
    pub fn lock(&self) -> StateLockHeld<'_> {
        if self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait();
        }
        threads::lock_taken();
        StateLockHeld(self)
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

impl Drop for StateLockHeld<'_> {
    #[inline]
    fn drop(&mut self) {
        threads::lock_given_back();
        self.0.0.store(0, Ordering::Release);
    }
}
