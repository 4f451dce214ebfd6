//! One thread adds without a locked instruction, since mostly one thread counts at each command. The sum is exact
//! when no thread adds.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub(crate) struct Count {
    /// The first thread that added owns `own`. Numbers of threads are never reused.
    thread: AtomicU64,
    own: AtomicU64,
    others: AtomicU64,
}

pub(crate) fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

impl Count {
    pub(crate) const fn new() -> Self {
        Self { thread: AtomicU64::new(0), own: AtomicU64::new(0), others: AtomicU64::new(0) }
    }

    /// `thread` is not 0. Returns the sum of that thread if it was the first, else of all others.
    pub(crate) fn add(&self, more: u64, thread: u64) -> u64 {
        let first = self.thread.load(Ordering::Relaxed);
        if first == thread || (first == 0 && self.claim(thread)) {
            let sum = self.own.load(Ordering::Relaxed).wrapping_add(more);
            self.own.store(sum, Ordering::Relaxed);
            return sum;
        }
        let before = self.others.fetch_add(more, Ordering::Relaxed);
        before.wrapping_add(more)
    }

    pub(crate) fn get(&self) -> u64 {
        let own = self.own.load(Ordering::Relaxed);
        own.wrapping_add(self.others.load(Ordering::Relaxed))
    }

    pub(crate) fn reset(&self) {
        for word in [&self.own, &self.others, &self.thread] {
            word.store(0, Ordering::Relaxed);
        }
    }

    #[cold]
    fn claim(&self, thread: u64) -> bool {
        self.thread.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::Count;

    #[test]
    fn nothing_is_lost_between_threads() {
        const EACH: u64 = 10_000;
        let count = Count::new();
        thread::scope(|scope| {
            for number in 1..=3 {
                let count = &count;
                scope.spawn(move || {
                    let before = (0..EACH).map(|_| count.add(2, number));
                    assert!(before.is_sorted_by(|a, b| a < b), "each answer is larger");
                });
            }
        });
        assert_eq!(count.get(), 3 * 2 * EACH);
        count.reset();
        assert_eq!(count.get(), 0);
        assert_eq!((count.add(1, 7), count.add(1, 8), count.add(1, 7)), (1, 1, 2));
        assert_eq!(count.get(), 3);
    }
}
