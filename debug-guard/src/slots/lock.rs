//! A lock that a thread which fork left behind cannot hold for ever.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// A value behind a short spin lock. Never held over a call to a host allocator or a user function.
///
/// The word holds 0, or how often the process had forked when it was taken, plus one: in a child, what a thread of the parent
/// holds is held by nobody.
#[derive(Debug, Default)]
pub(super) struct Locked<T> {
    holder: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one holder at a time.
unsafe impl<T: Send> Sync for Locked<T> {}

/// What must be made whole when its holder is gone.
pub(super) trait Abandoned {
    /// Called with the lock held, on a value that was being changed when the process forked.
    fn abandoned(&mut self);
}

/// Holds a [`Locked`] until dropped.
#[derive(Debug)]
pub(super) struct Held<'l, T>(&'l Locked<T>);

impl<T: Abandoned> Locked<T> {
    pub(super) const fn new(value: T) -> Self {
        Self { holder: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(super) fn try_lock(&self) -> Option<Held<'_, T>> {
        let us = crate::os::forks().wrapping_add(1);
        match self.holder.compare_exchange(0, us, Acquire, Relaxed) {
            Ok(_) => Some(Held(self)),
            Err(holder) if holder == us => None,
            Err(holder) => self.inherit(holder, us),
        }
    }

    #[cold]
    fn inherit(&self, holder: u32, us: u32) -> Option<Held<'_, T>> {
        self.holder.compare_exchange(holder, us, Acquire, Relaxed).ok()?;
        let mut held = Held(self);
        held.abandoned();
        Some(held)
    }

    #[inline]
    pub(super) fn lock(&self) -> Held<'_, T> {
        match self.try_lock() {
            Some(held) => held,
            None => self.wait(),
        }
    }

    #[cold]
    fn wait(&self) -> Held<'_, T> {
        let mut tries = 0_u32;
        loop {
            tries = tries.wrapping_add(1);
            relax(tries);
            if let Some(held) = self.try_lock() {
                return held;
            }
        }
    }
}

/// Lets somebody else go on.
pub(super) fn relax(tries: u32) {
    if tries.is_multiple_of(64) { crate::os::pause() } else { core::hint::spin_loop() }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, by this value alone.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.holder.store(0, Release);
    }
}
