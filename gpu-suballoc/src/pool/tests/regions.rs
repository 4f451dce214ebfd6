//! Placing into what there is.

use std::vec::Vec;

use super::*;
use crate::error::GpuMisuse;
use crate::request::Lifetime;

#[test]
fn h80_every_block_is_tried_before_there_is_another() {
    let options = MemoryOptions {
        first_block: Some(MIB),
        max_block: Some(MIB),
        keep_empty: Some(u64::MAX),
        ..MemoryOptions::default()
    };
    on_every(&options, |bed| {
        // A block that is free, and behind it one with room in pieces only.
        let whole = bed.place(&shared(MIB)).unwrap();
        let pieces: Vec<_> = (0..4)
            .map(|_| bed.place(&shared(256 * KIB)).unwrap())
            .collect();
        bed.free(&whole);
        bed.free(&pieces[0]);
        bed.free(&pieces[2]);
        assert_eq!(bed.native(), (2, 2 * MIB));
        let half = bed.place(&shared(512 * KIB)).unwrap();
        assert_eq!(
            (half.memory, bed.native().0),
            (whole.memory, 2),
            "where it fits"
        );
        // And what fits a piece goes there: the fullest block that has one.
        let quarter = bed.place(&shared(256 * KIB)).unwrap();
        assert_eq!(quarter.memory, pieces[0].memory);
        [half, quarter, pieces[1], pieces[3]]
            .iter()
            .for_each(|region| bed.free(region));
    });
}

/// Blocks of 1 MiB, 16 regions of 64 KiB in each.
const SMALL_BLOCKS: MemoryOptions = MemoryOptions {
    first_block: Some(MIB),
    max_block: Some(MIB),
    ..MemoryOptions::DEFAULT
};

#[test]
fn h79_a_region_lies_in_the_best_fit_of_all_blocks() {
    on_every(&SMALL_BLOCKS, |bed| {
        let regions: Vec<_> = (0..64)
            .map(|_| bed.place(&shared(64 * KIB)).unwrap())
            .collect();
        assert_eq!(bed.native().0, 4);
        // One region less in the second block, ten less in the third: what comes goes into the second.
        let of = |block: usize| regions.iter().skip(16 * block).take(16);
        of(2).take(10).for_each(|region| bed.free(region));
        of(1).take(1).for_each(|region| bed.free(region));
        let next = bed.place(&shared(64 * KIB)).unwrap();
        assert_eq!(next.memory, regions[16].memory);
        let after = bed.place(&shared(64 * KIB)).unwrap();
        assert_eq!(after.memory, regions[32].memory);
        bed.check();
        let gone = |index: usize| (32..42).contains(&index) || index == 16;
        regions
            .iter()
            .enumerate()
            .filter(|(index, _)| !gone(*index))
            .for_each(|(_, region)| bed.free(region));
        bed.free(&next);
        bed.free(&after);
    });
}

#[test]
fn h79_a_block_that_a_turnover_did_not_need_drains_and_is_used_before_another_is_made() {
    on_every(&SMALL_BLOCKS, |bed| {
        let mut regions: Vec<_> = (0..64)
            .map(|_| bed.place(&shared(64 * KIB)).unwrap())
            .collect();
        let blocks: Vec<_> = (0..4).map(|block| regions[16 * block].memory).collect();
        // One stays in the first block, half in each of the others.
        let mut left = Vec::new();
        for (index, region) in regions.drain(..).enumerate() {
            if index == 5 || index >= 16 && index % 2 == 0 {
                left.push(region);
            } else {
                bed.free(&region);
            }
        }
        // Two turnovers of regions that come and go: the first one still knows the moment when all was full.
        for _ in 0..64 {
            let passing = bed.place(&shared(64 * KIB)).unwrap();
            bed.free(&passing);
        }
        bed.check();
        // 24 places are free in the others, and then those of the first block, before a fifth is made.
        for index in 0..24 {
            let next = bed.place(&shared(64 * KIB)).unwrap();
            assert_ne!(next.memory, blocks[0], "{index}: it is to drain");
            left.push(next);
        }
        let next = bed.place(&shared(64 * KIB)).unwrap();
        assert_eq!((next.memory, bed.native().0), (blocks[0], 4));
        left.push(next);
        bed.check();
        left.iter().for_each(|region| bed.free(region));
    });
}

#[test]
fn small_and_short_lived_regions_have_structures_of_their_own() {
    on_every(&MemoryOptions::default(), |bed| {
        let soon: Vec<_> = (0..300)
            .map(|n| {
                bed.place(&AllocationRequest {
                    lifetime: Lifetime::Transient,
                    ..shared(100 + n)
                })
                .unwrap()
            })
            .collect();
        let long: Vec<_> = (0..300)
            .map(|n| {
                bed.place(&AllocationRequest {
                    lifetime: Lifetime::Persistent,
                    ..shared(1 + n * 13)
                })
                .unwrap()
            })
            .collect();
        assert_eq!(bed.pools.live_regions(), 600);
        bed.check();
        // Nothing overlaps, whatever it lies in.
        let mut spans: Vec<_> = soon
            .iter()
            .chain(&long)
            .map(|region| (region.memory, region.offset, region.size))
            .collect();
        spans.sort_by_key(|(memory, offset, _)| (memory.as_raw(), *offset));
        assert!(
            spans
                .windows(2)
                .all(|pair| pair[0].0 != pair[1].0 || pair[0].1 + pair[0].2 <= pair[1].1)
        );
        for region in soon.iter().chain(&long) {
            let found = bed.pools.find(region.at).unwrap();
            assert_eq!(
                (found.memory, found.offset, found.size),
                (region.memory, region.offset, region.size)
            );
            bed.free(region);
            assert_eq!(
                bed.pools.free(bed.device_and_host(), region.at),
                Err(GpuMisuse::Stale),
                "given back twice"
            );
        }
        bed.check();
    });
}

#[test]
fn h93_counts_are_exact_after_any_order_of_things() {
    on_every(&MemoryOptions::default(), |bed| {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let lifetimes = [Lifetime::Unknown, Lifetime::Transient, Lifetime::Persistent];
        let mut live: Vec<Suballocation> = Vec::new();
        for turn in 0..3000 {
            if live.len() > 200 || (random(3) == 0 && !live.is_empty()) {
                let region = live.swap_remove(random(live.len() as u64) as usize);
                bed.free(&region);
            } else {
                let log2 = 4 + random(14);
                let size = 1 + random(1 << log2);
                let alignment = 1 << random(13);
                let request = AllocationRequest {
                    lifetime: lifetimes[random(3) as usize],
                    ..AllocationRequest::new(size, alignment)
                };
                let region = bed.place(&request).unwrap();
                assert_eq!(region.offset % alignment, 0);
                assert!(
                    region.size >= size && region.size < size + alignment.max(256),
                    "{size} at {alignment}: {}",
                    region.size
                );
                live.push(region);
            }
            if turn % 250 == 0 {
                bed.check();
                assert_eq!(bed.pools.live_regions(), live.len() as u64);
            }
        }
        live.iter().for_each(|region| bed.free(region));
    });
}

#[test]
fn any_alignment_a_memory_object_has_is_met_at_its_beginning() {
    on_every(&MemoryOptions::default(), |bed| {
        for log2 in 0..23 {
            let region = bed
                .place(&AllocationRequest {
                    alignment: 1 << log2,
                    ..shared(86)
                })
                .unwrap();
            assert_eq!(region.offset % (1 << log2), 0);
            bed.free(&region);
        }
    });
}

#[test]
fn a_freed_region_is_a_hole_before_anything_is_refused() {
    let options = MemoryOptions {
        max_bytes: MIB,
        ..MemoryOptions::default()
    };
    on_every(&options, |bed| {
        for lifetime in [Lifetime::Transient, Lifetime::Persistent] {
            let small = bed
                .place(&AllocationRequest {
                    lifetime,
                    ..shared(KIB)
                })
                .unwrap();
            bed.free(&small);
            // The block is all there may be.
            let whole = bed.place(&shared(MIB)).unwrap();
            assert_eq!(bed.native(), (1, MIB));
            bed.free(&whole);
        }
    });
}
