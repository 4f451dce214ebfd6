//! Small regions that last lie in slabs, each of which moves as a whole: how many blocks are left where they lie between large ones.

use gpu_suballoc::report::{RangePlacement, RangeUse};
use gpu_suballoc::{Lifetime, ResourceRequirements};

use super::*;

const BLOCK: u64 = MIB;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % end
    }
}

/// What a heap has after it was defragmented.
#[derive(Debug)]
struct Left {
    /// Blocks before and after, those in which slabs lay, and as many as slabs fill.
    blocks: [u64; 2],
    with_slabs: u64,
    slab_blocks: u64,
    /// Bytes of blocks over live ones.
    over_live: f64,
}

/// A heap that comes and goes, with a small region for each large one; three quarters of the large ones go, the small ones stay.
fn heap(scene: &Scene<'_>, seed: u64, small: Lifetime) -> Left {
    let mut random = Random(seed);
    let (mut large, mut lasting) = (Vec::new(), Vec::new());
    let take = |size, lifetime| {
        let needs = ResourceRequirements::new(size, 256);
        let region = scene.gpu.allocate(&needs, &shared().lifetime(lifetime));
        region.expect("room")
    };
    for turn in 0..6000 {
        if turn % 4 == 0 && lasting.len() < 600 {
            lasting.push(take(1 + random.below(4096), small));
        }
        if large.len() < 500 || random.below(2) == 0 {
            large.push(take(KIB + random.below(64 * KIB), Lifetime::Unknown));
        }
        if large.len() > 500 {
            let nth = random.below(large.len() as u64) as usize;
            scene.free(large.swap_remove(nth));
        }
        // Small ones change as well, now and then.
        if turn % 64 == 0 && lasting.len() > 500 {
            let nth = random.below(lasting.len() as u64) as usize;
            scene.free(lasting.swap_remove(nth));
        }
    }
    for _ in 0..375 {
        let nth = random.below(large.len() as u64) as usize;
        scene.free(large.swap_remove(nth));
    }
    scene.gpu.trim(u64::MAX);
    let map = scene.gpu.memory_map().expect("host memory");
    let slab = |range: &&gpu_suballoc::report::RangeView| range.placement == RangePlacement::Slab;
    let slabs = || {
        map.blocks_with_ranges()
            .map(|(_, ranges)| ranges.iter().filter(slab))
    };
    let slab_bytes: u64 = slabs().flatten().map(|range| range.size).sum();
    let with_slabs = slabs()
        .filter(|ranges| ranges.clone().next().is_some())
        .count() as u64;
    let in_slabs = slabs()
        .flatten()
        .filter(|range| range.range_use == RangeUse::Region);
    assert_eq!(
        in_slabs.count() == lasting.len(),
        small == Lifetime::Persistent
    );
    let before = scene.gpu.stats().total.blocks;

    let options = DefragmentationOptions::new().move_bare_regions();
    let mut run = scene.gpu.defragment(options).expect("nobody is at it");
    loop {
        let mut pass = run.next_pass().expect("host memory");
        if pass.is_empty() {
            break;
        }
        pass.set_outcomes(MoveOutcome::Copied);
        pass.finish(|_, _| {});
    }
    drop(run);
    let total = scene.gpu.stats().total;
    let left = Left {
        blocks: [before, total.blocks],
        with_slabs,
        slab_blocks: slab_bytes.div_ceil(BLOCK),
        over_live: total.block_bytes as f64 / total.region_bytes as f64,
    };
    for mut region in large.into_iter().chain(lasting) {
        scene.gpu.refresh(&mut region).expect("it lives");
        scene.free(region);
    }
    left
}

/// The figures are in `docs/design/device-memory.md`: a slab needs a larger hole than each of its regions alone.
#[test]
fn df9_with_slabs_one_block_more_is_left_at_most() {
    for profile in MockProfile::ALL {
        for seed in 1..=4 {
            let run = |small| {
                let mut left = None;
                scene(profile, small_blocks(), |scene| {
                    left = Some(heap(&scene, seed, small))
                });
                left.expect("it ran")
            };
            let (slabs, without) = (run(Lifetime::Persistent), run(Lifetime::Unknown));
            println!("{profile:?} {seed}: {slabs:?}, without slabs {without:?}");
            assert!(slabs.blocks[0] > 12 && slabs.slab_blocks > 0, "{slabs:?}");
            assert!(slabs.with_slabs > 12, "nearly every block has one");
            assert!(slabs.blocks[1] <= without.blocks[1] + 1, "{slabs:?}");
            assert!(slabs.over_live < 1.5 && without.over_live < 1.5);
        }
    }
}

/// An empty slab, or an empty page, is no reason for a block to stay.
#[test]
fn df9_empty_slabs_and_pages_keep_no_block() {
    for lifetime in [Lifetime::Persistent, Lifetime::Transient] {
        for from_shard in [false, true] {
            small(|scene| {
                let needs = ResourceRequirements::new(KIB, 256);
                let options = mappable().lifetime(lifetime);
                let mut shard = scene.gpu.shard();
                let few = scene.sparse_with(2, 8, &mappable());
                let blocks = scene.gpu.stats().total.blocks;
                let mut take = || {
                    if from_shard {
                        shard.allocate(&needs, &options)
                    } else {
                        scene.gpu.allocate(&needs, &options)
                    }
                };
                let regions: Vec<_> = (0..20).map(|_| take().expect("room")).collect();
                // In one of the two blocks, or in one of its own, which goes as it came.
                assert!(scene.gpu.stats().total.blocks <= blocks + 1);
                for region in regions {
                    shard.free(region).expect("it lives");
                }
                let run = scene
                    .gpu
                    .defragment(DefragmentationOptions::new())
                    .expect("nobody is at it");
                assert_eq!(run.skipped().pages, 0);
                assert!(run.totals().planned_blocks >= 1);
                drop(run);
                few.into_iter().for_each(|(_, region)| scene.free(region));
            });
        }
    }
}
