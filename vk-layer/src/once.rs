//! Work that a process does once, even if it forks meanwhile.
//!
//! With `std`'s cells other threads wait until the first one is done. In the child of a fork that thread may not exist.
//! Here a claim contains the id of its process and the number of forks that led to it, so that the child repeats the
//! work. (In a PID namespace of its own a child may have its parent's id.)

use std::cell::UnsafeCell;
use std::mem::{MaybeUninit, forget};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use std::{process, thread};

const NOT_DONE: u64 = 0;
const DONE: u64 = 1;

const YIELDS: u32 = 100;

static FORKS: AtomicU32 = AtomicU32::new(0);

pub(crate) fn after_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// See the module. Work done in the parent counts as done in the child.
pub(crate) struct OnceAcrossForks(AtomicU64);

impl OnceAcrossForks {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(NOT_DONE))
    }

    #[inline]
    fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire) == DONE
    }

    /// Other threads wait; after a panic the next one tries again.
    pub(crate) fn call_once(&self, work: impl FnOnce()) {
        if self.is_done() {
            return;
        }
        let Some(unclaim) = self.claim(own_claim()) else {
            return;
        };
        work();
        forget(unclaim);
        self.0.store(DONE, Ordering::Release);
    }

    /// `None` when the work is done.
    fn claim(&self, own: u64) -> Option<Unclaim<'_>> {
        let mut before = NOT_DONE;
        let mut waits = 0_u32;
        loop {
            let swapped = self.0.compare_exchange(before, own, Ordering::Acquire, Ordering::Acquire);
            before = match swapped {
                Ok(_) => return Some(Unclaim(self)),
                Err(DONE) => return None,
                Err(now) if now == own => {
                    waits = waits.saturating_add(1);
                    if waits <= YIELDS {
                        thread::yield_now();
                    } else {
                        thread::sleep(Duration::from_millis(1));
                    }
                    NOT_DONE
                }
                // Free again, or claimed by a thread of the parent, which this process does not have.
                Err(now) => now,
            };
        }
    }
}

#[must_use]
pub(crate) struct LockHeld<'l> {
    _claim: Option<Unclaim<'l>>,
}

/// The child of a fork can acquire the lock, even if a thread of the parent held it: what it protects must be whole at
/// any time.
pub(crate) struct LockAcrossForks(OnceAcrossForks);

impl LockAcrossForks {
    pub(crate) const fn new() -> Self {
        Self(OnceAcrossForks::new())
    }

    pub(crate) fn lock(&self) -> LockHeld<'_> {
        // It is never done, so that there is a claim.
        LockHeld { _claim: self.0.claim(own_claim()) }
    }
}

fn own_claim() -> u64 {
    claim_of(FORKS.load(Ordering::Relaxed), process::id())
}

/// The answer is never one of the two constants above; ids of processes have at most 22 bits.
fn claim_of(forks: u32, process: u32) -> u64 {
    (u64::from(forks) << 32) + u64::from(process) + DONE + 1
}

struct Unclaim<'o>(&'o OnceAcrossForks);

impl Drop for Unclaim<'_> {
    fn drop(&mut self) {
        self.0.0.store(NOT_DONE, Ordering::Release);
    }
}

pub(crate) struct ValueAcrossForks<T> {
    once: OnceAcrossForks,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the thread that has the claim writes the value; afterwards it is only read.
unsafe impl<T: Send + Sync> Sync for ValueAcrossForks<T> {}

impl<T> ValueAcrossForks<T> {
    pub(crate) const fn new() -> Self {
        Self { once: OnceAcrossForks::new(), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: the work is done.
        self.once.is_done().then(|| unsafe { self.written() })
    }

    /// # Safety
    /// The work is done.
    #[inline]
    unsafe fn written(&self) -> &T {
        // SAFETY: the work is done: nothing writes the value.
        let value = unsafe { &*self.value.get() };
        // SAFETY: the work is done: it was written.
        unsafe { value.assume_init_ref() }
    }

    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        self.once.call_once(|| {
            let made = make();
            // SAFETY: the claim is this thread's, and no thread reads before the work is done.
            unsafe { self.value.get().write(MaybeUninit::new(made)) };
        });
        // SAFETY: the work is done.
        unsafe { self.written() }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::{DONE, OnceAcrossForks, ValueAcrossForks, claim_of, forks, own_claim};

    #[test]
    fn ly37_what_a_thread_of_the_parent_has_begun_the_child_does() {
        // A fork leaves it so: claimed by a thread of another process, which in another namespace may have the same
        // number.
        let parent = claim_of(forks().wrapping_sub(1), std::process::id());
        for claim in [own_claim() + 1, parent] {
            let value = ValueAcrossForks::new();
            value.once.0.store(claim, Ordering::Relaxed);
            let made = Cell::new(0);
            for _ in 0..2 {
                let one_more = || {
                    made.set(made.get() + 1);
                    7
                };
                assert_eq!(*value.get_or_make(one_more), 7);
            }
            assert_eq!(made.get(), 1);
        }
        assert!(claim_of(0, 0) > DONE);
    }

    #[test]
    fn of_several_threads_one_does_the_work_and_all_see_it() {
        let value = ValueAcrossForks::new();
        let made = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let number = value.get_or_make(|| made.fetch_add(1, Ordering::Relaxed) + 40);
                    assert_eq!(*number, 40);
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
    }

    #[test]
    fn work_that_panicked_is_tried_again() {
        let once = OnceAcrossForks::new();
        let panicked = catch_unwind(AssertUnwindSafe(|| once.call_once(|| panic!("planted"))));
        assert!(panicked.is_err());
        let is_done = Cell::new(false);
        once.call_once(|| is_done.set(true));
        assert!(is_done.get());
    }
}
