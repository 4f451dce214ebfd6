//! `testkit/models` runs this in every order of its steps.

#![forbid(unsafe_code)]

use crate::sync::{AtomicU64, Ordering};

#[derive(Default)]
pub(crate) struct PeakCount {
    live: AtomicU64,
    peak: AtomicU64,
    earlier_peak: AtomicU64,
}

impl PeakCount {
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    /// Blocks count from when they are there until just before they are freed.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.recent_peak_bytes().max(self.earlier_peak.load(Ordering::Relaxed))
    }

    pub(crate) fn recent_peak_bytes(&self) -> u64 {
        self.peak.load(Ordering::Acquire)
    }

    pub(crate) fn restart(&self) {
        let mut before = self.peak.load(Ordering::SeqCst);
        loop {
            // Before the exchange, so that a thread that reads both finds the value in one of them.
            self.earlier_peak.fetch_max(before, Ordering::SeqCst);
            let swapped = self.peak.compare_exchange(before, 0, Ordering::SeqCst, Ordering::SeqCst);
            match swapped {
                Ok(_) => break,
                Err(now) => before = now,
            }
        }
        // After the exchange, and in one order with it and with `add`: what came before is counted here, and what comes
        // later `add` itself counts.
        let live = self.live.load(Ordering::SeqCst);
        self.peak.fetch_max(live, Ordering::SeqCst);
    }

    #[inline]
    pub(crate) fn add(&self, bytes: usize) {
        let bytes = bytes as u64;
        let live = self.live.fetch_add(bytes, Ordering::SeqCst);
        let live = live.wrapping_add(bytes);
        if live > self.peak.load(Ordering::SeqCst) {
            self.peak.fetch_max(live, Ordering::SeqCst);
        }
    }

    #[inline]
    pub(crate) fn subtract(&self, bytes: usize) {
        self.live.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}
