//! The counters of a call site, and their values at the peak of the process.
//!
//! ```text
//!   all live bytes     ..        peak, epoch 7            peak, epoch 8
//!                          /\/\/\/|\                     /|\
//!                        /          \      /\/\        /    \
//!   a site's       live: 10          4  ..               6
//!                                 ^ before it changed: 10 were live at peak 7
//! ```
//! A new peak only increments the epoch. A site whose own epoch is older has not changed since that peak, so it copies its live values
//! before its next change. So each operation costs the same for any number of sites.

use core::sync::atomic::{AtomicU64, Ordering};

/// A number that is changed under the profile's lock.
#[derive(Debug, Default)]
struct Number(AtomicU64);

impl Number {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn add(&self, more: u64) -> u64 {
        let sum = self.get().wrapping_add(more);
        self.set(sum);
        sum
    }

    fn sub(&self, less: u64) {
        self.set(self.get().wrapping_sub(less));
    }
}

/// The moment at which most bytes were live.
#[derive(Default)]
pub(crate) struct Peak {
    live: Number,
    most: Number,
    epoch: Number,
    /// The number of the allocation at the peak.
    when: Number,
}

impl Peak {
    /// The number of the allocation at which most was live.
    pub(crate) fn when(&self) -> u64 {
        self.when.get()
    }
}

/// The counters of one site. All zero: nothing was counted.
#[derive(Default)]
pub(crate) struct Counters {
    total_bytes: Number,
    total_blocks: Number,
    lifetimes: Number,
    /// The sum of the allocation times of the live blocks.
    births: Number,
    live_bytes: Number,
    live_blocks: Number,
    most_bytes: Number,
    most_blocks: Number,
    peak_bytes: Number,
    peak_blocks: Number,
    peak_epoch: Number,
}

/// The numbers of a site at one moment. Bytes and blocks; lifetimes in allocations of the guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) total_bytes: u64,
    pub(crate) total_blocks: u64,
    /// Summed over all blocks; live ones count up to now.
    pub(crate) lifetimes: u64,
    pub(crate) live_bytes: u64,
    pub(crate) live_blocks: u64,
    /// The maximum of this site.
    pub(crate) most_bytes: u64,
    pub(crate) most_blocks: u64,
    /// The values at the peak of the process.
    pub(crate) peak_bytes: u64,
    pub(crate) peak_blocks: u64,
}

impl Counters {
    pub(crate) fn allocated(&self, peak: &Peak, bytes: u64, now: u64) {
        self.note_peak(peak);
        self.total_bytes.add(bytes);
        self.total_blocks.add(1);
        self.births.add(now);
        let live = self.live_bytes.add(bytes);
        let blocks = self.live_blocks.add(1);
        if live > self.most_bytes.get() {
            self.most_bytes.set(live);
            self.most_blocks.set(blocks);
        }
        if peak.live.add(bytes) > peak.most.get() {
            peak.most.set(peak.live.get());
            peak.epoch.add(1);
            peak.when.set(now);
        }
    }

    pub(crate) fn freed(&self, peak: &Peak, bytes: u64, (born, now): (u64, u64)) {
        self.note_peak(peak);
        self.lifetimes.add(now.saturating_sub(born));
        self.births.sub(born);
        self.live_bytes.sub(bytes);
        self.live_blocks.sub(1);
        peak.live.sub(bytes);
    }

    /// Copies the live values if the last peak came after this site's last change.
    fn note_peak(&self, peak: &Peak) {
        if self.peak_epoch.get() != peak.epoch.get() {
            self.peak_epoch.set(peak.epoch.get());
            self.peak_bytes.set(self.live_bytes.get());
            self.peak_blocks.set(self.live_blocks.get());
        }
    }

    pub(crate) fn numbers(&self, peak: &Peak, now: u64) -> Numbers {
        self.note_peak(peak);
        let live = self
            .live_blocks
            .get()
            .wrapping_mul(now)
            .wrapping_sub(self.births.get());
        Numbers {
            total_bytes: self.total_bytes.get(),
            total_blocks: self.total_blocks.get(),
            lifetimes: self.lifetimes.get().wrapping_add(live),
            live_bytes: self.live_bytes.get(),
            live_blocks: self.live_blocks.get(),
            most_bytes: self.most_bytes.get(),
            most_blocks: self.most_blocks.get(),
            peak_bytes: self.peak_bytes.get(),
            peak_blocks: self.peak_blocks.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    /// A program of allocations and frees, counted here and by a model that keeps every moment.
    #[test]
    fn the_peak_is_what_a_full_record_says() {
        const SITES: usize = 5;
        for seed in 1..if cfg!(miri) { 3 } else { 200u64 } {
            let peak = Peak::default();
            let sites = <[Counters; SITES]>::default();
            let mut live: Vec<(usize, u64, u64)> = Vec::new();
            let (mut most, mut at_peak, mut when) = (0u64, [(0u64, 0u64); SITES], 0);
            let (mut own, mut lifetimes) = ([(0u64, 0u64); SITES], [0u64; SITES]);
            let mut random = seed;
            for now in 1..300u64 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let pick = (random >> 33) as usize;
                if live.is_empty() || pick % 7 < 4 {
                    let (site, bytes) = (pick % SITES, (pick / 64 % 50) as u64);
                    sites[site].allocated(&peak, bytes, now);
                    live.push((site, bytes, now));
                } else {
                    let (site, bytes, born) = live.swap_remove(pick % live.len());
                    lifetimes[site] += now - born;
                    sites[site].freed(&peak, bytes, (born, now));
                }
                let of = |site| {
                    let mine = live.iter().filter(|block| block.0 == site);
                    (
                        mine.clone().map(|block| block.1).sum::<u64>(),
                        mine.count() as u64,
                    )
                };
                let all: u64 = live.iter().map(|block| block.1).sum();
                if all > most {
                    (most, when) = (all, now);
                    at_peak = core::array::from_fn(of);
                }
                for (site, own) in own.iter_mut().enumerate() {
                    if of(site).0 > own.0 {
                        *own = of(site);
                    }
                }
                if pick.is_multiple_of(11) {
                    // Looking changes nothing.
                    let _ = sites[pick % SITES].numbers(&peak, now);
                }
            }
            assert!(most > 0);
            assert_eq!(peak.when(), when, "seed {seed}");
            for (site, counters) in sites.iter().enumerate() {
                let numbers = counters.numbers(&peak, 300);
                assert_eq!(
                    numbers.lifetimes,
                    lifetimes[site]
                        + live
                            .iter()
                            .filter(|block| block.0 == site)
                            .map(|block| 300 - block.2)
                            .sum::<u64>()
                );
                assert_eq!(
                    (numbers.peak_bytes, numbers.peak_blocks),
                    at_peak[site],
                    "seed {seed}, site {site}"
                );
                assert_eq!(
                    (numbers.most_bytes, numbers.most_blocks),
                    own[site],
                    "seed {seed}, site {site}"
                );
            }
        }
    }
}
