//! Which requests are sampled: the first of every call site, then fewer and fewer of it.
//!
//! ```text
//!  request of a site   1 .. 8      9 .. 16    17 .. 32    33 .. 64   ..   from 8 * one_in on
//!  chance              1           1/2        1/4         1/8             1/one_in
//! ```

#![forbid(unsafe_code)]

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::fold::fold;

/// A site that finds no place in its set shares another's count.
const SETS: usize = 256;
const WAYS: usize = 8;

#[derive(Debug)]
pub(crate) struct Sampler {
    /// Of 2^32 draws so many choose.
    floor: u32,
    first: u32,
    seed: u64,
    /// Tag 32 | requests so far 32; 0: unused. Threads that ask for one site at once may count one request.
    sites: [[AtomicU64; WAYS]; SETS],
}

impl Sampler {
    /// All requests are chosen where `one_in` is 0 or 1.
    pub(crate) fn new(one_in: u32, first: u32, seed: u64) -> Self {
        Self {
            floor: u32::MAX.checked_div(one_in).unwrap_or(u32::MAX),
            first,
            seed,
            sites: [const { [const { AtomicU64::new(0) }; WAYS] }; SETS],
        }
    }

    pub(crate) fn chooses(&self, call_site: usize) -> bool {
        let hash = mix(call_site as u64 ^ self.seed, 0x9E37_79B9_7F4A_7C15);
        let tag = (hash >> 32) as u32 | 1;
        let Some(set) = self.sites.get(hash as usize % SETS) else {
            return false;
        };
        // Without a place of its own a newcomer shares one: too few samples rather than too many.
        let own = set.iter().position(|place| {
            let site = place.load(Relaxed);
            site == 0 || (site >> 32) as u32 == tag
        });
        let Some(place) = set.get(own.unwrap_or((tag >> 1) as usize % WAYS)) else {
            return false;
        };
        let site = place.load(Relaxed);
        let count = site as u32;
        let tag = if site == 0 { u64::from(tag) } else { site >> 32 };
        place.store(tag << 32 | u64::from(count.saturating_add(1)), Relaxed);
        // Twice, so that neighbours are not alike.
        let random = mix(mix(hash ^ u64::from(count), 0xD1B5_4A32_D192_ED03), 0x9E37_79B9_7F4A_7C15);
        count < self.first || (random >> 32) as u32 <= self.chance(count)
    }

    fn chance(&self, before: u32) -> u32 {
        let doublings = before.checked_div(self.first).unwrap_or(before).max(1).ilog2();
        u32::MAX.checked_shr(doublings + 1).unwrap_or(0).max(self.floor)
    }
}

const fn mix(a: u64, b: u64) -> u64 {
    fold(a ^ b.rotate_left(32), b)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `requests` requests of one site are to be expected, and the variance.
    fn expected(requests: u32, first: u32, one_in: u32) -> (f64, f64) {
        (0..requests).fold((0.0, 0.0), |(mean, variance), before| {
            let chance = if before < first {
                1.0
            } else {
                0.5_f64.powi((before / first).ilog2() as i32 + 1).max(1.0 / f64::from(one_in))
            };
            (mean + chance, variance + chance * (1.0 - chance))
        })
    }

    #[test]
    fn the_first_of_every_site_are_chosen() {
        let sampler = Sampler::new(1000, 8, 7);
        for site in (0..500).map(|n| 0x5555_0000_1234 + n * 40) {
            assert!((0..8).all(|_| sampler.chooses(site)), "site {site:#x}");
        }
    }

    #[test]
    fn all_requests_are_chosen_where_one_in_one_is_asked_for() {
        let sampler = Sampler::new(1, 8, 7);
        assert!((0..if cfg!(miri) { 100 } else { 10_000 }).all(|n| sampler.chooses(n % 3)));
    }

    /// By chance alone the sum of all runs misses five standard deviations less than once in a million times; a floor
    /// of twice as much would miss by hundreds.
    #[test]
    fn a_busy_site_is_chosen_as_often_as_the_drawing_says() {
        const RUNS: u32 = if cfg!(miri) { 1 } else { 1000 };
        let busiest = if cfg!(miri) { 2_000 } else { 20_000 };
        for (requests, first, one_in) in [(busiest, 8, 1000), (3_000, 8, 100), (64, 8, 1000)] {
            let (mean, variance) = expected(requests, first, one_in);
            let (mean, deviation) = (mean * f64::from(RUNS), (variance * f64::from(RUNS)).sqrt());
            let mut chosen = 0_u32;
            for run in 0..RUNS {
                let sampler = Sampler::new(one_in, first, u64::from(run) * 0x1234_5677 + 1);
                chosen += (0..requests).filter(|_| sampler.chooses(0x7f00_1234_5678)).count() as u32;
            }
            let off = (f64::from(chosen) - mean).abs() / deviation;
            std::println!(
                "{requests} requests, one in {one_in}: {chosen} chosen, {mean:.0} +- {deviation:.0} expected, off by {off:.1}"
            );
            assert!(off < 5.0, "{chosen} of {mean:.0} +- {deviation:.0}");
        }
    }

    #[test]
    fn more_sites_than_places_are_sampled_no_more_often() {
        let sampler = Sampler::new(1000, 8, 3);
        let (sites, rounds) = if cfg!(miri) { (SETS * WAYS + 100, 2) } else { (8 * SETS * WAYS, 100) };
        let chosen = (0..rounds).map(|_| (0..sites).filter(|site| sampler.chooses(site * 16)).count()).sum::<usize>();
        let bound = SETS * WAYS * (8 + 4 * 7) + rounds * sites / 500;
        assert!(chosen < bound, "{chosen} of {}", rounds * sites);
    }
}
