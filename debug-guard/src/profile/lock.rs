//! A lock that a process made by fork can take although the thread that held it was left behind.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::os;

/// Spins; held for some nanoseconds, never over a call out of this library.
pub(super) struct Lock(AtomicU32);

/// Holds a [`Lock`] until dropped.
pub(super) struct Held<'l>(&'l Lock);

const FREE: u32 = 0;

impl Lock {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    #[inline]
    pub(super) fn lock(&self) -> Held<'_> {
        let here = os::forks().wrapping_add(1).max(1);
        if self.0.compare_exchange(FREE, here, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait(here);
        }
        Held(self)
    }

    /// Held since before a fork: by a thread that was left behind, in the middle of what it counted. One block may be counted half from
    /// then on, in the child.
    #[cold]
    fn wait(&self, here: u32) {
        loop {
            let holder = self.0.load(Ordering::Relaxed);
            if holder != here && self.0.compare_exchange_weak(holder, here, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return;
            }
            os::pause();
        }
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.store(FREE, Ordering::Release);
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
        let inherited = Lock(AtomicU32::new(os::forks() + 2));
        drop(inherited.lock());
        assert_eq!(inherited.0.into_inner(), FREE);
    }
}
