//! Counters with a row for each thread, so that counting is one plain addition.
//!
//! ```text
//! rows  | thread 0 | thread 1 | .. | thread 62 |   others  | all further threads: atomic additions |
//! ```
//! A row stays when its thread ends, so no count is lost. Each row has one writer, so plain loads and stores are enough.

#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Threads with a row of their own.
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
struct TallyRow([AtomicU64; COUNTS]);

impl TallyRow {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; COUNTS])
    }

    #[inline(always)]
    fn of(&self, count: Count) -> &AtomicU64 {
        let [first, ..] = &self.0;
        self.0.get(count as usize).unwrap_or(first)
    }
}

/// The counts of one guard.
pub(crate) struct Tally {
    rows: [TallyRow; OWN_ROWS],
    others: TallyRow,
}

impl Tally {
    pub(crate) const fn new() -> Self {
        Self {
            rows: [const { TallyRow::new() }; OWN_ROWS],
            others: TallyRow::new(),
        }
    }

    /// Adds 1 to `block` and `bytes` to `sum`.
    #[inline]
    pub(crate) fn add(&self, block: Count, sum: Count, bytes: usize) {
        match self.rows.get(known()) {
            Some(row) => {
                let [blocks, sum] = [block, sum].map(|count| row.of(count));
                blocks.store(blocks.load(Relaxed).wrapping_add(1), Relaxed);
                sum.store(sum.load(Relaxed).wrapping_add(bytes as u64), Relaxed);
            }
            None => self.add_anew(block, sum, bytes),
        }
    }

    /// For a thread that has no row, or not yet.
    #[cold]
    fn add_anew(&self, block: Count, sum: Count, bytes: usize) {
        if row_index() < OWN_ROWS {
            return self.add(block, sum, bytes);
        }
        self.others.of(block).fetch_add(1, Relaxed);
        self.others.of(sum).fetch_add(bytes as u64, Relaxed);
    }

    /// The sum over all threads: exact while none of them counts.
    pub(crate) fn sum(&self, count: Count) -> u64 {
        let rows = self.rows.iter().chain([&self.others]);
        rows.fold(0, |sum, row| sum.wrapping_add(row.of(count).load(Relaxed)))
    }
}

#[cfg(feature = "std")]
mod local {
    use core::cell::Cell;
    use std::thread_local;

    thread_local! {
        // Const-made and without Drop. Beyond all rows: none, or none yet.
        pub(super) static ROW_INDEX: Cell<usize> = const { Cell::new(usize::MAX) };
    }
}

/// The row of this thread, where it is known.
#[cfg(feature = "std")]
#[inline(always)]
fn known() -> usize {
    local::ROW_INDEX.get()
}

/// The row of this thread; `OWN_ROWS` where it shares one.
#[cfg(feature = "std")]
fn row_index() -> usize {
    use core::sync::atomic::AtomicUsize;

    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if known() == usize::MAX {
        local::ROW_INDEX.set(NEXT.fetch_add(1, Relaxed).min(OWN_ROWS));
    }
    known()
}

/// Without thread-locals all share one row.
#[cfg(not(feature = "std"))]
const fn known() -> usize {
    OWN_ROWS
}

#[cfg(not(feature = "std"))]
const fn row_index() -> usize {
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
                    threads.spawn(|| {
                        (0..100).for_each(|_| tally.add(Count::OffTaken, Count::OffTakenBytes, 3))
                    });
                }
            });
        }
        assert_eq!(
            (tally.sum(Count::OffTaken), tally.sum(Count::OffTakenBytes)),
            (12_000, 36_000)
        );
        assert_eq!(tally.sum(Count::OffGiven), 0);
    }
}
