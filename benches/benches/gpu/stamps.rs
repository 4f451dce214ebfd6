//! The processor's clock, read in order: what one operation took, less what a reading takes.

use std::hint::black_box;
use std::time::Instant;

/// A reading that neither starts before what comes earlier has ended nor lets what comes later begin.
#[inline]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_lfence, _rdtsc};
        // SAFETY: every x86-64 has these instructions.
        unsafe { _mm_lfence() };
        // SAFETY: every x86-64 has these instructions.
        let now = unsafe { _rdtsc() };
        // SAFETY: every x86-64 has these instructions.
        unsafe { _mm_lfence() };
        now
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// What a reading costs, and how long a tick is.
#[derive(Clone, Copy)]
pub struct Scale {
    cost: u64,
    ns: f64,
}

impl Scale {
    pub fn measure() -> Self {
        let mut costs: Vec<u64> = (0..10_000)
            .map(|_| {
                let before = now();
                black_box(());
                now() - before
            })
            .collect();
        costs.sort_unstable();
        let (begin, before) = (Instant::now(), now());
        while begin.elapsed().as_millis() < 20 {}
        let ns = begin.elapsed().as_nanos() as f64 / (now() - before) as f64;
        Self { cost: costs[costs.len() / 2], ns }
    }

    /// The median and the 99th of a hundred, in ns; sorts.
    pub fn p50_p99(&self, ticks: &mut [u32]) -> (f64, f64) {
        ticks.sort_unstable();
        let at = |part: usize| {
            let tick = ticks.get(ticks.len() * part / 100).copied().unwrap_or(0);
            u64::from(tick).saturating_sub(self.cost) as f64 * self.ns
        };
        (at(50), at(99))
    }
}
