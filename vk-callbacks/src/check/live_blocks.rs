//! `testkit/models` runs this in every order of its steps.

#![forbid(unsafe_code)]

use crate::sync::{AtomicU64, Ordering};

/// Each block is counted before it is recorded, and discounted after it left the record. A thread has one of eight
/// lines, and shares it with none of the seven that began next.
///
/// Both sums of a line only grow. [`LiveBlocks::any`] reads all discounts first: a block that moves is counted before
/// it is discounted, so whoever sees the discount sees that count, in whichever line.
pub(crate) struct LiveBlocks {
    last: Line,
    others: [Line; 7],
}

/// Two lines of a cache: processors fetch them in pairs.
#[repr(align(128))]
struct Line {
    counted: AtomicU64,
    discounted: AtomicU64,
}

impl Line {
    const fn new() -> Self {
        Self { counted: AtomicU64::new(0), discounted: AtomicU64::new(0) }
    }
}

impl LiveBlocks {
    pub(crate) const fn new() -> Self {
        Self { last: Line::new(), others: [const { Line::new() }; 7] }
    }

    #[inline]
    fn of(&self, thread: u64) -> &Line {
        self.others.get((thread % 8) as usize).unwrap_or(&self.last)
    }

    #[inline]
    pub(crate) fn count(&self, thread: u64) {
        let counted = &self.of(thread).counted;
        counted.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn discount(&self, thread: u64) {
        let discounted = &self.of(thread).discounted;
        discounted.fetch_add(1, Ordering::Release);
    }

    #[inline]
    pub(crate) fn move_block(&self, thread: u64, record: impl FnOnce()) {
        self.count(thread);
        record();
        self.discount(thread);
    }

    /// Several owners may have counted and discounted the blocks of one another; then one of them answers.
    pub(crate) fn any(&self) -> bool {
        let lines = || self.others.iter().chain([&self.last]);
        let sum = |sum: u64, of_line: u64| sum.wrapping_add(of_line);
        let discounted = lines().map(|line| line.discounted.load(Ordering::Acquire));
        let discounted = discounted.fold(0, sum);
        let counted = lines().map(|line| line.counted.load(Ordering::Relaxed));
        counted.fold(0, sum) != discounted
    }
}
