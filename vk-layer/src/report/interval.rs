//! Reports while the program runs: by the first hooked command after an interval of seconds.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::write;
use crate::once::ValueAcrossForks;
use crate::settings::settings;

#[inline]
pub(crate) fn write_if_due() {
    let interval = settings().interval;
    if interval != 0 {
        write_at_intervals(interval);
    }
}

#[inline(never)]
fn write_at_intervals(interval: u64) {
    static SCHEDULE: Schedule = Schedule::new();
    if SCHEDULE.is_due(milliseconds(), interval.saturating_mul(1000)) {
        write();
    }
}

pub(super) fn milliseconds() -> u64 {
    static START: ValueAcrossForks<Instant> = ValueAcrossForks::new();
    let passed = START.get_or_make(Instant::now).elapsed().as_millis();
    u64::try_from(passed).unwrap_or(u64::MAX)
}

pub(super) struct Schedule(AtomicU64);

impl Schedule {
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(super) fn is_due(&self, now: u64, interval: u64) -> bool {
        let last = self.0.load(Ordering::Relaxed);
        now.saturating_sub(last) >= interval
            && self.0.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    #[test]
    fn ly33_a_report_is_due_once_an_interval() {
        let schedule = Schedule::new();
        let due: Vec<_> = [0, 1, 4, 5, 5, 9, 10, 40, 44].into_iter().filter(|now| schedule.is_due(*now, 5)).collect();
        assert_eq!(due, [5, 10, 40]);
        assert!(!schedule.is_due(3, 5), "a clock that is behind");
        let looks = Schedule::new();
        let looked = [0, 3, 9, 10, 11].map(|now| looks.is_due(now + 10, 10));
        assert_eq!(looked, [true, false, false, true, false], "the first at once");
    }
}
