//! How often the whole allocator refuses near the most that its regions need together.

use std::alloc::System;

use crate::{over, over_with};
use alloc_core::FromGlobalAlloc;
use gpu_suballoc::pool::MemoryOptions;
use gpu_suballoc::{
    AllocatorOptions, GpuError, Lifetime, Region, RegionOptions, ResourceRequirements,
};
use mock_device::{MockDevice, MockProfile};
use testkit::Rng;

const LIVE: usize = 10_000;

/// Log-uniform sizes from 256 bytes to 4 MiB: which of the live regions each one replaces.
fn turns(seed: u64) -> impl Iterator<Item = (usize, u64)> {
    let mut rng = Rng::new(seed);
    (0..210_000).map(move |turn| {
        let at = if turn < LIVE {
            turn
        } else {
            rng.below(LIVE as u64) as usize
        };
        let unit = (rng.next() >> 11) as f64 / (1_u64 << 53) as f64;
        (at, (256.0 * 16_384_f64.powf(unit)) as u64)
    })
}

/// The most bytes that live at once.
fn peak(seed: u64) -> u64 {
    let (mut sizes, mut now, mut most) = (vec![0; LIVE], 0, 0);
    for (at, size) in turns(seed) {
        now = now + size - std::mem::replace(&mut sizes[at], size);
        most = most.max(now);
    }
    most
}

/// How many of the regions are refused where the allocator may have so many bytes.
fn refused(seed: u64, bytes: u64) -> u32 {
    let mock = MockDevice::new(MockProfile::Nvidia, FromGlobalAlloc::<System>::SYSTEM);
    let options = AllocatorOptions {
        memory: MemoryOptions {
            max_bytes: bytes,
            ..MemoryOptions::default()
        },
        ..AllocatorOptions::default()
    };
    let allocator = over_with(&mock, FromGlobalAlloc::SYSTEM, options);
    let mut live: Vec<Option<Region>> = (0..LIVE).map(|_| None).collect();
    let mut refused = 0;
    for (at, size) in turns(seed) {
        if let Some(region) = live[at].take() {
            allocator.free(region).unwrap();
        }
        let needs = ResourceRequirements::new(size, 256);
        match allocator.allocate(&needs, &RegionOptions::new()) {
            Ok(region) => live[at] = Some(region),
            Err(GpuError::Limit(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    for region in live.into_iter().flatten() {
        allocator.free(region).unwrap();
    }
    allocator
        .close()
        .map_err(|rejected| rejected.error)
        .unwrap();
    refused
}

#[test]
fn near_the_peak_of_a_churn_hardly_anything_is_refused() {
    let seeds = [1];
    let at = |percent| {
        let all: u32 = seeds
            .map(|seed| refused(seed, peak(seed) / 100 * percent))
            .iter()
            .sum();
        f64::from(all) / seeds.len() as f64
    };
    let [full, at_102, at_105] = [at(100), at(102), at(105)];
    println!(
        "refused of 210000 at 100, 102 and 105 % of the peak, mean of {seeds:?}: {full}, {at_102}, {at_105}"
    );
    assert!(full <= 600.0 && at_102 <= 250.0 && at_105 <= 25.0);
    // That something is refused when there is too little would be seen.
    assert!(at(90) > 1000.0);
}

/// 2000 pieces of 64 bytes to 4 MiB, of which one is replaced at each turn: the most bytes reserved over the most that lived, in thousandths,
/// after each of so many turns.
fn reserved_over_live<const N: usize>(
    seed: u64,
    lifetimes: [Lifetime; 4],
    turns: [usize; N],
) -> [u64; N] {
    let mock = MockDevice::new(MockProfile::Nvidia, FromGlobalAlloc::<System>::SYSTEM);
    let gpu = over(&mock, FromGlobalAlloc::SYSTEM);
    let mut rng = Rng::new(seed);
    let mut live: Vec<Option<Region>> = (0..2000).map(|_| None).collect();
    let (mut bytes, mut peak, mut turn) = (0, 0, 0);
    let ratios = turns.map(|end| {
        while turn < end {
            let at = if turn < live.len() {
                turn
            } else {
                rng.below(2000) as usize
            };
            if let Some(region) = live[at].take() {
                bytes -= region.size();
                gpu.free(region).unwrap();
            }
            let unit = (rng.next() >> 11) as f64 / (1_u64 << 53) as f64;
            let needs = ResourceRequirements::new((64.0 * 65_536_f64.powf(unit)) as u64, 256);
            let options = RegionOptions::new().lifetime(lifetimes[at % 4]);
            let region = gpu.allocate(&needs, &options).unwrap();
            bytes += region.size();
            peak = peak.max(bytes);
            live[at] = Some(region);
            turn += 1;
        }
        gpu.stats().peak_block_bytes * 1000 / peak
    });
    for region in live.into_iter().flatten() {
        gpu.free(region).unwrap();
    }
    println!("seed {seed}: {ratios:?} thousandths of {} MiB", peak >> 20);
    ratios
}

/// DI13: most pieces are replaced eight times. With blocks of an eighth of what is reserved the peak was up to
/// 121 % of what lived at its peak; the floor, with blocks of 8 MiB for ever, is 109 to 115 %.
#[test]
fn di13_a_churn_of_mixed_sizes_reserves_little_more_than_its_peak() {
    for seed in 1..=4 {
        let [ratio] = reserved_over_live(seed, [Lifetime::Unknown; 4], [16_000]);
        assert!(ratio < 1170, "seed {seed}: {ratio}");
    }
}

/// Also after a hundred million turns with `STEWARD_LONG` (for release builds).
#[test]
fn di13_what_is_reserved_does_not_creep() {
    let late = if std::env::var_os("STEWARD_LONG").is_some() {
        100_000_000
    } else {
        200_000
    };
    let (brief, any, lasting) = (Lifetime::Transient, Lifetime::Unknown, Lifetime::Persistent);
    let [early, late] = reserved_over_live(5, [brief, any, any, lasting], [20_000, late]);
    assert!(late <= early + 10, "{early}, then {late}");
}
