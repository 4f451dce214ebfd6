//! Pools of the user's own.

use std::vec::Vec;

use super::*;
use crate::device::ExternalHandleTypes;
use crate::error::{Limit, Misuse};
use crate::id::PoolId;
use crate::pool::PoolOptions;

fn id((index, generation): (u16, u32)) -> PoolId {
    PoolId { tag: 0, generation, index }
}

fn in_pool(pool: (u16, u32), size: u64) -> Ask {
    Ask { pool: Some(id(pool)), ..shared(size) }
}

#[test]
fn a_pool_keeps_to_itself_and_to_its_limits() {
    on_every(&MemoryOptions::default(), |bed| {
        let options = PoolOptions { block_size: Some(MIB), min_blocks: 1, max_blocks: 3, ..PoolOptions::new(0) };
        let pool = bed.pools.create_pool(bed.env(), &options).unwrap();
        assert_eq!(bed.native(), (1, MIB), "made with the pool");
        let outside = bed.place(&shared(KIB)).unwrap();
        let mut inside = Vec::new();
        let refused = loop {
            match bed.place(&in_pool(pool, 512 * KIB)) {
                Ok(region) => inside.push(region),
                Err(error) => break error,
            }
        };
        assert_eq!(refused, GpuError::Limit(Limit::Blocks { limit: 3 }));
        assert_eq!(inside.len(), 6);
        assert!(inside.iter().all(|region| region.memory != outside.memory));
        assert!(matches!(bed.place(&in_pool(pool, MIB + 1)), Err(GpuError::TooLarge { limit: MIB, .. })));
        assert_eq!(bed.place(&Ask { memory_type_bits: !1, ..in_pool(pool, KIB) }).map(|r| r.at), Err(Misuse::WrongPool.into()));
        assert_eq!(bed.pools.destroy_pool(bed.env(), pool.0, pool.1), Err(Misuse::PoolInUse));
        bed.check();
        inside.iter().for_each(|region| bed.give(region));
        bed.pools.trim(bed.env(), u64::MAX);
        assert_eq!(bed.native().0, 2, "the one it keeps, and the one outside");
        bed.pools.destroy_pool(bed.env(), pool.0, pool.1).unwrap();
        assert_eq!(bed.native().0, 1);
        // Its name is nobody's, also when another pool has its place.
        assert_eq!(bed.pools.destroy_pool(bed.env(), pool.0, pool.1), Err(Misuse::NoSuchPool));
        let next = bed.pools.create_pool(bed.env(), &PoolOptions::new(0)).unwrap();
        assert_eq!((next.0, next.1), (pool.0, pool.1 + 1));
        assert_eq!(bed.place(&in_pool(pool, KIB)).map(|region| region.at), Err(Misuse::NoSuchPool.into()));
        let region = bed.place(&in_pool(next, KIB)).unwrap();
        assert_eq!(bed.pools.give(bed.env(), inside[0].at), Err(Misuse::Stale), "of the pool before");
        bed.give(&region);
        bed.give(&outside);
    });
}

#[test]
fn h82_a_pool_s_bytes_never_exceed_its_limit() {
    on_every(&MemoryOptions::default(), |bed| {
        let pool = bed.pools.create_pool(bed.env(), &PoolOptions { max_bytes: 1_000_000, ..PoolOptions::new(0) }).unwrap();
        let mut regions = Vec::new();
        let refused = loop {
            match bed.place(&in_pool(pool, 30_000)) {
                Ok(region) => regions.push(region),
                Err(error) => break error,
            }
            assert!(bed.native().1 <= 1_000_000, "{:?}", bed.native());
        };
        assert!(matches!(refused, GpuError::Limit(Limit::Bytes { .. })), "{refused:?}");
        assert!(regions.len() >= 30, "{}", regions.len());
        regions.iter().for_each(|region| bed.give(region));
    });
}

#[test]
fn its_options_reach_the_driver() {
    on_every(&MemoryOptions::default(), |bed| {
        let features = bed.mock.properties().features;
        let export = if features.external_memory { ExternalHandleTypes::OPAQUE_FD } else { ExternalHandleTypes::NONE };
        let options = PoolOptions { priority: Some(0.25), export, min_alignment: 4096, ..PoolOptions::new(0) };
        let pool = bed.pools.create_pool(bed.env(), &options).unwrap();
        let regions = [(); 3].map(|()| bed.place(&in_pool(pool, 100)).unwrap());
        assert!(regions.iter().all(|region| region.offset % 4096 == 0));
        let request = bed.mock.memory(regions[0].memory).unwrap().request;
        assert_eq!((request.priority, request.export), (features.memory_priority.then_some(0.25), export));
        regions.iter().for_each(|region| bed.give(region));
        if !features.external_memory {
            let refused =
                bed.pools.create_pool(bed.env(), &PoolOptions { export: ExternalHandleTypes::OPAQUE_FD, ..PoolOptions::new(0) });
            assert_eq!(refused, Err(Misuse::NotEnabled.into()));
        }
    });
}

#[test]
fn what_contradicts_itself_is_no_pool() {
    on_every(&MemoryOptions::default(), |bed| {
        let good = PoolOptions::new(0);
        for bad in [
            PoolOptions { memory_type: 31, ..good },
            PoolOptions { memory_type: 4_000_000_000, ..good },
            PoolOptions { min_blocks: 2, max_blocks: 1, ..good },
            PoolOptions { max_blocks: 0, ..good },
            PoolOptions { max_bytes: 0, ..good },
            PoolOptions { block_size: Some(0), ..good },
            PoolOptions { min_alignment: 0, ..good },
            PoolOptions { min_alignment: 24, ..good },
        ] {
            assert_eq!(bed.pools.create_pool(bed.env(), &bad), Err(Misuse::BadOptions.into()), "{bad:?}");
        }
        assert_eq!(
            bed.pools.create_pool(bed.env(), &PoolOptions { priority: Some(-0.1), ..good }),
            Err(Misuse::BadPriority.into())
        );
        let large = PoolOptions { block_size: Some(1 << 50), ..good };
        assert!(matches!(bed.pools.create_pool(bed.env(), &large), Err(GpuError::TooLarge { .. })));
        assert_eq!(bed.native(), (0, 0));
        assert_eq!(bed.host.live.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn there_are_many_pools_and_an_end_to_them() {
    let bed = Bed::new(Profile::Nvidia.facts(), &MemoryOptions::default());
    let mut pools = Vec::new();
    let refused = loop {
        match bed.pools.create_pool(bed.env(), &PoolOptions::new(1)) {
            Ok(pool) => pools.push(pool),
            Err(error) => break error,
        }
    };
    assert_eq!((refused, pools.len()), (GpuError::Limit(Limit::Pools), 448));
    bed.pools.destroy_pool(bed.env(), pools[17].0, pools[17].1).unwrap();
    assert_eq!(bed.pools.create_pool(bed.env(), &PoolOptions::new(1)).unwrap().0, pools[17].0);
    bed.close();
}
