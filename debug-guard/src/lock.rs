//! Locks that the child of a fork can acquire although a thread of the parent held them.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use crate::os;

/// A value behind a [`ForkSafeSpinLock`].
#[derive(Debug)]
pub(crate) struct ForkSafeMutex<T> {
    lock: ForkSafeSpinLock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one holder at a time.
unsafe impl<T: Send> Sync for ForkSafeMutex<T> {}

/// A value that can be repaired if its lock's holder is gone.
pub(crate) trait Abandoned {
    /// Called with the lock held, on a value that was being changed when the process forked.
    fn abandoned(&mut self);
}

/// Holds a [`ForkSafeMutex`] until dropped.
#[derive(Debug)]
pub(crate) struct ForkSafeMutexGuard<'l, T>(&'l ForkSafeMutex<T>);

/// A spin lock. It is held for some nanoseconds, never over a call out of this library.
///
/// The word is [`FREE`], or one more than the number of forks before the lock was acquired. So a child knows the locks that threads of
/// the parent hold.
#[derive(Debug, Default)]
pub(crate) struct ForkSafeSpinLock(AtomicU32);

/// Holds a [`ForkSafeSpinLock`] until dropped.
#[derive(Debug)]
pub(crate) struct SpinLockGuard<'l> {
    lock: &'l ForkSafeSpinLock,
    former: FormerHolder,
}

/// The holder of a lock before it was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormerHolder {
    /// No thread.
    None,
    /// A thread that a fork left behind, in the middle of what it did.
    LeftBehind,
}

const FREE: u32 = 0;

impl ForkSafeSpinLock {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// One that a thread held when the process forked.
    #[cfg(test)]
    pub(crate) const fn left_behind() -> Self {
        Self(AtomicU32::new(u32::MAX))
    }

    #[inline]
    pub(crate) fn lock(&self) -> SpinLockGuard<'_> {
        let former = self.acquire();
        SpinLockGuard { lock: self, former }
    }

    #[inline]
    fn acquire(&self) -> FormerHolder {
        match self.try_acquire() {
            Some(former) => former,
            None => self.wait(),
        }
    }

    #[inline]
    fn try_acquire(&self) -> Option<FormerHolder> {
        let here = os::forks().wrapping_add(1).max(1);
        match self.exchange(FREE, here) {
            Ok(_) => Some(FormerHolder::None),
            Err(holder) if holder == here => None,
            Err(holder) => self.inherit(holder, here),
        }
    }

    #[cold]
    fn inherit(&self, holder: u32, here: u32) -> Option<FormerHolder> {
        self.exchange(holder, here).ok()?;
        Some(FormerHolder::LeftBehind)
    }

    #[cold]
    fn wait(&self) -> FormerHolder {
        let mut tries = 0_u32;
        loop {
            tries = tries.wrapping_add(1);
            relax(tries);
            if let Some(former) = self.try_acquire() {
                return former;
            }
        }
    }

    #[inline]
    fn exchange(&self, holder: u32, here: u32) -> Result<u32, u32> {
        self.0
            .compare_exchange(holder, here, Ordering::Acquire, Ordering::Relaxed)
    }

    #[inline]
    fn release(&self) {
        self.0.store(FREE, Ordering::Release);
    }
}

impl SpinLockGuard<'_> {
    /// True if a thread that a fork left behind held the lock: what the lock guards may be half done.
    pub(crate) const fn is_inherited(&self) -> bool {
        matches!(self.former, FormerHolder::LeftBehind)
    }
}

impl Drop for SpinLockGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lock.release();
    }
}

impl<T: Abandoned> ForkSafeMutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            lock: ForkSafeSpinLock::new(),
            value: UnsafeCell::new(value),
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> ForkSafeMutexGuard<'_, T> {
        self.acquired(self.lock.acquire())
    }

    #[inline]
    fn acquired(&self, former: FormerHolder) -> ForkSafeMutexGuard<'_, T> {
        let mut guard = ForkSafeMutexGuard(self);
        if former == FormerHolder::LeftBehind {
            guard.abandoned();
        }
        guard
    }
}

impl<T> Deref for ForkSafeMutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for ForkSafeMutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, by this value alone.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for ForkSafeMutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.lock.release();
    }
}

/// Spins once; every 64th time the thread yields instead.
pub(crate) fn relax(tries: u32) {
    if tries.is_multiple_of(64) {
        os::pause()
    } else {
        core::hint::spin_loop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_never_of_a_process_that_is_gone() {
        let lock = ForkSafeSpinLock::new();
        let count = AtomicU32::new(0);
        let times = if cfg!(miri) { 20 } else { 2000 };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..times {
                        let _held = lock.lock();
                        let seen = count.load(Ordering::Relaxed);
                        count.store(seen + 1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 3 * times);
        let inherited = ForkSafeSpinLock::left_behind();
        assert!(inherited.lock().is_inherited());
        assert!(!inherited.lock().is_inherited());
        assert_eq!(inherited.0.into_inner(), FREE);
    }

    #[test]
    fn a_value_is_made_whole_once_when_its_holder_was_left_behind() {
        #[derive(Debug)]
        struct Value {
            repairs: u32,
        }

        impl Abandoned for Value {
            fn abandoned(&mut self) {
                self.repairs += 1;
            }
        }

        let mut mutex = ForkSafeMutex::new(Value { repairs: 0 });
        assert_eq!(mutex.lock().repairs, 0);
        for repairs in 1..3 {
            mutex.lock = ForkSafeSpinLock::left_behind();
            assert_eq!(mutex.lock().repairs, repairs);
            assert_eq!(mutex.lock().repairs, repairs);
        }
    }
}
