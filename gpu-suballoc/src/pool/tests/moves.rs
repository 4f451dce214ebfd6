//! Two places are exchanged: ranges of one pool, and none that is smaller than the other.

use super::*;
use crate::error::GpuMisuse;
use crate::id::{NO_RECORD, RegionPlace, RegionPlaceKind, RegionSlot};

#[test]
fn df7_a_move_exchanges_ranges_of_one_pool_and_makes_none_smaller() {
    let options = MemoryOptions {
        first_block: Some(MIB),
        max_block: Some(MIB),
        ..MemoryOptions::default()
    };
    on_every(&options, |bed| {
        let (pools, env) = (&bed.pools, bed.env());
        let first = bed.place(&shared(700 * KIB)).unwrap();
        let large = bed.place(&shared(600 * KIB)).unwrap();
        let small = bed.place(&shared(350 * KIB)).unwrap();
        assert_ne!(first.memory, large.memory);
        assert_eq!(large.memory, small.memory);
        let (index, block) = (small.at.place.pool(), small.at.place.block());
        assert_eq!(pools.begin_defragmentation(env, index, None), Ok(true));
        assert!(pools.begin_drain(env, index, block));
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
            let reserved = pools.prepare_move(env, as_kind(small.at, kind), NO_RECORD);
            assert_eq!(reserved.err(), Some(GpuMisuse::Stale.into()), "{kind:?}");
        }
        let target = pools.prepare_move(env, small.at, NO_RECORD).unwrap();
        let target = target.target.expect("room");
        assert_eq!(target.memory, first.memory);
        assert_eq!(target.size, small.size);
        for kind in others {
            assert!(!pools.exchange(as_kind(small.at, kind), target.at));
            assert!(!pools.exchange(small.at, as_kind(target.at, kind)));
        }
        let place = RegionPlace::new(RegionPlaceKind::General, index ^ 1, target.at.place.block());
        let elsewhere = RegionSlot { place, ..target.at };
        assert!(!pools.exchange(small.at, elsewhere), "of another pool");
        assert!(!pools.exchange(large.at, target.at), "it would be smaller");
        for (region, was) in [(&small, small), (&large, large)] {
            let (now, _) = pools.find(region.at).unwrap();
            assert_eq!((now.memory, now.offset), (was.memory, was.offset));
        }

        assert!(pools.exchange(small.at, target.at));
        let (now, _) = pools.find(small.at).unwrap();
        assert_eq!((now.memory, now.offset), (target.memory, target.offset));
        pools.free_target(env, target.at);
        pools.end_drain(env, index, block);
        pools.end_defragmentation(index);
        bed.check();
        bed.free(&small);
        bed.free(&large);
    });
}
