//! State and the lock that guards it.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

use alloc_core::{StateLock, StateLockHeld};

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

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn one_thread_at_a_time_has_the_state() {
        let mut state = Guarded::new((0u64, 0u64));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
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
