use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use crate::os;

/// A value behind a spin lock that is held for some nanoseconds, never over a call out of this library.
///
/// The word is [`FREE`], or one more than the number of forks before the lock was acquired: a child knows the locks
/// that threads of the parent hold.
#[derive(Debug)]
pub(crate) struct ForkSafeMutex<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one holder at a time.
unsafe impl<T: Send> Sync for ForkSafeMutex<T> {}

pub(crate) trait Abandoned {
    /// The lock is held, on a value that was being changed when the process forked.
    fn abandoned(&mut self);
}

#[derive(Debug)]
pub(crate) struct ForkSafeMutexGuard<'l, T>(&'l ForkSafeMutex<T>);

const FREE: u32 = 0;

impl<T: Abandoned> ForkSafeMutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> ForkSafeMutexGuard<'_, T> {
        let here = os::forks().wrapping_add(1).max(1);
        match self.exchange(FREE, here) {
            Ok(_) => ForkSafeMutexGuard(self),
            Err(_) => self.wait(here),
        }
    }

    #[cold]
    fn wait(&self, here: u32) -> ForkSafeMutexGuard<'_, T> {
        for tries in 1_u32.. {
            relax(tries);
            let holder = self.word.load(Ordering::Relaxed);
            if holder != here && self.exchange(holder, here).is_ok() {
                let mut guard = ForkSafeMutexGuard(self);
                if holder != FREE {
                    guard.abandoned();
                }
                return guard;
            }
        }
        self.wait(here)
    }

    #[inline]
    fn exchange(&self, holder: u32, here: u32) -> Result<u32, u32> {
        self.word.compare_exchange(holder, here, Ordering::Acquire, Ordering::Relaxed)
    }
}

#[cfg(test)]
impl<T> ForkSafeMutex<T> {
    pub(crate) fn leave_behind(&mut self) {
        self.word = AtomicU32::new(u32::MAX);
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
        self.0.word.store(FREE, Ordering::Release);
    }
}

fn relax(tries: u32) {
    if tries.is_multiple_of(64) { os::pause() } else { core::hint::spin_loop() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Value {
        repairs: u32,
        count: u32,
    }

    impl Abandoned for Value {
        fn abandoned(&mut self) {
            self.repairs += 1;
        }
    }

    const NEW: Value = Value { repairs: 0, count: 0 };

    #[test]
    fn one_at_a_time() {
        let mutex = ForkSafeMutex::new(NEW);
        let times = if cfg!(miri) { 20 } else { 2000 };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..times).for_each(|_| mutex.lock().count += 1));
            }
        });
        let value = mutex.lock();
        assert_eq!((value.count, value.repairs), (3 * times, 0));
    }

    #[test]
    fn a_value_is_made_whole_once_when_its_holder_was_left_behind() {
        let mut mutex = ForkSafeMutex::new(NEW);
        assert_eq!(mutex.lock().repairs, 0);
        for repairs in 1..3 {
            mutex.leave_behind();
            assert_eq!(mutex.lock().repairs, repairs);
            assert_eq!(mutex.lock().repairs, repairs);
        }
    }
}
