use core::sync::atomic::AtomicU32;
#[cfg(not(feature = "std"))]
use core::sync::atomic::Ordering;

/// The unique number of this thread; 0 without feature `std`.
pub(crate) fn number() -> u64 {
    #[cfg(feature = "std")]
    return own::number();
    #[cfg(not(feature = "std"))]
    0
}

/// A thread that changes `word` calls [`wake`]. Allocates nothing.
pub(crate) fn wait_while(word: &AtomicU32, value: u32) {
    #[cfg(feature = "std")]
    own::wait_while(word, value);
    #[cfg(not(feature = "std"))]
    {
        let mut tries = 0u32;
        while word.load(Ordering::Acquire) == value {
            tries = tries.wrapping_add(1);
            crate::threads::relax(tries);
        }
    }
}

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

    static NUMBERS: AtomicU64 = AtomicU64::new(1);

    thread_local! {
        // Const and without Drop: valid while other thread-locals are destroyed.
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn number() -> u64 {
        if NUMBER.get() == 0 {
            NUMBER.set(NUMBERS.fetch_add(1, Ordering::Relaxed));
        }
        NUMBER.get()
    }

    /// Mutex and Condvar allocate nothing on Linux and Windows.
    static PLACES: [(Mutex<()>, Condvar); 16] = [const { (Mutex::new(()), Condvar::new()) }; 16];

    fn waiting_place(word: &AtomicU32) -> &'static (Mutex<()>, Condvar) {
        let [first, ..] = &PLACES;
        PLACES.get(core::ptr::from_ref(word).addr() / 64 % PLACES.len()).unwrap_or(first)
    }

    pub(super) fn wait_while(word: &AtomicU32, value: u32) {
        let (lock, changed) = waiting_place(word);
        let mut held = lock.lock().unwrap_or_else(PoisonError::into_inner);
        while word.load(Ordering::Acquire) == value {
            held = changed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn wake(word: &AtomicU32) {
        let (lock, changed) = waiting_place(word);
        // A thread that read the word before the change waits by now.
        drop(lock.lock().unwrap_or_else(PoisonError::into_inner));
        changed.notify_all();
    }

    #[cfg(test)]
    mod tests {
        use std::sync::mpsc::{RecvTimeoutError, channel};
        use std::thread;
        use std::time::Duration;
        use std::vec::Vec;

        use super::*;

        #[test]
        fn numbers_are_unique() {
            let numbers: Vec<u64> = (0..4).map(|_| thread::spawn(number).join().expect("no panic")).collect();
            assert!(numbers.is_sorted() && numbers.windows(2).all(|two| two[0] != two[1]) && number() == number());
        }

        #[test]
        fn who_waits_is_woken() {
            // Not joined, so that one who is never woken fails here instead of waiting for ever.
            static WORD: AtomicU32 = AtomicU32::new(0);
            let (woken, wakes) = channel();
            for _ in 0..3 {
                let woken = woken.clone();
                thread::spawn(move || {
                    wait_while(&WORD, 0);
                    woken.send(WORD.load(Ordering::Relaxed)).expect("somebody listens");
                });
            }
            assert_eq!(
                wakes.recv_timeout(Duration::from_millis(100)),
                Err(RecvTimeoutError::Timeout),
                "nothing has changed yet"
            );
            // Who looks without a reason waits on.
            wake(&WORD);
            assert_eq!(wakes.recv_timeout(Duration::from_millis(100)), Err(RecvTimeoutError::Timeout), "nor now");
            WORD.store(1, Ordering::Release);
            wake(&WORD);
            for _ in 0..3 {
                assert_eq!(wakes.recv_timeout(Duration::from_secs(60)), Ok(1), "all three are woken, after the change");
            }
        }
    }
}
