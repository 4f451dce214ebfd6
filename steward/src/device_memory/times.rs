//! Times of single calls.

#![forbid(unsafe_code)]

use std::time::Instant;

use super::report::TimeRow;

/// Nanoseconds of calls; a call longer than 4 seconds counts as 4.
pub(super) struct CallTimes(Vec<u32>);

impl CallTimes {
    /// Reserves room, so that recording does not allocate.
    pub(super) fn with_room(calls: usize) -> Self {
        Self(Vec::with_capacity(calls))
    }

    pub(super) fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let done = call();
        let nanos = begin.elapsed().as_nanos();
        self.0.push(u32::try_from(nanos).unwrap_or(u32::MAX));
        done
    }

    pub(super) fn sum(&self) -> u64 {
        self.0.iter().copied().map(u64::from).sum()
    }

    pub(super) fn row(mut self) -> TimeRow {
        self.0.sort_unstable();
        let at = |hundredth: usize| {
            let place = self.0.len().saturating_sub(1) * hundredth / 100;
            self.0.get(place).copied().unwrap_or(0).into()
        };
        TimeRow {
            median_ns: at(50),
            p99_ns: at(99),
            longest_ns: at(100),
        }
    }
}

/// The median of [`CallTimes::time`] for an empty call, in nanoseconds.
pub(super) fn clock_ns() -> u64 {
    const CALLS: usize = 1000;
    let mut times = CallTimes::with_room(CALLS);
    for _ in 0..CALLS {
        times.time(|| std::hint::black_box(()));
    }
    times.row().median_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_of_the_calls_in_order_of_time() {
        let row = CallTimes((0..=100).rev().collect()).row();
        assert_eq!((row.median_ns, row.p99_ns, row.longest_ns), (50, 99, 100));
        assert_eq!(CallTimes(Vec::new()).row(), TimeRow::default());
        assert_eq!(CallTimes(vec![7]).row().p99_ns, 7);
    }
}
