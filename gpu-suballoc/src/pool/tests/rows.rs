//! What the block and region allocator before this one promised, and what it should have.

use std::vec::Vec;

use super::*;
use crate::device::mock::{MockCall, MockFault};
use crate::id::PlaceKind;
use crate::property_flags::PropertyFlags as P;
use crate::request::ResourceKind;

/// Blocks of one size.
fn blocks_of(size: u64) -> MemoryOptions {
    MemoryOptions {
        first_block: Some(size),
        max_block: Some(size),
        ..MemoryOptions::default()
    }
}

#[test]
fn h77_size_alignment_dedication_and_properties_are_met() {
    on_every(&MemoryOptions::default(), |bed| {
        for (size, alignment) in [
            (1, 1),
            (1000, 64),
            (4097, 4096),
            (65_537, 65_536),
            (3 * MIB + 1, 1 << 20),
        ] {
            for dedicated in [DedicatedPolicy::Never, DedicatedPolicy::Required] {
                for preference in [
                    MemoryPreference::default(),
                    MemoryPreference::requiring(P::HOST_VISIBLE),
                    MemoryPreference::default().preferring(P::DEVICE_LOCAL),
                ] {
                    let region = bed
                        .place(&AllocationRequest {
                            dedicated,
                            preference,
                            ..AllocationRequest::new(size, alignment)
                        })
                        .unwrap();
                    assert!(region.size >= size && region.offset % alignment == 0);
                    assert_eq!(
                        region.at.kind() == PlaceKind::Dedicated,
                        dedicated == DedicatedPolicy::Required
                    );
                    assert!(region.properties.contains(preference.parts()[0]));
                    let memory = bed.mock.memory(region.memory).unwrap().request;
                    assert!(
                        region.offset + region.size <= memory.size,
                        "within its memory object"
                    );
                    bed.free(&region);
                }
            }
        }
    });
}

#[test]
fn h86_a_refused_region_is_an_error_and_its_room_stays_free() {
    on_every(&blocks_of(MIB), |bed| {
        let first = bed.place(&shared(KIB)).unwrap();
        bed.mock.plant(MockFault::always().of(MockCall::Allocate));
        assert!(bed.place(&shared(MIB)).is_err());
        bed.mock.clear_faults();
        assert_eq!(bed.pools.live_regions(), 1);
        let rest = bed.place(&shared(MIB - KIB)).unwrap();
        assert_eq!(rest.memory, first.memory, "all that is left of the block");
        bed.free(&first);
        bed.free(&rest);
    });
}

#[test]
fn h94_neighbours_are_one_hole_as_soon_as_they_are_free() {
    on_every(&blocks_of(MIB), |bed| {
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3], [1, 3, 0, 2]] {
            let pieces = [(); 4].map(|()| bed.place(&shared(256 * KIB)).unwrap());
            order.iter().for_each(|piece| bed.free(&pieces[*piece]));
            let whole = bed.place(&shared(MIB)).unwrap();
            assert_eq!((whole.memory, bed.allocations()), (pieces[0].memory, 1));
            bed.free(&whole);
        }
        assert_eq!(
            bed.pools.trim(bed.device_and_host(), u64::MAX),
            MIB,
            "and the block can go"
        );
    });
}

#[test]
fn h106_the_scenarios_of_the_allocator_before_this_one() {
    // Reserve, reclaim, reuse, half and half and a third that has no room, the whole block.
    let limited = MemoryOptions {
        max_allocations: 1,
        ..blocks_of(64 * KIB)
    };
    on_every(&limited, |bed| {
        let one = bed.place(&shared(64 * KIB)).unwrap();
        bed.free(&one);
        let halves = [(); 2].map(|()| bed.place(&shared(32 * KIB)).unwrap());
        assert_eq!(
            (halves[0].memory, halves[1].memory),
            (one.memory, one.memory)
        );
        assert!(bed.place(&shared(32 * KIB)).is_err());
        halves.iter().for_each(|half| bed.free(half));
        let whole = bed.place(&shared(64 * KIB)).unwrap();
        assert_eq!(whole.memory, one.memory);
        bed.free(&whole);
        assert_eq!(bed.pools.trim(bed.device_and_host(), u64::MAX), 64 * KIB);
    });
    // A thousand of 1 to 31 integers, some given back at once, twice over.
    on_every(&blocks_of(64 * KIB), |bed| {
        for _ in 0..2 {
            let mut live = Vec::new();
            for turn in 0..1000u64 {
                let region = bed
                    .place(&AllocationRequest {
                        alignment: 32,
                        ..shared(4 * (1 + turn * 7 % 31))
                    })
                    .unwrap();
                if turn % 3 == 0 {
                    bed.free(&region)
                } else {
                    live.push(region)
                }
            }
            bed.check();
            live.iter().for_each(|region| bed.free(region));
            bed.pools.trim(bed.device_and_host(), u64::MAX);
            assert_eq!(bed.native(), (0, 0));
        }
    });
}

#[test]
fn h112_no_region_is_smaller_than_what_was_asked_for() {
    on_every(&MemoryOptions::default(), |bed| {
        for size in (0..22).flat_map(|log2| [(1u64 << log2).max(2) - 1, 1 << log2, (1 << log2) + 1])
        {
            for kind in [
                ResourceKind::Linear,
                ResourceKind::Optimal,
                ResourceKind::Unknown,
            ] {
                let region = bed
                    .place(&AllocationRequest {
                        kind,
                        ..AllocationRequest::new(size, 1)
                    })
                    .unwrap();
                assert!(region.size >= size);
                assert_eq!(
                    bed.pools.find(region.at).map(|found| found.size),
                    Ok(region.size)
                );
                bed.free(&region);
            }
        }
    });
}

#[test]
fn h114_counters_are_exact_and_never_below_zero() {
    on_every(&MemoryOptions::default(), |bed| {
        let alone = bed
            .place(&AllocationRequest {
                dedicated: DedicatedPolicy::Required,
                ..AllocationRequest::new(5000, 1)
            })
            .unwrap();
        let regions: Vec<_> = (1..100u64)
            .map(|n| bed.place(&shared(n * 100)).unwrap())
            .collect();
        let pool = bed.pools.totals(alone.at.pool()).unwrap();
        let bytes: u64 = regions.iter().map(|region| region.size).sum();
        assert_eq!(
            (pool.regions, pool.region_bytes, pool.dedicated),
            (100, bytes + 5000, 1)
        );
        assert_eq!((u64::from(pool.objects), pool.object_bytes), bed.native());
        let heap = bed.pools.heap(pool.heap);
        assert_eq!(
            (heap.size, heap.own_bytes),
            (heap_of(bed, &alone).1, bed.native().1)
        );
        assert!(heap.usage >= heap.own_bytes && heap.budget <= heap.size);
        regions
            .iter()
            .chain([&alone])
            .for_each(|region| bed.free(region));
        assert!(bed.pools.free(bed.device_and_host(), alone.at).is_err());
        let pool = bed.pools.totals(alone.at.pool()).unwrap();
        assert_eq!((pool.regions, pool.region_bytes, pool.dedicated), (0, 0, 0));
        bed.pools.trim(bed.device_and_host(), u64::MAX);
        assert_eq!(bed.pools.heap(pool.heap).own_bytes, 0);
    });
}
