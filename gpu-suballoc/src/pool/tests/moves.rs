//! Two places are exchanged: ranges of one pool, and none that is smaller than the other.

use super::*;
use crate::error::GpuMisuse;
use crate::id::{BlockRef, PlaceKind, RegionPlace};
use crate::pool::MOVE_TARGET;

fn blocks_of_a_mib() -> MemoryOptions {
    MemoryOptions {
        first_block: Some(MIB),
        max_block: Some(MIB),
        ..MemoryOptions::default()
    }
}

/// Where the region lies then, if it was moved.
fn moved(bed: &Bed, at: RegionPlace, target: RegionPlace, is_bound: bool) -> Option<RegionPlace> {
    let mut lock = bed.pools.move_lock(at.pool());
    let is_moved = lock.move_region(at, target, is_bound);
    lock.release(bed.device_and_host());
    is_moved.then_some(RegionPlace {
        slot: at.slot,
        ..target
    })
}

#[test]
fn df7_a_move_exchanges_ranges_of_one_pool_and_makes_none_smaller() {
    exchange_ranges(true);
    exchange_ranges(false);
}

fn exchange_ranges(is_bound: bool) {
    on_every(&blocks_of_a_mib(), |bed| {
        let (pools, device_and_host) = (&bed.pools, bed.device_and_host());
        let first = bed.place(&shared(700 * KIB)).unwrap();
        let large = bed.place(&shared(600 * KIB)).unwrap();
        let small = bed.place(&shared(350 * KIB)).unwrap();
        assert_ne!(first.memory, large.memory);
        assert_eq!(large.memory, small.memory);
        let (index, block) = (small.at.pool(), small.at.block());
        assert_eq!(pools.begin_defragmentation(index, None), Ok(true));
        assert!(pools.begin_drain(device_and_host, index, block).is_some());
        bed.free(&first);
        pools.open_closed_blocks(index);

        // The same numbers in slots of another kind name something else, or nothing.
        let as_kind = |at: RegionPlace, kind| RegionPlace {
            block: BlockRef::new(kind, at.pool(), at.block()),
            ..at
        };
        let others = [PlaceKind::Linear, PlaceKind::Dedicated];
        for kind in others {
            let reserved = pools.prepare_move(device_and_host, as_kind(small.at, kind));
            assert_eq!(reserved.err(), Some(GpuMisuse::Stale.into()), "{kind:?}");
        }
        let (_, target) = pools.prepare_move(device_and_host, small.at).unwrap();
        let target = target.expect("room");
        assert_eq!(target.memory, first.memory);
        assert_eq!(target.size, small.size);
        for kind in others {
            assert_eq!(moved(bed, as_kind(small.at, kind), target.at, true), None);
            assert_eq!(moved(bed, small.at, as_kind(target.at, kind), true), None);
        }
        let block_elsewhere = BlockRef::new(PlaceKind::General, index ^ 1, target.at.block());
        let elsewhere = RegionPlace {
            block: block_elsewhere,
            ..target.at
        };
        let other = moved(bed, small.at, elsewhere, true);
        assert_eq!(other, None, "of another pool");
        let smaller = moved(bed, large.at, target.at, true);
        assert_eq!(smaller, None, "it would be smaller");
        let taken = moved(bed, small.at, large.at, true);
        assert_eq!(taken, None, "somebody's");
        for (region, was) in [(&small, small), (&large, large)] {
            let now = pools.find(region.at).unwrap();
            assert_eq!((now.memory, now.offset), (was.memory, was.offset));
        }

        let now_at = moved(bed, small.at, target.at, is_bound).expect("it moves");
        assert_eq!(pools.find(small.at).err(), Some(GpuMisuse::Stale));
        if is_bound {
            let left = RegionPlace {
                slot: MOVE_TARGET,
                ..small.at
            };
            pools.free_target(device_and_host, left);
        }
        let now = pools.find(now_at).unwrap();
        assert_eq!((now.memory, now.offset), (target.memory, target.offset));
        pools.end_drain(device_and_host, index, block);
        pools.end_defragmentation(index);
        bed.check();
        bed.free(&now);
        bed.free(&large);
    });
}

/// Of two neighbours each would name itself as the other's.
#[test]
fn df7_two_ranges_of_one_block_are_not_exchanged() {
    on_every(&blocks_of_a_mib(), |bed| {
        let (pools, device_and_host) = (&bed.pools, bed.device_and_host());
        let region = bed.place(&shared(64 * KIB)).unwrap();
        let (_, target) = pools.prepare_move(device_and_host, region.at).unwrap();
        let target = target.expect("room");
        assert_eq!(target.memory, region.memory);
        assert_eq!(moved(bed, region.at, target.at, true), None);
        let now = pools.find(region.at).unwrap();
        assert_eq!((now.memory, now.offset), (region.memory, region.offset));
        pools.free_target(device_and_host, target.at);
        bed.check();
        bed.free(&region);
    });
}
