//! Two places are exchanged: ranges of one pool, and none that is smaller than the other.

use super::*;
use crate::error::GpuMisuse;
use crate::id::{NO_RECORD, RegionPlace, RegionPlaceKind, RegionSlot};
use crate::request::Lifetime;

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
        let others = [
            RegionPlaceKind::Slab,
            RegionPlaceKind::Transient,
            RegionPlaceKind::Linear,
            RegionPlaceKind::Dedicated,
        ];
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

#[test]
fn df9_a_slab_is_exchanged_with_a_target_of_its_pool_as_large_as_it_is_and_no_other() {
    on_every(&blocks_of_a_mib(), |bed| {
        let (pools, device_and_host) = (&bed.pools, bed.device_and_host());
        let first = bed.place(&shared(700 * KIB)).unwrap();
        let large = bed.place(&shared(600 * KIB)).unwrap();
        let lasting = AllocationRequest {
            lifetime: Lifetime::Persistent,
            ..shared(256)
        };
        // More than there is room for in the first block's hole, which goes before.
        let filler = bed.place(&shared(320 * KIB)).unwrap();
        let region = bed.place(&lasting).unwrap();
        assert_eq!(region.at.kind(), RegionPlaceKind::Slab);
        let (index, slab) = (region.at.place.pool(), region.at.place.block());
        let block = large.at.place.block();
        if region.memory != large.memory {
            // The slab lies in the other block on a device whose granule makes it too large.
            [first, large, filler, region]
                .iter()
                .for_each(|one| bed.free(one));
            return;
        }
        let stale = GpuMisuse::Stale.into();
        assert_eq!(pools.begin_defragmentation(index, None), Ok(true));
        assert_eq!(
            pools.prepare_slab(device_and_host, index, slab).err(),
            Some(stale),
            "it takes regions"
        );
        assert!(pools.begin_drain(device_and_host, index, block).is_some());
        bed.free(&first);
        pools.open_closed_blocks(index);
        let elsewhere = bed.place(&lasting).unwrap();
        assert_ne!(
            elsewhere.at.place.block(),
            slab,
            "a frozen slab takes nothing"
        );
        bed.free(&elsewhere);

        assert_eq!(
            pools.prepare_slab(device_and_host, index, slab + 1).err(),
            Some(stale)
        );
        let prepared = pools.prepare_slab(device_and_host, index, slab).unwrap();
        let target = prepared.target.expect("room");
        let small = pools
            .prepare_move(device_and_host, large.at, NO_RECORD)
            .unwrap();
        let as_kind = |kind| RegionSlot {
            place: RegionPlace::new(kind, index, target.at.place.block()),
            ..target.at
        };
        for kind in [RegionPlaceKind::Slab, RegionPlaceKind::Dedicated] {
            assert!(!exchange(bed, region.at, as_kind(kind)));
        }
        let in_slab = |pool, slab| RegionSlot {
            place: RegionPlace::new(RegionPlaceKind::Slab, pool, slab),
            ..region.at
        };
        assert!(
            !exchange(bed, in_slab(index, slab + 1), target.at),
            "no slab"
        );
        assert!(
            !exchange(bed, in_slab(index ^ 1, slab), target.at),
            "of another pool"
        );
        let mut lock = pools.exchange_lock(index);
        assert!(
            !lock.exchange(in_slab(index ^ 1, slab), target.at, true),
            "of another pool"
        );
        lock.release(device_and_host);
        assert!(!exchange(bed, region.at, filler.at), "somebody's");
        assert_eq!(pools.find(region.at).unwrap().0.offset, region.offset);
        assert!(exchange(bed, region.at, target.at));
        assert!(!exchange(bed, region.at, target.at), "it moves once");
        let (now, _) = pools.find(region.at).unwrap();
        assert_eq!(now.memory, target.memory);
        assert_eq!(now.offset - target.offset, region.offset - prepared.base);
        pools.free_target(device_and_host, target.at);
        if let Some(small) = small.target {
            pools.free_target(device_and_host, small.at);
        }
        pools.end_drain(device_and_host, index, block);
        pools.end_defragmentation(index);
        bed.check();
        [large, filler, region].iter().for_each(|one| bed.free(one));
    });
}
