//! What guards state, and what guards one object of the driver's.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

use alloc_core::{StateLock, StateLockHeld};

pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::threads;

/// State and the lock without which it is not reached. Never held over a call to a driver, an allocator or a user's function.
pub(crate) struct Guarded<T> {
    lock: StateLock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached under the lock alone, by one thread at a time; what that thread does with it is what `Send` allows.
unsafe impl<T: Send> Sync for Guarded<T> {}

/// The state of a [`Guarded`], until dropped.
pub(crate) struct Held<'g, T> {
    value: &'g UnsafeCell<T>,
    _lock: StateLockHeld<'g>,
}

impl<T> Guarded<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { lock: StateLock::new(), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Held<'_, T> {
        let lock = self.lock.lock();
        Held { value: &self.value, _lock: lock }
    }

    /// Without the lock: nobody else has a reference.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock for as long as `self` lives, and a writer would need `&mut self`.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the lock for as long as `self` lives, and `&mut self` is the one way in.
        unsafe { &mut *self.value.get() }
    }
}

/// The turn at one object that Vulkan wants externally synchronised: mapping and unmapping one `VkDeviceMemory`.
///
/// Unlike a state lock it may be held over the driver's call. Ranked last: who has the turn takes state locks for moments only, and
/// nobody waits for a turn with a state lock held.
pub(crate) struct Gate(AtomicU32);

/// A turn, until dropped.
#[must_use = "dropping it ends the turn"]
pub(crate) struct Turn<'g>(&'g Gate);

impl Gate {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    pub(crate) fn enter(&self) -> Turn<'_> {
        let mut tries = 0u32;
        while self.0.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            tries = tries.wrapping_add(1);
            threads::relax(tries);
        }
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn one_thread_at_a_time_has_the_state_or_the_turn() {
        let mut state = Guarded::new((0u64, 0u64));
        let (gate, inside) = (Gate::new(), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let turn = gate.enter();
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                        assert_eq!(alloc_core::held_state_locks(), 0, "a turn is no state lock");
                        inside.fetch_sub(1, Ordering::Relaxed);
                        drop(turn);
                        let mut both = state.lock();
                        both.0 += 1;
                        both.1 = both.0 * 2;
                    }
                });
            }
        });
        assert_eq!(*state.get_mut(), (20_000, 40_000));
    }
}
