//! A lock of the mock's own: a driver may hold what it likes while it asks for host memory, which law 5 forbids *our* locks.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

/// A value that one thread at a time may touch; whoever waits spins.
pub(super) struct MockLock<T> {
    is_locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through `MockLockGuard` alone, of which there is one at a time.
unsafe impl<T: Send> Sync for MockLock<T> {}

pub(super) struct MockLockGuard<'g, T>(&'g MockLock<T>);

impl<T> MockLock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self {
            is_locked: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    pub(super) fn lock(&self) -> MockLockGuard<'_, T> {
        while self
            .is_locked
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            core::hint::spin_loop();
        }
        MockLockGuard(self)
    }

    pub(super) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T> Deref for MockLockGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the gate is this one's until it is dropped.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for MockLockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `self` is borrowed alone.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for MockLockGuard<'_, T> {
    fn drop(&mut self) {
        self.0.is_locked.store(false, Ordering::Release);
    }
}
