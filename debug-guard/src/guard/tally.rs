//! Counts that cost their thread one plain addition.
//!
//! ```text
//! rows  | thread 0 | thread 1 | .. | thread 62 | all further threads: atomic additions |
//! ```
//! A thread keeps its row for ever, so what threads that ended counted stays; a row has one writer, so loads and stores do.

#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Threads with a row of their own. The one row more is everybody else's.
const OWN_ROWS: usize = 63;

/// What is counted.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Count {
    FencedTaken,
    FencedGiven,
    FencedTakenBytes,
    FencedGivenBytes,
    CookieTaken,
    CookieGiven,
    CookieTakenBytes,
    CookieGivenBytes,
    OffTaken,
    OffGiven,
    OffTakenBytes,
    OffGivenBytes,
    /// Stacks that were walked, and those that came to their end.
    Stacks,
    WholeStacks,
}

/// How many there are.
const COUNTS: usize = 14;

#[repr(align(128))]
struct Row([AtomicU64; COUNTS]);

/// The counts of one guard.
pub(crate) struct Tally {
    rows: [Row; OWN_ROWS + 1],
}

impl Tally {
    pub(crate) const fn new() -> Self {
        Self { rows: [const { Row([const { AtomicU64::new(0) }; COUNTS]) }; OWN_ROWS + 1] }
    }

    /// Adds 1 to `block` and `bytes` to `sum`.
    #[inline]
    pub(crate) fn add(&self, block: Count, sum: Count, bytes: usize) {
        let place = place();
        let Some(row) = self.rows.get(place) else { return };
        let (Some(blocks), Some(sum)) = (row.0.get(block as usize), row.0.get(sum as usize)) else { return };
        if place < OWN_ROWS {
            blocks.store(blocks.load(Relaxed).wrapping_add(1), Relaxed);
            sum.store(sum.load(Relaxed).wrapping_add(bytes as u64), Relaxed);
        } else {
            blocks.fetch_add(1, Relaxed);
            sum.fetch_add(bytes as u64, Relaxed);
        }
    }

    /// The sum over all threads: exact while none of them counts.
    pub(crate) fn sum(&self, count: Count) -> u64 {
        self.rows.iter().filter_map(|row| row.0.get(count as usize)).fold(0, |sum, cell| sum.wrapping_add(cell.load(Relaxed)))
    }
}

/// The row of this thread.
#[cfg(feature = "std")]
#[inline]
fn place() -> usize {
    use core::cell::Cell;
    use core::sync::atomic::AtomicUsize;
    use std::thread_local;

    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Const-made and without Drop. `usize::MAX`: no row yet.
        static PLACE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    PLACE.with(|cell| {
        if cell.get() == usize::MAX {
            cell.set(NEXT.fetch_add(1, Relaxed).min(OWN_ROWS));
        }
        cell.get()
    })
}

/// Without thread-locals all share one row.
#[cfg(not(feature = "std"))]
const fn place() -> usize {
    OWN_ROWS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_with_more_threads_than_rows() {
        let tally = Tally::new();
        for _ in 0..3 {
            std::thread::scope(|threads| {
                for _ in 0..40 {
                    threads.spawn(|| (0..100).for_each(|_| tally.add(Count::OffTaken, Count::OffTakenBytes, 3)));
                }
            });
        }
        assert_eq!((tally.sum(Count::OffTaken), tally.sum(Count::OffTakenBytes)), (12_000, 36_000));
        assert_eq!(tally.sum(Count::OffGiven), 0);
    }
}
