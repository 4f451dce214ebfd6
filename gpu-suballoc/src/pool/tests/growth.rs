//! How much is taken from the driver, and when it goes back.

use std::sync::Barrier;
use std::thread;
use std::vec::Vec;

use super::*;
use crate::device::DeviceError;
use crate::device::mock::{MockCall, MockFault};
use crate::error::Limit;
use crate::id::{BlockRef, PlaceKind, RegionPlace};
use crate::request::Lifetime;

#[test]
fn the_first_kibibyte_reserves_little() {
    for lifetime in [Lifetime::Unknown, Lifetime::Transient, Lifetime::Persistent] {
        on_every(&MemoryOptions::default(), |bed| {
            let placed = bed
                .place(&AllocationRequest {
                    lifetime,
                    ..AllocationRequest::new(KIB, 16)
                })
                .unwrap();
            let (_, heap) = heap_of(bed, &placed);
            let (objects, bytes) = bed.native();
            assert_eq!(objects, 1);
            assert!(bytes <= 8 * MIB && bytes <= heap / 64, "{bytes} of {heap}");
            assert_eq!(placed.size, KIB);
            bed.free(&placed);
        });
        // Small heaps: less.
        on_every_changed(
            &MemoryOptions::default(),
            |config| (0..3).fold(config, |config, heap| config.with_heap_size(heap, 64 * MIB)),
            |bed| {
                let placed = bed
                    .place(&AllocationRequest {
                        lifetime,
                        ..AllocationRequest::new(KIB, 16)
                    })
                    .unwrap();
                assert!(bed.native().1 <= MIB, "{:?}", bed.native());
                bed.free(&placed);
            },
        );
    }
}

#[test]
fn h76_regions_lie_in_blocks_and_the_next_block_is_an_eighth_of_all() {
    let options = MemoryOptions {
        first_block: Some(256 * KIB),
        ..MemoryOptions::default()
    };
    on_every(&options, |bed| {
        let mut regions = Vec::new();
        let (mut reserved, mut objects) = (0, 0);
        let limits = bed.mock.properties().limits;
        // Where there can be few, each has as much as all before.
        let (part, count) = if limits.max_memory_allocation_count < 1024 {
            (1, 6)
        } else {
            (8, 20)
        };
        while objects < count {
            regions.push(bed.place(&shared(64 * KIB)).unwrap());
            let now = bed.native();
            if now.0 > objects {
                let part = reserved / part;
                let granule = limits.non_coherent_atom_size.max(256);
                let expected = (part - part % granule).max(256 * KIB);
                assert_eq!(now.1 - reserved, expected, "after {objects} blocks");
                (objects, reserved) = now;
            }
        }
        assert!(reserved > count * 256 * KIB, "the last ones are larger");
        assert!(
            regions.len() as u64 > 4 * (objects - 1),
            "regions share blocks"
        );
        bed.check();
        regions.iter().for_each(|region| bed.free(region));
        bed.pools.trim(bed.device_and_host(), u64::MAX);
        let again = bed.place(&shared(KIB)).unwrap();
        assert_eq!(bed.native(), (1, 256 * KIB), "from small again");
        bed.free(&again);
    });
}

#[test]
fn a_refused_block_is_halved_three_times_and_then_the_region_is_alone() {
    on_every(&MemoryOptions::default(), |bed| {
        let first = bed.place(&shared(KIB)).unwrap();
        let (_, size) = bed.native();
        bed.free(&first);
        bed.pools.trim(bed.device_and_host(), u64::MAX);
        // Halves are taken from a driver that has no more in one piece.
        let before = bed.allocations();
        bed.mock.refuse_from(size / 4 + 1);
        let halved = bed.place(&shared(KIB)).unwrap();
        assert_eq!(
            (bed.native(), bed.allocations() - before),
            ((1, size / 4), 3)
        );
        bed.free(&halved);
        bed.pools.trim(bed.device_and_host(), u64::MAX);
        // Nothing near a block: the region alone, in the best type there is for it.
        bed.mock.refuse_from(16 * KIB);
        let before = bed.allocations();
        let alone = bed.place(&AllocationRequest::new(KIB, 1)).unwrap();
        assert_eq!(alone.at.kind(), PlaceKind::Dedicated);
        assert_eq!((bed.native(), bed.allocations() - before), ((1, KIB), 5));
        // One that must not be alone gets a block of its size, at last.
        let exact = bed.place(&shared(KIB)).unwrap();
        assert_eq!(
            (exact.at.kind(), bed.native()),
            (PlaceKind::General, (2, 2 * KIB))
        );
        bed.mock.heal();
        bed.mock.refuse_from(u64::MAX);
        bed.free(&alone);
        bed.free(&exact);
    });
}

#[test]
fn a_block_is_made_once_however_many_threads_need_it() {
    on_every(&MemoryOptions::default(), |bed| {
        for round in 0..20 {
            let before = bed.allocations();
            let barrier = Barrier::new(4);
            let regions: Vec<_> = thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|_| {
                        scope.spawn(|| {
                            barrier.wait();
                            bed.place(&shared(KIB)).unwrap().at
                        })
                    })
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .collect()
            });
            assert_eq!(bed.allocations() - before, 1, "round {round}");
            assert_eq!(bed.native().0, 1);
            bed.check();
            for region in &regions {
                bed.pools.free(bed.device_and_host(), *region).unwrap();
            }
            assert!(bed.pools.trim(bed.device_and_host(), u64::MAX) > 0);
        }
    });
}

#[test]
fn an_empty_block_waits_for_what_comes_next_within_a_budget_of_bytes() {
    for (keep_empty, calls) in [(None, 1), (Some(u64::MAX), 1), (Some(0), 10)] {
        on_every(
            &MemoryOptions {
                keep_empty,
                ..MemoryOptions::default()
            },
            |bed| {
                for _ in 0..10 {
                    let region = bed.place(&shared(KIB)).unwrap();
                    bed.free(&region);
                }
                assert_eq!(bed.allocations(), calls);
                assert_eq!(bed.native().0, u64::from(keep_empty != Some(0)));
            },
        );
    }
}

#[test]
fn h118_a_heap_over_its_budget_keeps_nothing() {
    on_every(&MemoryOptions::default(), |bed| {
        let region = bed.place(&shared(KIB)).unwrap();
        let other = bed.place(&shared(KIB)).unwrap();
        let (heap, _) = heap_of(bed, &region);
        bed.mock.set_budget(heap as usize, Some(1));
        let asked = bed.pools.set_frame(bed.device_and_host(), 1);
        assert_eq!(asked, bed.mock.properties().features.memory_budget);
        bed.free(&other);
        assert_eq!(bed.native().0, 1);
        bed.free(&region);
        assert_eq!(
            bed.native().0,
            u64::from(!asked),
            "over budget: the empty block went at once"
        );
        // One that was kept goes when a frame finds the heap over its budget.
        bed.mock.set_budget(heap as usize, None);
        bed.pools.set_frame(bed.device_and_host(), 2);
        let region = bed.place(&shared(KIB)).unwrap();
        bed.free(&region);
        assert_eq!(bed.native().0, 1);
        bed.mock.set_budget(heap as usize, Some(1));
        bed.pools.set_frame(bed.device_and_host(), 3);
        assert_eq!(bed.native().0, u64::from(!asked));
    });
}

#[test]
fn h95_trimming_says_how_many_bytes_went_back() {
    on_every(&MemoryOptions::default(), |bed| {
        let big: Vec<_> = (0..40).map(|_| bed.place(&shared(MIB)).unwrap()).collect();
        let small = bed
            .place(&AllocationRequest {
                lifetime: Lifetime::Persistent,
                ..shared(KIB)
            })
            .unwrap();
        let soon = bed
            .place(&AllocationRequest {
                lifetime: Lifetime::Transient,
                ..shared(KIB)
            })
            .unwrap();
        assert_eq!(
            bed.pools.trim(bed.device_and_host(), u64::MAX),
            0,
            "nothing is empty"
        );
        big.iter().for_each(|region| bed.free(region));
        bed.check();
        let (objects, bytes) = bed.native();
        // As much as was asked for, and not all of it.
        let some = bed.pools.trim(bed.device_and_host(), 1);
        assert!(
            some > 0 && bed.native() == (objects - 1, bytes - some),
            "{some}"
        );
        let rest = bed.pools.trim(bed.device_and_host(), u64::MAX);
        assert_eq!(bed.native().1, bytes - some - rest);
        assert!(bed.native().0 >= 1, "two regions live");
        bed.free(&small);
        bed.free(&soon);
        assert_eq!(
            bed.pools.trim(bed.device_and_host(), u64::MAX),
            bytes - some - rest,
            "holes go with their blocks"
        );
        assert_eq!(bed.native(), (0, 0));
        // From small again.
        let again = bed.place(&shared(KIB)).unwrap();
        assert!(bed.native().1 <= 8 * MIB);
        bed.free(&again);
    });
}

#[test]
fn h97_what_is_left_at_the_end_is_said_and_stays() {
    for profile in MockProfile::ALL {
        println!("profile: {}", profile.name());
        let mut bed = Bed::new(profile.config(), &MemoryOptions::default());
        let left = [
            bed.place(&shared(KIB)).unwrap(),
            bed.place(&AllocationRequest {
                lifetime: Lifetime::Transient,
                ..shared(KIB)
            })
            .unwrap(),
            bed.place(&AllocationRequest {
                lifetime: Lifetime::Persistent,
                ..shared(KIB)
            })
            .unwrap(),
            bed.place(&AllocationRequest {
                dedicated: DedicatedPolicy::Required,
                ..AllocationRequest::new(KIB, 1)
            })
            .unwrap(),
        ];
        let before = bed.native();
        let Bed {
            mock, host, pools, ..
        } = &mut bed;
        assert_eq!(
            pools.close(DeviceAndHost {
                device: &*mock,
                memory: &*host
            }),
            4
        );
        assert_eq!(bed.native(), before, "nothing happened");
        for region in &left {
            bed.pools.find(region.at).unwrap();
            bed.free(region);
        }
        bed.close();
    }
}

#[test]
fn a_lost_device_is_abandoned_without_a_call() {
    for profile in MockProfile::ALL {
        println!("profile: {}", profile.name());
        let mut bed = Bed::new(profile.config(), &MemoryOptions::default());
        let region = bed.place(&visible(KIB)).unwrap();
        bed.mock.lose_device();
        assert_eq!(
            bed.place(&shared(64 * MIB)).map(|placed| placed.at),
            Err(GpuError::Device(DeviceError::DeviceLost))
        );
        assert_eq!(
            bed.pools.map(bed.device_and_host(), region.at),
            Err(GpuError::Device(DeviceError::DeviceLost))
        );
        let calls = bed.mock.all_calls();
        let Bed {
            mock, host, pools, ..
        } = &mut bed;
        pools.abandon(DeviceAndHost {
            device: &*mock,
            memory: &*host,
        });
        assert_eq!(bed.mock.all_calls(), calls);
        assert_eq!(bed.host.live.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn h84_a_refused_block_leaves_no_trace() {
    on_every(&MemoryOptions::default(), |bed| {
        let stays = bed.place(&shared(KIB)).unwrap();
        let before = (bed.native(), bed.objects());
        for error in [
            DeviceError::OutOfDeviceMemory,
            DeviceError::OutOfHostMemory,
            DeviceError::TooManyObjects,
        ] {
            bed.mock
                .plant(MockFault::always().of(MockCall::Allocate).with(error));
            let refused = bed.place(&shared(32 * MIB)).map(|placed| placed.at);
            bed.mock.heal();
            let Err(error_seen) = refused else {
                panic!("there was room for it: {refused:?}")
            };
            assert!(error_seen == GpuError::Device(error), "{error_seen:?}");
            assert_eq!((bed.native(), bed.objects()), before);
            bed.check();
        }
        // Where it was: the region, the block, and room in it.
        bed.pools.find(stays.at).unwrap();
        let next = bed.place(&shared(KIB)).unwrap();
        assert_eq!(next.memory, stays.memory);
        let large = bed.place(&shared(32 * MIB)).unwrap();
        [next, large, stays]
            .iter()
            .for_each(|region| bed.free(region));
    });
}

#[test]
fn too_many_objects_is_no_reason_for_smaller_ones() {
    on_every(&MemoryOptions::default(), |bed| {
        let types = bed.mock.properties().types.len() as u64;
        bed.mock.plant(
            MockFault::always()
                .of(MockCall::Allocate)
                .with(DeviceError::TooManyObjects),
        );
        assert!(bed.place(&shared(KIB)).is_err());
        assert!(
            bed.allocations() <= 2 * types,
            "{} calls for {types} types",
            bed.allocations()
        );
        bed.mock.heal();
    });
}

#[test]
fn h105_a_slot_is_not_handed_out_twice_and_its_old_names_are_refused() {
    on_every(&MemoryOptions::default(), |bed| {
        for request in [
            shared(KIB),
            AllocationRequest {
                lifetime: Lifetime::Transient,
                ..shared(KIB)
            },
            AllocationRequest {
                lifetime: Lifetime::Persistent,
                ..shared(KIB)
            },
            AllocationRequest {
                dedicated: DedicatedPolicy::Required,
                ..AllocationRequest::new(KIB, 1)
            },
        ] {
            let neighbour = bed.place(&request).unwrap();
            let region = bed.place(&request).unwrap();
            let at = region.at;
            for wrong in [
                RegionPlace {
                    slot: at.slot + 1000,
                    ..at
                },
                RegionPlace {
                    node: at.node + 1000,
                    ..at
                },
                RegionPlace {
                    block: BlockRef::new(at.kind(), at.pool(), at.block() + 7),
                    ..at
                },
                RegionPlace {
                    block: BlockRef::new(at.kind(), 511, at.block()),
                    ..at
                },
            ] {
                // Memory of its own has no nodes.
                if at.kind() == PlaceKind::Dedicated && wrong.node != at.node {
                    continue;
                }
                assert_eq!(
                    bed.pools.free(bed.device_and_host(), wrong),
                    Err(crate::error::GpuMisuse::Stale),
                    "{wrong:?}"
                );
            }
            bed.free(&region);
            assert_eq!(
                bed.pools.free(bed.device_and_host(), region.at),
                Err(crate::error::GpuMisuse::Stale)
            );
            let again = bed.place(&request).unwrap();
            assert_ne!(again.at, region.at, "its slot is another one");
            assert_eq!(
                bed.pools.free(bed.device_and_host(), region.at),
                Err(crate::error::GpuMisuse::Stale)
            );
            bed.check();
            bed.free(&again);
            bed.free(&neighbour);
        }
    });
}

#[test]
fn what_budgets_hold_back_is_a_limit() {
    on_every(
        &MemoryOptions {
            within_budget: true,
            ..MemoryOptions::default()
        },
        |bed| {
            if !bed.mock.properties().features.memory_budget {
                println!("no VK_EXT_memory_budget");
                return;
            }
            for heap in 0..bed.mock.properties().heaps.len() {
                bed.mock.set_budget(heap, Some(64 * KIB));
            }
            assert!(bed.pools.set_frame(bed.device_and_host(), 7));
            let small = bed.place(&shared(KIB)).unwrap();
            assert!(
                bed.native().1 <= 64 * KIB,
                "a block no larger than what is left"
            );
            let refused = bed.place(&shared(MIB)).map(|placed| placed.at);
            assert!(
                matches!(refused, Err(GpuError::Limit(Limit::Heap { .. }))),
                "{refused:?}"
            );
            bed.free(&small);
        },
    );
}
