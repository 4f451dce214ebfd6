//! Two places are exchanged: ranges of one pool, and none that is smaller than the other.

use super::*;
use crate::error::GpuMisuse;
use crate::id::{NO_RECORD, RegionPlace, RegionPlaceKind, RegionSlot};

fn blocks_of_a_mib() -> MemoryOptions {
    MemoryOptions {
        first_block: Some(MIB),
        max_block: Some(MIB),
        ..MemoryOptions::default()
    }
}

fn exchange(bed: &Bed, at: RegionSlot, target: RegionSlot) -> bool {
    let mut lock = bed.pools.exchange_lock(at.place.pool());
    let is_exchanged = lock.exchange(at, target, true);
    lock.release(bed.device_and_host());
    is_exchanged
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
        let (index, block) = (small.at.place.pool(), small.at.place.block());
        assert_eq!(pools.begin_defragmentation(index, None), Ok(true));
        assert!(pools.begin_drain(device_and_host, index, block).is_some());
        bed.free(&first);
        pools.open_closed_blocks(index);

        // The same numbers in slots of another kind name something else, or nothing.
        let as_kind = |at: RegionSlot, kind| RegionSlot {
            place: RegionPlace::new(kind, at.place.pool(), at.place.block()),
            ..at
        };
        let others = [RegionPlaceKind::Linear, RegionPlaceKind::Dedicated];
        for kind in others {
            let reserved = pools.prepare_move(device_and_host, as_kind(small.at, kind), NO_RECORD);
            assert_eq!(reserved.err(), Some(GpuMisuse::Stale.into()), "{kind:?}");
        }
        let target = pools
            .prepare_move(device_and_host, small.at, NO_RECORD)
            .unwrap();
        let target = target.target.expect("room");
        assert_eq!(target.memory, first.memory);
        assert_eq!(target.size, small.size);
        for kind in others {
            assert!(!exchange(bed, as_kind(small.at, kind), target.at));
            assert!(!exchange(bed, small.at, as_kind(target.at, kind)));
        }
        let place = RegionPlace::new(RegionPlaceKind::General, index ^ 1, target.at.place.block());
        let elsewhere = RegionSlot { place, ..target.at };
        assert!(!exchange(bed, small.at, elsewhere), "of another pool");
        assert!(!exchange(bed, large.at, target.at), "it would be smaller");
        for (region, was) in [(&small, small), (&large, large)] {
            let (now, _) = pools.find(region.at).unwrap();
            assert_eq!((now.memory, now.offset), (was.memory, was.offset));
        }

        if is_bound {
            assert!(exchange(bed, small.at, target.at));
            pools.free_target(device_and_host, target.at);
        } else {
            let mut lock = pools.exchange_lock(index);
            assert!(
                lock.exchange(small.at, target.at, false),
                "and its place is free"
            );
            lock.release(device_and_host);
        }
        let (now, _) = pools.find(small.at).unwrap();
        assert_eq!((now.memory, now.offset), (target.memory, target.offset));
        pools.end_drain(device_and_host, index, block);
        pools.end_defragmentation(index);
        bed.check();
        bed.free(&small);
        bed.free(&large);
    });
}

/// Of two neighbours each would name itself as the other's.
#[test]
fn df7_two_ranges_of_one_block_are_not_exchanged() {
    on_every(&blocks_of_a_mib(), |bed| {
        let (pools, device_and_host) = (&bed.pools, bed.device_and_host());
        let region = bed.place(&shared(64 * KIB)).unwrap();
        let prepared = pools
            .prepare_move(device_and_host, region.at, NO_RECORD)
            .unwrap();
        let target = prepared.target.expect("room");
        assert_eq!(target.memory, region.memory);
        assert!(!exchange(bed, region.at, target.at));
        let (now, _) = pools.find(region.at).unwrap();
        assert_eq!((now.memory, now.offset), (region.memory, region.offset));
        pools.free_target(device_and_host, target.at);
        bed.check();
        bed.free(&region);
    });
}
