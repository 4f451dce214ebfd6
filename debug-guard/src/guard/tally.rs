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

/// What is counted: events, each with an amount.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Count {
    /// Blocks allocated and freed in pages, with cookies, and without either; the amount is their bytes.
    FencedAllocated,
    FencedFreed,
    CookieAllocated,
    CookieFreed,
    OffAllocated,
    OffFreed,
    /// Stacks walked; the amount is how many of them reached their end.
    Stacks,
}

const COUNTS: usize = 7;

/// The events and their summed amount.
#[derive(Default)]
struct CountPair {
    events: AtomicU64,
    amount: AtomicU64,
}

#[derive(Default)]
#[repr(align(128))]
struct TallyRow([CountPair; COUNTS]);

impl TallyRow {
    #[inline(always)]
    fn of(&self, count: Count) -> &CountPair {
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
    pub(crate) fn new() -> Self {
        Self {
            rows: core::array::from_fn(|_| TallyRow::default()),
            others: TallyRow::default(),
        }
    }

    /// Counts one event with its amount.
    #[inline]
    pub(crate) fn add(&self, count: Count, amount: usize) {
        match self.rows.get(known()) {
            Some(row) => {
                let CountPair {
                    events,
                    amount: sum,
                } = row.of(count);
                events.store(events.load(Relaxed).wrapping_add(1), Relaxed);
                sum.store(sum.load(Relaxed).wrapping_add(amount as u64), Relaxed);
            }
            None => self.add_anew(count, amount),
        }
    }

    /// For a thread without a row, or without one yet.
    #[cold]
    fn add_anew(&self, count: Count, amount: usize) {
        if row_index() < OWN_ROWS {
            return self.add(count, amount);
        }
        let pair = self.others.of(count);
        pair.events.fetch_add(1, Relaxed);
        pair.amount.fetch_add(amount as u64, Relaxed);
    }

    /// The events and their amount, summed over all threads: exact while no thread counts.
    pub(crate) fn sum(&self, count: Count) -> (u64, u64) {
        let rows = self.rows.iter().chain([&self.others]);
        rows.map(|row| row.of(count))
            .fold((0, 0), |(events, amount), pair| {
                (
                    events.wrapping_add(pair.events.load(Relaxed)),
                    amount.wrapping_add(pair.amount.load(Relaxed)),
                )
            })
    }
}

#[cfg(feature = "std")]
mod local {
    use core::cell::Cell;
    use std::thread_local;

    thread_local! {
        // Const and without Drop. Beyond all rows: none, or none yet.
        pub(super) static ROW_INDEX: Cell<usize> = const { Cell::new(usize::MAX) };
    }
}

/// The row of this thread, if it has one yet.
#[cfg(feature = "std")]
#[inline(always)]
fn known() -> usize {
    local::ROW_INDEX.get()
}

/// The row of this thread; `OWN_ROWS` if it shares one.
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
                    threads.spawn(|| (0..100).for_each(|_| tally.add(Count::OffAllocated, 3)));
                }
            });
        }
        assert_eq!(tally.sum(Count::OffAllocated), (12_000, 36_000));
        assert_eq!(tally.sum(Count::OffFreed), (0, 0));
    }
}
