//! Reports while the program runs: by the first hooked command after so many seconds.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::write;
use crate::once::ValueAcrossForks;
use crate::settings::settings;

/// Writes a report if the settings ask for one at intervals, and it is time.
#[inline]
pub(crate) fn write_if_due() {
    let interval = settings().interval;
    if interval != 0 {
        write_at_intervals(interval);
    }
}

#[inline(never)]
fn write_at_intervals(interval: u64) {
    static START: ValueAcrossForks<Instant> = ValueAcrossForks::new();
    static SCHEDULE: Schedule = Schedule(AtomicU64::new(0));
    let seconds = START.get_or_make(Instant::now).elapsed().as_secs();
    if SCHEDULE.is_due(seconds, interval) {
        write();
    }
}

/// The second of the last report.
struct Schedule(AtomicU64);

impl Schedule {
    /// Whether `interval` seconds have passed since the last time that this was so. True for one of several threads.
    fn is_due(&self, now: u64, interval: u64) -> bool {
        let last = self.0.load(Ordering::Relaxed);
        now.saturating_sub(last) >= interval
            && self
                .0
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{AtomicU64, Schedule};

    #[test]
    fn ly33_a_report_is_due_once_an_interval() {
        let schedule = Schedule(AtomicU64::new(0));
        let due: Vec<_> = [0, 1, 4, 5, 5, 9, 10, 40, 44]
            .into_iter()
            .filter(|now| schedule.is_due(*now, 5))
            .collect();
        assert_eq!(due, [5, 10, 40]);
        assert!(!schedule.is_due(3, 5), "a clock that is behind");
    }
}
