//! What depends on which thread is running, and how one waits for another: the one module that names `std`.

use core::sync::atomic::AtomicU32;
#[cfg(not(feature = "std"))]
use core::sync::atomic::Ordering;

/// A moment's pause in a loop that waits; `tries` says how long it has waited already.
pub(crate) fn relax(tries: u32) {
    #[cfg(feature = "std")]
    if tries.is_multiple_of(16) {
        std::thread::yield_now();
        return;
    }
    let _ = tries;
    core::hint::spin_loop();
}

/// As many threads as have a [`slot`] at a time.
pub(crate) const SLOTS: usize = 64;

/// A number below [`SLOTS`] that no other living thread has, for as long as this one lives. `None` where all are taken, while the
/// thread's own storage is being destroyed, and without feature `std`.
#[inline(always)]
pub(crate) fn slot() -> Option<usize> {
    #[cfg(feature = "std")]
    return own::slot();
    #[cfg(not(feature = "std"))]
    None
}

/// A number that no other thread has or had; 0 without feature `std`.
pub(crate) fn number() -> u64 {
    #[cfg(feature = "std")]
    return own::number();
    #[cfg(not(feature = "std"))]
    0
}

/// Returns when `word` is no longer `value`, whoever calls [`wake`] after changing it. Takes no memory.
pub(crate) fn wait_while(word: &AtomicU32, value: u32) {
    #[cfg(feature = "std")]
    own::wait_while(word, value);
    #[cfg(not(feature = "std"))]
    {
        let mut tries = 0u32;
        while word.load(Ordering::Acquire) == value {
            tries = tries.wrapping_add(1);
            relax(tries);
        }
    }
}

/// All who [wait](wait_while) for this word look at it again.
pub(crate) fn wake(word: &AtomicU32) {
    #[cfg(feature = "std")]
    own::wake(word);
    #[cfg(not(feature = "std"))]
    let _ = word;
}

#[cfg(feature = "std")]
mod own {
    use core::cell::Cell;
    use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::thread_local;

    use super::SLOTS;

    /// A bit a slot that is taken.
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    static NUMBERS: AtomicU64 = AtomicU64::new(1);

    /// None was asked for yet.
    const UNASKED: usize = usize::MAX;
    /// There is none, and will be none.
    const NEVER: usize = usize::MAX - 1;

    thread_local! {
        // Const-made and without Drop: there from the first instruction of a thread to its last.
        static SLOT: Cell<usize> = const { Cell::new(UNASKED) };
        static NUMBER: Cell<u64> = const { Cell::new(0) };
        // Only its destructor matters.
        static EXIT: Exit = const { Exit };
    }

    struct Exit;

    impl Drop for Exit {
        fn drop(&mut self) {
            let slot = SLOT.replace(NEVER);
            if slot < SLOTS {
                // Whoever gets it next sees all that this thread did with it.
                TAKEN.fetch_and(!(1 << slot), Ordering::Release);
            }
        }
    }

    #[inline(always)]
    pub(super) fn slot() -> Option<usize> {
        match SLOT.get() {
            slot if slot < SLOTS => Some(slot),
            NEVER => None,
            _ => first(),
        }
    }

    #[cold]
    fn first() -> Option<usize> {
        if EXIT.try_with(|_| ()).is_err() {
            SLOT.set(NEVER);
            return None;
        }
        let taken = TAKEN.fetch_update(Ordering::AcqRel, Ordering::Acquire, |taken| Some(taken | taken.wrapping_add(1)));
        // The lowest that was not taken; all ones have none. A later call asks again: a thread may have ended.
        let slot = taken.map_or(u32::MAX, |taken| taken.trailing_ones()) as usize;
        if slot >= SLOTS {
            return None;
        }
        SLOT.set(slot);
        Some(slot)
    }

    pub(super) fn number() -> u64 {
        if NUMBER.get() == 0 {
            NUMBER.set(NUMBERS.fetch_add(1, Ordering::Relaxed));
        }
        NUMBER.get()
    }

    /// Where threads wait: by the address of their word. Neither takes memory where locks are words of the system's (Linux, Windows).
    static PLACES: [(Mutex<()>, Condvar); 16] = [const { (Mutex::new(()), Condvar::new()) }; 16];

    fn place(word: &AtomicU32) -> &'static (Mutex<()>, Condvar) {
        let [first, ..] = &PLACES;
        PLACES.get(core::ptr::from_ref(word).addr() / 64 % PLACES.len()).unwrap_or(first)
    }

    pub(super) fn wait_while(word: &AtomicU32, value: u32) {
        let (lock, changed) = place(word);
        let mut held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        while word.load(Ordering::Acquire) == value {
            held = changed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn wake(word: &AtomicU32) {
        let (lock, changed) = place(word);
        // Whoever looked before the change sleeps by now, and hears.
        drop(lock.lock().unwrap_or_else(PoisonError::into_inner));
        changed.notify_all();
    }

    #[cfg(test)]
    mod tests {
        use std::thread;
        use std::vec::Vec;

        use super::*;

        #[test]
        fn slots_are_a_threads_own_and_come_back_when_it_ends() {
            let mine = slot();
            assert!(mine.is_some() && slot() == mine);
            for _ in 0..3 * SLOTS {
                let other = thread::spawn(slot).join().expect("no panic");
                assert!(other.is_some() && other != mine);
            }
            let numbers: Vec<u64> = (0..4).map(|_| thread::spawn(number).join().expect("no panic")).collect();
            assert!(numbers.is_sorted() && numbers.windows(2).all(|two| two[0] != two[1]) && number() == number());
        }

        #[test]
        fn who_waits_is_woken() {
            let word = AtomicU32::new(0);
            thread::scope(|threads| {
                for _ in 0..3 {
                    threads.spawn(|| wait_while(&word, 0));
                }
                word.store(1, Ordering::Release);
                wake(&word);
            });
        }
    }
}
