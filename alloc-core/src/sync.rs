use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

pub(crate) use core::sync::atomic::{
    AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

use crate::{fork, threads};

/// A cell that is written under a lock, or by one thread alone.
pub(crate) trait Relaxed {
    type Value;
    fn get(&self) -> Self::Value;
    fn set(&self, value: Self::Value);
}

macro_rules! relaxed {
    ($($cell:ident $(<$to:ident>)?: $value:ty),*) => {$(
        impl $(<$to>)? Relaxed for $cell $(<$to>)? {
            type Value = $value;
            #[inline]
            fn get(&self) -> $value {
                self.load(Ordering::Relaxed)
            }
            #[inline]
            fn set(&self, value: $value) {
                self.store(value, Ordering::Relaxed);
            }
        }
    )*};
}
relaxed!(AtomicU8: u8, AtomicU32: u32, AtomicU64: u64, AtomicUsize: usize, AtomicI64: i64, AtomicPtr<T>: *mut T);

/// A short spin lock for state of ours; never held over a call to a host allocator, a driver or a destructor (law 5).
///
/// [`held_state_locks`](crate::held_state_locks) counts it. A thread that acquires it twice waits for ever. No thread
/// holds one while another forks (see [`watch_forks`](crate::support::watch_forks)). Order here, outermost first: owned
/// values (of two contexts, the older one's first), tree, registry, table, row, budget.
///
/// ```
/// let lock = alloc_core::support::StateLock::new();
/// let held = lock.lock();
/// drop(held);
/// assert_eq!(alloc_core::held_state_locks(), 0);
/// ```
#[derive(Debug, Default)]
pub struct StateLock(AtomicU32);

pub(crate) use StateLock as Lock;

/// Holds a [`StateLock`] until dropped.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct StateLockHeld<'l> {
    lock: &'l StateLock,
    /// The thread that acquired it is counted.
    of_this_thread: PhantomData<*const ()>,
}

pub(crate) use StateLockHeld as Held;

impl StateLock {
    /// A free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Spins while the lock is held, and after a while yields.
    #[inline]
    pub fn lock(&self) -> StateLockHeld<'_> {
        // The child of a fork would have the lock held for ever.
        while threads::lock_entered() && !fork::may_hold_locks() {
            threads::lock_left();
            fork::wait_for_gate();
        }
        if !self.try_acquire() {
            self.wait();
        }
        self.held()
    }

    /// `None` while the lock is held, and while the process forks.
    pub(crate) fn try_lock(&self) -> Option<StateLockHeld<'_>> {
        let may_hold = !threads::lock_entered() || fork::may_hold_locks();
        if may_hold && self.try_acquire() {
            return Some(self.held());
        }
        threads::lock_left();
        None
    }

    /// The forking thread's lock is not counted, and ignores the gate.
    #[cfg(all(feature = "std", unix, not(miri)))]
    pub(crate) fn while_held<R>(&self, run: impl FnOnce() -> R) -> R {
        if !self.try_acquire() {
            self.wait();
        }
        let result = run();
        self.reset();
        result
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    const fn held(&self) -> StateLockHeld<'_> {
        StateLockHeld { lock: self, of_this_thread: PhantomData }
    }

    /// Also releases a lock whose holder no longer exists.
    #[inline]
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Release);
    }

    #[cold]
    fn wait(&self) {
        let mut tries = 0u32;
        loop {
            if self.0.get() == 0 && self.try_acquire() {
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
        self.lock.reset();
        threads::lock_left();
    }
}

/// Counts a lock of another kind in [`held_state_locks`](crate::held_state_locks) until it is dropped.
///
/// For state that is useless in the child of a fork, such as a device's: no fork waits for such a lock, so the child
/// may find it held. Its holder calls nothing of this crate that acquires a [`StateLock`] (law 5).
///
/// ```
/// let count = alloc_core::support::LockCount::new();
/// # #[cfg(feature = "std")]
/// assert_eq!(alloc_core::held_state_locks(), 1);
/// drop(count);
/// assert_eq!(alloc_core::held_state_locks(), 0);
/// ```
#[derive(Debug)]
#[must_use = "dropping it ends the count"]
pub struct LockCount(PhantomData<*const ()>);

impl LockCount {
    /// The calling thread has acquired a lock.
    #[inline]
    #[expect(clippy::new_without_default, reason = "making one counts a lock")]
    pub fn new() -> Self {
        threads::count_other_lock(1);
        Self(PhantomData)
    }
}

impl Drop for LockCount {
    #[inline]
    fn drop(&mut self) {
        threads::count_other_lock(-1);
    }
}

/// State that is reached under a [`StateLock`] only.
///
/// ```
/// let state = alloc_core::support::StateMutex::new(1);
/// *state.lock() += 1;
/// assert_eq!(*state.lock(), 2);
/// ```
#[derive(Debug)]
pub struct StateMutex<T> {
    lock: StateLock,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time reaches the value, under the lock.
unsafe impl<T: Send> Sync for StateMutex<T> {}

/// The state of a [`StateMutex`], until dropped.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct StateGuard<'g, T> {
    value: &'g UnsafeCell<T>,
    _lock: StateLockHeld<'g>,
}

impl<T> StateMutex<T> {
    /// `value`, behind a lock that no thread holds.
    pub const fn new(value: T) -> Self {
        Self { lock: StateLock::new(), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock, as [`StateLock::lock`].
    #[inline]
    pub fn lock(&self) -> StateGuard<'_, T> {
        let lock = self.lock.lock();
        StateGuard { value: &self.value, _lock: lock }
    }

    /// `None` while the lock is held, and while the process forks.
    pub fn try_lock(&self) -> Option<StateGuard<'_, T>> {
        let lock = self.lock.try_lock()?;
        Some(StateGuard { value: &self.value, _lock: lock })
    }

    /// The state without the lock: no other thread has a reference.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T> Deref for StateGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock while `self` lives; a writer would need `&mut self`.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for StateGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the lock while `self` lives, and `&mut self` is the only access.
        unsafe { &mut *self.value.get() }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn one_thread_at_a_time_has_the_state() {
        let rounds = if cfg!(miri) { 10 } else { 10_000 };
        let mut state = StateMutex::new((0u64, 0u64));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let mut both = state.lock();
                        assert_eq!(both.1, both.0 * 2);
                        both.0 += 1;
                        both.1 = both.0 * 2;
                    }
                });
            }
        });
        assert_eq!(*state.get_mut(), (2 * rounds, 4 * rounds));
    }
}
