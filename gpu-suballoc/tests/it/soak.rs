//! Long use at constant live: what is reserved does not creep.

use std::alloc::System;

use crate::over;
use alloc_core::FromGlobalAlloc;
use gpu_suballoc::{GpuAllocator, Lifetime, Region, RegionOptions, ResourceRequirements};
use mock_device::{MockDevice, MockProfile};
use testkit::Rng;

type Mock = MockDevice<FromGlobalAlloc<System>>;

/// Regions that live, and sizes that wait for their turn: together always the same ones.
const LIVE: usize = 2000;
const WAITING: usize = 50;

struct Soak<'m> {
    allocator: GpuAllocator<&'m Mock, FromGlobalAlloc<System>>,
    live: Vec<(Region, u64, Lifetime)>,
    waiting: Vec<(u64, Lifetime)>,
    rng: Rng,
}

impl Soak<'_> {
    fn take(&self, size: u64, lifetime: Lifetime) -> Region {
        let needs = ResourceRequirements::new(size, 256);
        self.allocator
            .allocate(&needs, &RegionOptions::new().lifetime(lifetime))
            .expect("the device has much more")
    }

    /// One is given back, another size is taken.
    fn turn(&mut self) {
        let at = self.rng.below(LIVE as u64) as usize;
        let next = self.rng.below(WAITING as u64) as usize;
        let (region, size, lifetime) = self.live.swap_remove(at);
        self.allocator.free(region).unwrap();
        let (size, lifetime) = std::mem::replace(&mut self.waiting[next], (size, lifetime));
        self.live.push((self.take(size, lifetime), size, lifetime));
    }

    /// Reserved over live, in millionths. What waits makes live differ a little from one moment to the next: it is counted as it is.
    fn reserved_per_live(&self) -> u64 {
        let total = self.allocator.stats().total;
        assert_eq!(total.regions, LIVE as u64);
        // Against what the sizes sum up to at all times, not the moment's live.
        let all: u64 = self
            .live
            .iter()
            .map(|one| one.1)
            .chain(self.waiting.iter().map(|one| one.0))
            .sum();
        total.block_bytes * 1_000_000 / all
    }
}

fn size(rng: &mut Rng) -> u64 {
    // Log-uniform from 256 bytes to 1 MiB.
    let power = 8 + rng.below(12);
    (1 << power) + rng.below(1 << power)
}

/// After a million turns and after a hundred million with `STEWARD_LONG` (for release builds); otherwise 500 times fewer.
#[test]
fn reserved_over_live_stays_as_it_is() {
    let (early, late) = if std::env::var_os("STEWARD_LONG").is_some() {
        (1_000_000, 100_000_000)
    } else {
        (20_000, 200_000)
    };
    let mock = MockDevice::new(MockProfile::Nvidia, FromGlobalAlloc::SYSTEM);
    let allocator = over(&mock, FromGlobalAlloc::SYSTEM);
    let mut soak = Soak {
        allocator,
        live: Vec::new(),
        waiting: Vec::new(),
        rng: Rng::new(1),
    };
    let lifetimes = [
        Lifetime::Transient,
        Lifetime::Unknown,
        Lifetime::Unknown,
        Lifetime::Persistent,
    ];
    for number in 0..LIVE + WAITING {
        let one = (size(&mut soak.rng), lifetimes[number % lifetimes.len()]);
        if number < LIVE {
            let region = soak.take(one.0, one.1);
            soak.live.push((region, one.0, one.1));
        } else {
            soak.waiting.push(one);
        }
    }
    (0..early).for_each(|_| soak.turn());
    let first = soak.reserved_per_live();
    (early..late).for_each(|_| soak.turn());
    let last = soak.reserved_per_live();
    println!("reserved over live, in millionths: {first} after {early} turns, {last} after {late}");
    assert!(first >= 1_000_000, "live is within what is reserved");
    assert!(
        last <= first + first / 100,
        "{first} after {early} turns, {last} after {late}"
    );
    let live = std::mem::take(&mut soak.live);
    live.into_iter()
        .for_each(|(region, ..)| soak.allocator.free(region).unwrap());
    soak.allocator
        .close()
        .map_err(|refused| refused.error)
        .unwrap();
    assert!(
        mock.violations().is_empty() && mock.live_counts().memory == 0,
        "{}",
        mock.violations()
    );
}
