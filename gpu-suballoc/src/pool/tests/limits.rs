//! Limits hold at every moment.

use std::thread;
use std::vec::Vec;

use super::*;
use crate::error::{GpuMisuse, Limit};
use crate::id::PlaceKind;

#[test]
fn h81_what_no_block_can_hold_is_refused_up_front() {
    let options = MemoryOptions {
        max_block: Some(MIB),
        first_block: Some(256 * KIB),
        ..MemoryOptions::default()
    };
    on_every(&options, |bed| {
        for size in [MIB + 1, GIB, 1 << 40, u64::MAX - 15, u64::MAX] {
            for request in [shared(size), AllocationRequest::new(size, 1), visible(size)] {
                let refused = bed.place(&request).map(|placed| placed.at);
                assert_eq!(
                    refused,
                    Err(GpuError::TooLarge {
                        bytes: size,
                        limit: MIB
                    }),
                    "{size}"
                );
            }
        }
        assert_eq!(
            (bed.allocations(), bed.native()),
            (0, (0, 0)),
            "nobody was asked"
        );
        // The largest that there can be.
        let whole = bed.place(&shared(MIB)).unwrap();
        assert_eq!(bed.native(), (1, MIB));
        bed.free(&whole);
    });
}

#[test]
fn bad_requests_are_told_apart_and_change_nothing() {
    on_every(&MemoryOptions::default(), |bed| {
        for (request, error) in [
            (AllocationRequest::new(0, 1), GpuMisuse::ZeroSize),
            (AllocationRequest::new(KIB, 0), GpuMisuse::BadAlignment),
            (AllocationRequest::new(KIB, 3), GpuMisuse::BadAlignment),
            (
                AllocationRequest::new(KIB, 1 << 63),
                GpuMisuse::AlignmentTooLarge,
            ),
            (
                AllocationRequest {
                    priority: Some(1.5),
                    ..AllocationRequest::new(KIB, 1)
                },
                GpuMisuse::BadPriority,
            ),
            (
                AllocationRequest {
                    priority: Some(f32::NAN),
                    ..AllocationRequest::new(KIB, 1)
                },
                GpuMisuse::BadPriority,
            ),
        ] {
            assert_eq!(
                bed.place(&request).map(|placed| placed.at),
                Err(error.into())
            );
            // The same when the question was asked before.
            let known = bed.place(&AllocationRequest::new(KIB, 1)).unwrap();
            assert_eq!(
                bed.place(&request).map(|placed| placed.at),
                Err(error.into())
            );
            bed.free(&known);
            bed.pools.trim(bed.device_and_host(), u64::MAX);
        }
        let largest = bed
            .mock
            .properties()
            .heaps
            .iter()
            .map(|heap| heap.size)
            .max()
            .unwrap();
        for bytes in [largest + 1, u64::MAX - 15] {
            let refused = bed
                .place(&AllocationRequest::new(bytes, 1))
                .map(|placed| placed.at);
            assert!(
                matches!(refused, Err(GpuError::TooLarge { bytes: told, .. }) if told == bytes),
                "{refused:?}"
            );
        }
        let none = bed
            .place(&AllocationRequest {
                memory_type_bits: 0,
                ..AllocationRequest::new(KIB, 1)
            })
            .map(|placed| placed.at);
        assert!(matches!(none, Err(GpuError::MemoryType(_))));
    });
}

#[test]
fn max_memory_allocation_size_is_kept() {
    let change = |mut config: MockConfig| {
        config.limits.max_memory_allocation_size = 3 * MIB;
        config
    };
    on_every_changed(&MemoryOptions::default(), change, |bed| {
        let refused = bed
            .place(&AllocationRequest::new(3 * MIB + 1, 1))
            .map(|placed| placed.at);
        assert_eq!(
            refused,
            Err(GpuError::TooLarge {
                bytes: 3 * MIB + 1,
                limit: 3 * MIB
            })
        );
        assert_eq!(bed.allocations(), 0);
        let regions: Vec<_> = (0..8)
            .map(|_| bed.place(&AllocationRequest::new(3 * MIB, 1)).unwrap())
            .collect();
        let more: Vec<_> = (0..64)
            .map(|_| bed.place(&shared(100 * KIB)).unwrap())
            .collect();
        regions
            .iter()
            .chain(&more)
            .for_each(|region| bed.free(region));
    });
}

#[test]
fn h82_the_bytes_of_all_blocks_never_exceed_the_limit() {
    let options = MemoryOptions {
        max_bytes: 20 * MIB + 777,
        ..MemoryOptions::default()
    };
    on_every(&options, |bed| {
        let mut regions = Vec::new();
        let refused = loop {
            match bed.place(&shared(MIB)) {
                Ok(region) => regions.push(region),
                Err(error) => break error,
            }
            assert!(bed.native().1 <= 20 * MIB + 777);
        };
        assert!(
            matches!(refused, GpuError::Limit(Limit::Bytes { .. })),
            "{refused:?}"
        );
        assert!(
            regions.len() >= 20,
            "all of it can be used: {}",
            regions.len()
        );
        regions.iter().for_each(|region| bed.free(region));
    });
}

#[test]
fn h82_limits_hold_while_threads_make_blocks() {
    let options = MemoryOptions {
        max_bytes: 9 * MIB,
        max_allocations: 7,
        keep_empty: Some(0),
        ..MemoryOptions::default()
    };
    on_every(&options, |bed| {
        thread::scope(|scope| {
            for seed in 0..3u64 {
                scope.spawn(move || {
                    let mut live = Vec::new();
                    for turn in 0..300u64 {
                        let size = 1 + (seed * 7919 + turn * 104_729) % (2 * MIB);
                        let dedicated = if turn % 3 == 0 {
                            DedicatedPolicy::Required
                        } else {
                            DedicatedPolicy::Allowed
                        };
                        match bed.place(&AllocationRequest {
                            dedicated,
                            ..AllocationRequest::new(size, 1)
                        }) {
                            Ok(region) => live.push(region),
                            Err(GpuError::Limit(_)) => {
                                live.drain(..).for_each(|region| bed.free(&region));
                            }
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                    live.iter().for_each(|region| bed.free(region));
                });
            }
        });
        let peak: u64 = (0..16).map(|heap| bed.mock.heap(heap).1).max().unwrap();
        assert!(peak > 4 * MIB && peak <= 9 * MIB, "{peak}");
    });
}

#[test]
fn h83_the_number_of_memory_objects_is_limited_by_device_and_user() {
    let change = |mut config: MockConfig| {
        config.limits.max_memory_allocation_count = 5;
        config
    };
    for (max_allocations, limit) in [(u32::MAX, 5), (3, 3)] {
        on_every_changed(
            &MemoryOptions {
                max_allocations,
                ..MemoryOptions::default()
            },
            change,
            |bed| {
                let alone = AllocationRequest {
                    dedicated: DedicatedPolicy::Required,
                    ..AllocationRequest::new(KIB, 1)
                };
                let regions: Vec<_> = (0..limit).map(|_| bed.place(&alone).unwrap()).collect();
                let calls = bed.allocations();
                let refused = bed.place(&alone).map(|placed| placed.at);
                assert_eq!(refused, Err(GpuError::Limit(Limit::Objects { limit })));
                assert_eq!(
                    bed.allocations(),
                    calls,
                    "the driver is not asked for what it may not give"
                );
                bed.free(&regions[0]);
                // What is free is used, whatever it was before.
                let shared_one = bed.place(&shared(KIB)).unwrap();
                let inside = bed
                    .place(&AllocationRequest {
                        dedicated: DedicatedPolicy::Preferred,
                        ..AllocationRequest::new(KIB, 1)
                    })
                    .unwrap();
                assert_eq!(
                    inside.memory, shared_one.memory,
                    "it would rather be alone, and there is room in a block"
                );
                [shared_one, inside]
                    .iter()
                    .chain(&regions[1..])
                    .for_each(|region| bed.free(region));
            },
        );
    }
}

#[test]
fn a_heap_limit_is_that_heap_s_alone() {
    for profile in MockProfile::ALL {
        println!("profile: {}", profile.name());
        let best = {
            let bed = Bed::new(profile.config(), &MemoryOptions::default());
            let region = bed.place(&shared(KIB)).unwrap();
            heap_of(&bed, &region).0
        };
        let mut heap_limits = [u64::MAX; 16];
        heap_limits[best as usize] = 2 * MIB;
        let bed = Bed::new(
            profile.config(),
            &MemoryOptions {
                heap_limits,
                ..MemoryOptions::default()
            },
        );
        let regions: Vec<_> = (0..2).map(|_| bed.place(&shared(MIB)).unwrap()).collect();
        let over = bed.place(&shared(MIB));
        assert_eq!(bed.mock.heap(best as usize).1, 2 * MIB);
        match &over {
            // Another heap has memory that will do.
            Ok(region) => assert_ne!(heap_of(&bed, region).0, best),
            Err(error) => assert!(
                matches!(error, GpuError::Limit(Limit::Heap { heap, .. }) if *heap == best),
                "{error:?}"
            ),
        }
        assert_eq!(over.is_ok(), bed.mock.properties().heaps.len() > 1);
        regions
            .iter()
            .chain(over.iter())
            .for_each(|region| bed.free(region));
        bed.close();
    }
}

#[test]
fn empty_blocks_elsewhere_make_room_before_anything_is_refused() {
    let options = MemoryOptions {
        max_bytes: 8 * MIB,
        ..MemoryOptions::default()
    };
    on_every(&options, |bed| {
        let types = bed.mock.properties().types.len() as u32;
        let of = |memory_type: u32| AllocationRequest {
            memory_type_bits: 1 << memory_type,
            ..shared(4 * MIB)
        };
        let mut seen = 0;
        for memory_type in 0..types {
            let Ok(region) = bed.place(&of(memory_type)) else {
                continue;
            };
            bed.free(&region);
            seen += 1;
        }
        assert!(seen >= 1);
        assert!(bed.native().1 <= 8 * MIB);
    });
}

#[test]
fn preferences_leave_memory_objects_for_blocks() {
    let change = |mut config: MockConfig| {
        config.limits.max_memory_allocation_count = 8;
        config
    };
    on_every_changed(&MemoryOptions::default(), change, |bed| {
        let wants = AllocationRequest {
            prefers_dedicated: true,
            ..AllocationRequest::new(KIB, 1)
        };
        let request = |n: u32| {
            if n.is_multiple_of(2) {
                wants
            } else {
                AllocationRequest {
                    dedicated: DedicatedPolicy::Preferred,
                    ..AllocationRequest::new(KIB, 1)
                }
            }
        };
        let regions: Vec<_> = (0..100).map(|n| bed.place(&request(n)).unwrap()).collect();
        let alone = regions
            .iter()
            .filter(|region| region.at.kind() == PlaceKind::Dedicated)
            .count();
        assert!(
            alone == 6 && bed.native().0 <= 8,
            "{alone} of {:?}",
            bed.native()
        );
        regions.iter().for_each(|region| bed.free(region));
    });
}
