//! How often the whole allocator refuses near the most that its regions need together.

use crate::*;

/// 2000 pieces of 64 bytes to 4 MiB, of which one is replaced at each turn: the most bytes reserved over the most that
/// lived, in thousandths, after each of so many turns.
fn reserved_over_live<const N: usize>(seed: u64, lifetimes: [Lifetime; 4], turns: [usize; N]) -> [u64; N] {
    let mock = MockDevice::new(Nvidia);
    let gpu = over(&mock, FromGlobalAlloc::SYSTEM);
    let mut rng = Rng::new(seed);
    let mut live: Vec<Option<Region>> = (0..2000).map(|_| None).collect();
    let (mut bytes, mut peak, mut turn) = (0, 0, 0);
    let ratios = turns.map(|end| {
        while turn < end {
            let at = if turn < live.len() { turn } else { rng.below(2000) as usize };
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
        let [ratio] = reserved_over_live(seed, [Unknown; 4], [16_000]);
        assert!(ratio < 1170, "seed {seed}: {ratio}");
    }
}

/// Also after a hundred million turns with `STEWARD_LONG` (for release builds).
#[test]
fn di13_what_is_reserved_does_not_creep() {
    let late = if std::env::var_os("STEWARD_LONG").is_some() { 100_000_000 } else { 200_000 };
    let (brief, any, lasting) = (Transient, Unknown, Persistent);
    let [early, late] = reserved_over_live(5, [brief, any, any, lasting], [20_000, late]);
    assert!(late <= early + 10, "{early}, then {late}");
}
