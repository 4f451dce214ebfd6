//! Threads: short pauses, locks and clocks. This module and `waiting` alone name `std`.

use crate::on_drop::OnDrop;

pub(crate) fn relax(tries: u32) {
    #[cfg(feature = "std")]
    if tries.is_multiple_of(16) {
        std::thread::yield_now();
        return;
    }
    let _ = tries;
    core::hint::spin_loop();
}

/// It is long enough for another thread's call of the driver.
#[cfg(feature = "std")]
const FEW: u32 = 1 << 12;
#[cfg(not(feature = "std"))]
const MANY: u32 = 1 << 24;

/// False if the awaited thread may be this one, in an outer call ([`enter_call`]) that called back: it would wait for
/// ever.
#[must_use]
pub(crate) fn pause(tries: &mut u32) -> bool {
    #[cfg(feature = "std")]
    let patience = if own::is_in_call() { FEW } else { u32::MAX };
    #[cfg(not(feature = "std"))]
    let patience = MANY;
    if *tries >= patience {
        return false;
    }
    *tries = tries.wrapping_add(1);
    relax(*tries);
    true
}

/// This thread holds something that others wait for, during a call that may call back.
pub(crate) fn enter_call() -> OnDrop<impl FnMut()> {
    #[cfg(feature = "std")]
    own::count_calls(1);
    OnDrop(|| {
        #[cfg(feature = "std")]
        own::count_calls(-1);
    })
}

/// Without feature `std` this cannot be known.
pub(crate) fn is_in_call() -> bool {
    #[cfg(feature = "std")]
    return own::is_in_call();
    #[cfg(not(feature = "std"))]
    false
}

#[derive(Debug)]
pub(crate) struct Stopwatch {
    #[cfg(feature = "std")]
    begun: std::time::Instant,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self {
            #[cfg(feature = "std")]
            begun: std::time::Instant::now(),
        }
    }

    pub(crate) fn nanoseconds(&self) -> u64 {
        #[cfg(feature = "std")]
        return u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        #[cfg(not(feature = "std"))]
        0
    }
}

#[cfg(all(feature = "std", any(target_os = "linux", target_os = "android", windows)))]
pub(crate) use state_mutex::{StateGuard, StateMutex};

#[cfg(all(feature = "std", any(target_os = "linux", target_os = "android", windows)))]
mod state_mutex {
    use core::ops::{Deref, DerefMut};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use alloc_core::support::LockCount;

    /// No driver, host allocator or user function is called over this lock (law 5). No fork waits for it: a forked
    /// child has no device.
    #[derive(Debug)]
    pub(crate) struct StateMutex<T>(Mutex<T>);

    #[must_use = "dropping it releases the lock"]
    pub(crate) struct StateGuard<'g, T> {
        state: MutexGuard<'g, T>,
        _counted: LockCount,
    }

    impl<T> StateMutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(Mutex::new(value))
        }

        #[inline]
        pub(crate) fn lock(&self) -> StateGuard<'_, T> {
            // First: where thread-locals are made on first use, that takes memory.
            let counted = LockCount::new();
            StateGuard { state: self.0.lock().unwrap_or_else(PoisonError::into_inner), _counted: counted }
        }

        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<T> Deref for StateGuard<'_, T> {
        type Target = T;

        #[inline]
        fn deref(&self) -> &T {
            &self.state
        }
    }

    impl<T> DerefMut for StateGuard<'_, T> {
        #[inline]
        fn deref_mut(&mut self) -> &mut T {
            &mut self.state
        }
    }

    #[cfg(test)]
    mod tests {
        use super::StateMutex;

        #[test]
        fn a_lock_counts_for_its_thread_while_it_is_held_and_excludes_others() {
            let mut state = StateMutex::new((0u64, 0u64));
            let held = state.lock();
            assert_eq!(alloc_core::held_state_locks(), 1);
            drop(held);
            assert_eq!(alloc_core::held_state_locks(), 0);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        for _ in 0..if cfg!(miri) { 50 } else { 10_000 } {
                            let mut both = state.lock();
                            assert_eq!(both.1, both.0 * 2);
                            both.0 += 1;
                            both.1 = both.0 * 2;
                        }
                    });
                }
            });
            let turns = if cfg!(miri) { 150 } else { 30_000 };
            assert_eq!(*state.lock(), (turns, turns * 2));
            let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _held = state.lock();
                panic!("under the lock");
            }));
            assert!(unwound.is_err());
            assert_eq!(alloc_core::held_state_locks(), 0);
            state.lock().0 = 1;
            assert_eq!(state.get_mut().0, 1, "the lock serves on");
        }
    }
}

#[cfg(feature = "std")]
mod own {
    use core::cell::Cell;
    use std::thread_local;

    thread_local! {
        /// Const and without Drop: usable during the whole life of a thread.
        static CALLS: Cell<i32> = const { Cell::new(0) };
    }

    pub(super) fn is_in_call() -> bool {
        CALLS.get() > 0
    }

    pub(super) fn count_calls(by: i32) {
        CALLS.set(CALLS.get().wrapping_add(by));
    }
}
