//! Pools of the user's own.

use std::vec::Vec;

use super::*;
use crate::device::ExternalHandleTypes;
use crate::error::{GpuMisuse, Limit};
use crate::id::{PlaceKind, PoolId};
use crate::pool::blocks::BlockListing;
use crate::pool::{BlockAlgorithm, PoolOptions};

fn id((index, generation): (u16, u32)) -> PoolId {
    PoolId {
        tag: 0,
        generation,
        index,
    }
}

fn in_pool(pool: (u16, u32), size: u64) -> AllocationRequest {
    AllocationRequest {
        pool: Some(id(pool)),
        ..shared(size)
    }
}

#[test]
fn a_pool_keeps_to_itself_and_to_its_limits() {
    on_every(&MemoryOptions::default(), |bed| {
        let options = PoolOptions {
            block_size: Some(MIB),
            min_blocks: 1,
            max_blocks: 3,
            ..PoolOptions::new(0)
        };
        let pool = bed
            .pools
            .create_pool(bed.device_and_host(), &options)
            .unwrap();
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
        assert!(matches!(
            bed.place(&in_pool(pool, MIB + 1)),
            Err(GpuError::TooLarge { limit: MIB, .. })
        ));
        assert_eq!(
            bed.place(&AllocationRequest {
                memory_type_bits: !1,
                ..in_pool(pool, KIB)
            })
            .map(|r| r.at),
            Err(GpuMisuse::WrongPool.into())
        );
        assert_eq!(
            bed.pools
                .destroy_pool(bed.device_and_host(), pool.0, pool.1),
            Err(GpuMisuse::PoolInUse)
        );
        bed.check();
        inside.iter().for_each(|region| bed.free(region));
        bed.pools.trim(bed.device_and_host(), u64::MAX);
        assert_eq!(bed.native().0, 2, "the one it keeps, and the one outside");
        bed.pools
            .destroy_pool(bed.device_and_host(), pool.0, pool.1)
            .unwrap();
        assert_eq!(bed.native().0, 1);
        // Its name is nobody's, also when another pool has its place.
        assert_eq!(
            bed.pools
                .destroy_pool(bed.device_and_host(), pool.0, pool.1),
            Err(GpuMisuse::NoSuchPool)
        );
        let next = bed
            .pools
            .create_pool(bed.device_and_host(), &options)
            .unwrap();
        assert_eq!((next.0, next.1), (pool.0, pool.1 + 1));
        assert_eq!(
            bed.place(&in_pool(pool, KIB)).map(|region| region.at),
            Err(GpuMisuse::NoSuchPool.into())
        );
        let region = bed.place(&in_pool(next, KIB)).unwrap();
        assert_eq!(
            bed.pools.free(bed.device_and_host(), inside[0].at),
            Err(GpuMisuse::Stale),
            "of the pool before"
        );
        bed.free(&region);
        bed.free(&outside);
    });
}

#[test]
fn h82_a_pool_s_bytes_never_exceed_its_limit() {
    on_every(&MemoryOptions::default(), |bed| {
        let pool = bed
            .pools
            .create_pool(
                bed.device_and_host(),
                &PoolOptions {
                    max_bytes: 1_000_000,
                    ..PoolOptions::new(0)
                },
            )
            .unwrap();
        let mut regions = Vec::new();
        let refused = loop {
            match bed.place(&in_pool(pool, 30_000)) {
                Ok(region) => regions.push(region),
                Err(error) => break error,
            }
            assert!(bed.native().1 <= 1_000_000, "{:?}", bed.native());
        };
        assert!(
            matches!(refused, GpuError::Limit(Limit::Bytes { .. })),
            "{refused:?}"
        );
        assert!(regions.len() >= 30, "{}", regions.len());
        regions.iter().for_each(|region| bed.free(region));
    });
}

#[test]
fn its_options_reach_the_driver() {
    on_every(&MemoryOptions::default(), |bed| {
        let features = bed.mock.properties().features;
        let export = if features.external_memory {
            ExternalHandleTypes::OPAQUE_FD
        } else {
            ExternalHandleTypes::NONE
        };
        let options = PoolOptions {
            priority: Some(0.25),
            export,
            min_alignment: 4096,
            ..PoolOptions::new(0)
        };
        let pool = bed
            .pools
            .create_pool(bed.device_and_host(), &options)
            .unwrap();
        let regions = [(); 3].map(|()| bed.place(&in_pool(pool, 100)).unwrap());
        assert!(regions.iter().all(|region| region.offset % 4096 == 0));
        let request = bed.mock.memory(regions[0].memory).unwrap().request;
        assert_eq!(
            (request.priority, request.export),
            (features.memory_priority.then_some(0.25), export)
        );
        regions.iter().for_each(|region| bed.free(region));
        if !features.external_memory {
            let refused = bed.pools.create_pool(
                bed.device_and_host(),
                &PoolOptions {
                    export: ExternalHandleTypes::OPAQUE_FD,
                    ..PoolOptions::new(0)
                },
            );
            assert_eq!(refused, Err(GpuMisuse::NotEnabled.into()));
        }
    });
}

#[test]
fn what_contradicts_itself_is_no_pool() {
    on_every(&MemoryOptions::default(), |bed| {
        let good = PoolOptions::new(0);
        for bad in [
            PoolOptions {
                memory_type: 31,
                ..good
            },
            PoolOptions {
                memory_type: 4_000_000_000,
                ..good
            },
            PoolOptions {
                min_blocks: 2,
                max_blocks: 1,
                ..good
            },
            PoolOptions {
                max_blocks: 0,
                ..good
            },
            PoolOptions {
                max_bytes: 0,
                ..good
            },
            PoolOptions {
                block_size: Some(0),
                ..good
            },
            PoolOptions {
                min_alignment: 0,
                ..good
            },
            PoolOptions {
                min_alignment: 24,
                ..good
            },
        ] {
            assert_eq!(
                bed.pools.create_pool(bed.device_and_host(), &bad),
                Err(GpuMisuse::BadOptions.into()),
                "{bad:?}"
            );
        }
        assert_eq!(
            bed.pools.create_pool(
                bed.device_and_host(),
                &PoolOptions {
                    priority: Some(-0.1),
                    ..good
                }
            ),
            Err(GpuMisuse::BadPriority.into())
        );
        let large = PoolOptions {
            block_size: Some(1 << 50),
            ..good
        };
        assert!(matches!(
            bed.pools.create_pool(bed.device_and_host(), &large),
            Err(GpuError::TooLarge { .. })
        ));
        assert_eq!(bed.native(), (0, 0));
        assert_eq!(bed.host.live.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn there_are_many_pools_and_an_end_to_them() {
    let bed = Bed::new(MockProfile::Nvidia.config(), &MemoryOptions::default());
    let mut pools = Vec::new();
    let refused = loop {
        match bed
            .pools
            .create_pool(bed.device_and_host(), &PoolOptions::new(1))
        {
            Ok(pool) => pools.push(pool),
            Err(error) => break error,
        }
    };
    assert_eq!((refused, pools.len()), (GpuError::Limit(Limit::Pools), 384));
    bed.pools
        .destroy_pool(bed.device_and_host(), pools[17].0, pools[17].1)
        .unwrap();
    assert_eq!(
        bed.pools
            .create_pool(bed.device_and_host(), &PoolOptions::new(1))
            .unwrap()
            .0,
        pools[17].0
    );
    bed.close();
}

#[test]
fn a_linear_pool_is_a_stack_a_ring_and_empty_at_once() {
    on_every(
        &MemoryOptions {
            keep_empty: Some(0),
            ..MemoryOptions::default()
        },
        |bed| {
            let options = PoolOptions {
                algorithm: BlockAlgorithm::Ring,
                block_size: Some(10_240),
                ..PoolOptions::new(0)
            };
            let pool = bed
                .pools
                .create_pool(bed.device_and_host(), &options)
                .unwrap();
            let place = |size| bed.place(&in_pool(pool, size));
            // One behind the other, all in one block, to the last byte.
            let mut regions: Vec<_> = (0..10).map(|_| place(1000).unwrap()).collect();
            assert!(
                regions
                    .iter()
                    .enumerate()
                    .all(|(n, region)| region.offset == n as u64 * 1024
                        && region.at.kind() == PlaceKind::Linear)
            );
            assert_eq!(
                place(1).map(|region| region.at),
                Err(GpuError::Limit(Limit::Blocks { limit: 1 }))
            );
            assert_eq!(bed.native(), (1, 10_240));
            bed.check();
            // A stack: the last that came goes first, and its room is there again.
            let last = regions.pop().unwrap();
            bed.free(&last);
            assert_eq!(
                bed.pools.free(bed.device_and_host(), last.at),
                Err(GpuMisuse::Stale)
            );
            let again = place(1000).unwrap();
            assert_eq!((again.offset, again.at == last.at), (last.offset, false));
            regions.push(again);
            // In the middle: no room comes of it until an end gets there.
            let middle = regions.remove(1);
            bed.free(&middle);
            assert!(place(1000).is_err());
            bed.check();
            // A ring: the first goes, what comes next lies where it lay.
            bed.free(&regions.remove(0));
            let wrapped = [place(1000).unwrap(), place(1000).unwrap()];
            assert_eq!(wrapped.map(|region| region.offset), [0, 1024]);
            assert!(place(1).is_err());
            bed.check();
            for region in regions.iter().chain(&wrapped) {
                let found = bed.pools.find(region.at).unwrap();
                assert_eq!(
                    (found.memory, found.offset, found.size),
                    (region.memory, region.offset, 1024)
                );
            }
            bed.free(&wrapped[0]);
            bed.free(&wrapped[1]);
            regions.iter().for_each(|region| bed.free(region));
            assert_eq!(bed.native(), (0, 0), "all gone: so is the block");
            let aligned = [
                place(100).unwrap(),
                bed.place(&AllocationRequest {
                    alignment: 4096,
                    ..in_pool(pool, 100)
                })
                .unwrap(),
            ];
            assert_eq!(aligned.map(|region| region.offset), [0, 4096]);
            aligned.iter().for_each(|region| bed.free(region));
            bed.pools
                .destroy_pool(bed.device_and_host(), pool.0, pool.1)
                .unwrap();
        },
    );
}

#[test]
fn a_linear_pool_agrees_with_a_list_of_intervals() {
    on_every(&MemoryOptions::default(), |bed| {
        let options = PoolOptions {
            algorithm: BlockAlgorithm::Ring,
            block_size: Some(64 * KIB),
            ..PoolOptions::new(0)
        };
        let pool = bed
            .pools
            .create_pool(bed.device_and_host(), &options)
            .unwrap();
        let mut live: Vec<Suballocation> = Vec::new();
        let (mut state, mut taken) = (7u64, 0u32);
        for turn in 0..4000u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let random = (state >> 33) as usize;
            let placed = bed.place(&in_pool(pool, 1 + random as u64 % 5000));
            if let Ok(region) = placed {
                let apart = |other: &Suballocation| {
                    region.offset + region.size <= other.offset
                        || other.offset + other.size <= region.offset
                };
                assert!(region.offset + region.size <= 64 * KIB && live.iter().all(apart));
                live.push(region);
                taken += 1;
            }
            if placed.is_err() || random.is_multiple_of(3) {
                // From the front mostly, sometimes from the back or the middle.
                let index =
                    [0, 0, 0, live.len().saturating_sub(1), live.len() / 2][turn as usize % 5];
                if index < live.len() {
                    bed.free(&live.remove(index));
                }
            }
            if turn % 500 == 0 {
                bed.check();
            }
        }
        assert!(taken > 1500, "{taken}");
        live.iter().for_each(|region| bed.free(region));
    });
}

/// A place in a closed block is had all the same, and the block is open from then on; what is left of it is counted as such.
#[test]
fn ge7_a_place_in_a_closed_block_opens_it() {
    on_every(&MemoryOptions::default(), |bed| {
        let options = PoolOptions {
            block_size: Some(MIB),
            min_blocks: 2,
            ..PoolOptions::new(0)
        };
        let pool = bed
            .pools
            .create_pool(bed.device_and_host(), &options)
            .unwrap();
        let request = in_pool(pool, 4 * KIB);
        let first = bed
            .pools
            .place_at(bed.device_and_host(), &request, 1, MIB / 2)
            .unwrap();
        {
            let mut state = bed.pools.custom(pool.0, pool.1).unwrap().lock();
            assert!(state.blocks.list_as(1, BlockListing::Closed));
        }
        let second = bed
            .pools
            .place_at(bed.device_and_host(), &request, 1, 0)
            .unwrap();
        assert_eq!((second.memory, second.offset), (first.memory, 0));
        {
            let state = bed.pools.custom(pool.0, pool.1).unwrap().lock();
            let listing = state.blocks.block(1).map(|live| live.listing);
            assert_eq!(listing, Ok(BlockListing::Open));
        }
        bed.check();
        [first, second].iter().for_each(|region| bed.free(region));
        bed.check();
        bed.pools
            .destroy_pool(bed.device_and_host(), pool.0, pool.1)
            .unwrap();
    });
}
