//! A lock that a process made by fork can take although the thread that held it was left behind.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::os;

/// Spins; held for some nanoseconds, never over a call out of this library.
///
/// The word holds 0, or how often the process had forked when it was taken, plus one: what a thread of the parent holds is, in a
/// child, held by nobody.
#[derive(Debug)]
pub(crate) struct Lock(AtomicU32);

/// Holds a [`Lock`] until dropped.
#[derive(Debug)]
pub(crate) struct Held<'l> {
    lock: &'l Lock,
    inherited: bool,
}

const FREE: u32 = 0;

impl Lock {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// One that a thread held when the process forked.
    #[cfg(test)]
    pub(crate) const fn left_behind() -> Self {
        Self(AtomicU32::new(u32::MAX))
    }

    #[inline]
    pub(crate) fn lock(&self) -> Held<'_> {
        let here = os::forks().wrapping_add(1).max(1);
        let free = self.0.compare_exchange(FREE, here, Ordering::Acquire, Ordering::Relaxed).is_ok();
        Held { lock: self, inherited: !free && self.wait(here) }
    }

    /// True where it was held since before a fork.
    #[cold]
    fn wait(&self, here: u32) -> bool {
        loop {
            let holder = self.0.load(Ordering::Relaxed);
            if holder != here && self.0.compare_exchange_weak(holder, here, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return holder != FREE;
            }
            os::pause();
        }
    }
}

impl Held<'_> {
    /// True where a thread that was left behind by a fork held it, in the middle of what it did: what the lock guards may be half-done.
    pub(crate) const fn is_inherited(&self) -> bool {
        self.inherited
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lock.0.store(FREE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_never_of_a_process_that_is_gone() {
        let lock = Lock::new();
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
        let inherited = Lock::left_behind();
        assert!(inherited.lock().is_inherited());
        assert!(!inherited.lock().is_inherited());
        assert_eq!(inherited.0.into_inner(), FREE);
    }
}
