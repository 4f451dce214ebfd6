//! Each thread draws 64 numbers at a time, so numbers of two threads are only roughly in order.

#![forbid(unsafe_code)]

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::thread_local;

static NEXT: AtomicU64 = AtomicU64::new(1);
/// Incremented by [`boundary`]: threads discard the numbers drawn before.
static EPOCH: AtomicU64 = AtomicU64::new(0);

const BATCH: u64 = 64;

struct ThreadSerials {
    next: Cell<u64>,
    end: Cell<u64>,
    epoch: Cell<u64>,
}

thread_local! {
    // Const and without Drop: valid while other thread-locals are destroyed.
    static OWN: ThreadSerials = const { ThreadSerials { next: Cell::new(0), end: Cell::new(0), epoch: Cell::new(0) } };
}

/// A unique number, above all of this thread's, and above every [`boundary`] drawn before.
#[inline]
pub(crate) fn next() -> u64 {
    OWN.with(|own| {
        let number = own.next.get();
        if number == own.end.get() || own.epoch.get() != EPOCH.load(Relaxed) {
            return anew(own);
        }
        own.next.set(number.wrapping_add(1));
        number
    })
}

#[cold]
#[inline(never)]
fn anew(own: &ThreadSerials) -> u64 {
    // First: numbers drawn before a boundary must not be used after it.
    own.epoch.set(EPOCH.load(Relaxed));
    let number = NEXT.fetch_add(BATCH, Relaxed);
    own.next.set(number.wrapping_add(1));
    own.end.set(number.wrapping_add(BATCH));
    number
}

/// A number above all that were drawn and not above any later one, if no other thread draws at this moment.
pub(crate) fn boundary() -> u64 {
    EPOCH.fetch_add(1, SeqCst);
    NEXT.load(SeqCst)
}

/// The difference to an earlier number is its age in allocations. Async-signal-safe.
#[inline]
pub(crate) fn reached() -> u64 {
    OWN.with(|own| {
        let next = own.next.get();
        if next == own.end.get() { NEXT.load(Relaxed) } else { next }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_boundaries_divide_them() {
        let first: std::vec::Vec<u64> = (0..200).map(|_| next()).collect();
        let other =
            std::thread::spawn(|| (0..200).map(|_| next()).collect::<std::vec::Vec<_>>()).join().expect("no panic");
        let line = boundary();
        let later: std::vec::Vec<u64> = (0..200).map(|_| next()).collect();
        assert!(first.is_sorted() && other.is_sorted() && later.is_sorted());
        let mut all: std::vec::Vec<u64> = first.iter().chain(&other).chain(&later).copied().collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 600);
        assert!(first.iter().chain(&other).all(|n| *n < line) && later.iter().all(|n| *n >= line));
    }
}
