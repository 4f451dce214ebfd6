//! Regions at places that a capture or a plan gives.

use super::*;

const BLOCK: u64 = 256 * KIB;

fn pool(scene: &Scene<'_>, algorithm: BlockAlgorithm) -> (PoolId, ResourceRequirements) {
    let memory_type = visible_type(scene.mock);
    let options = PoolOptions {
        algorithm,
        ..pool_options(BLOCK, memory_type)
    };
    let pool = scene.gpu.create_pool(&options).unwrap();
    let needs = ResourceRequirements::new(1, 1).memory_types(1 << memory_type);
    (pool, needs)
}

/// The pool's regions, each with its block.
fn captured(scene: &Scene<'_>) -> Vec<(u32, RangeView, String)> {
    let map = scene.gpu.memory_map().unwrap();
    map.blocks_with_ranges()
        .filter(|(block, _)| block.is_custom)
        .flat_map(|(block, ranges)| ranges.iter().map(|range| (block.block, *range)))
        .filter(|(_, range)| range.range_use == RangeUse::Region)
        .map(|(block, range)| {
            (
                block,
                range,
                map.name(&range).unwrap_or_default().to_owned(),
            )
        })
        .collect()
}

/// What a capture says of them.
fn extents(captured: &[(u32, RangeView, String)]) -> Vec<(u32, u64, u64, &str)> {
    captured
        .iter()
        .map(|(block, range, name)| (*block, range.offset, range.size, name.as_str()))
        .collect()
}

#[test]
fn ge7_a_capture_of_a_pool_is_restored_piece_by_piece() {
    for profile in MockProfile::ALL {
        let mut capture = Vec::new();
        scene(profile, AllocatorOptions::default(), |scene| {
            let (pool, needs) = pool(&scene, BlockAlgorithm::General);
            let mut random = 7u64;
            let mut below = |end: u64| {
                random = random
                    .wrapping_mul(0x5851_f42d_4c95_7f2d)
                    .wrapping_add(0x1405_7b7e_f767_814f);
                (random >> 33) % end
            };
            let mut live = Vec::new();
            for turn in 0..600 {
                if below(3) > 0 || live.is_empty() {
                    let needs = ResourceRequirements {
                        size: 1 + below(9000),
                        alignment: 1 << below(13),
                        ..needs
                    };
                    let name = format!("piece {turn}");
                    let options = any()
                        .pool(pool)
                        .dedicated(DedicatedPolicy::Never)
                        .lifetime([Lifetime::Unknown, Lifetime::Persistent][turn % 2]);
                    let options = if turn % 5 == 0 {
                        options.name(&name)
                    } else {
                        options
                    };
                    live.push(scene.gpu.allocate(&needs, &options).unwrap());
                } else {
                    let nth = below(live.len() as u64) as usize;
                    scene.free(live.swap_remove(nth));
                }
            }
            capture = captured(&scene);
            assert_eq!(capture.len(), live.len());
            scene.free_each(live);
            scene.gpu.destroy_pool(pool).unwrap();
        });
        let blocks = capture
            .iter()
            .map(|(block, ..)| *block)
            .max()
            .expect("some");
        assert!(blocks > 2, "{blocks}");

        scene(profile, AllocatorOptions::default(), |scene| {
            let (pool, needs) = pool(&scene, BlockAlgorithm::General);
            let options = any().pool(pool);
            let types = needs.memory_type_bits;
            let bytes = u64::from(blocks + 1) * BLOCK;
            scene.gpu.reserve(bytes, types, &options).unwrap();
            let calls = scene.gpu.stats().total.blocks;
            let mut live = Vec::new();
            // Every third piece, again and again.
            for (block, range, name) in (0..3).flat_map(|part| capture.iter().skip(part).step_by(3))
            {
                let needs = ResourceRequirements {
                    size: range.size,
                    alignment: range.alignment.max(1),
                    ..needs
                };
                let options = if name.is_empty() {
                    options
                } else {
                    options.name(name)
                };
                let place = || {
                    scene
                        .gpu
                        .allocate_at(*block, range.offset, &needs, &options)
                };
                let region = place().expect("it is free there");
                assert_eq!(region.offset(), range.offset);
                assert_eq!(place().err(), Some(GpuMisuse::PlaceTaken.into()));
                live.push(region);
            }
            assert_eq!(extents(&captured(&scene)), extents(&capture));
            assert_eq!(
                scene.gpu.stats().total.blocks,
                calls,
                "no block was made for it"
            );
            // It is a pool as any other from here on.
            scene.free_each(live);
            let needs = ResourceRequirements {
                size: BLOCK,
                ..needs
            };
            let whole = scene
                .gpu
                .allocate(&needs, &options.dedicated(DedicatedPolicy::Never));
            scene.free(whole.expect("each block is whole again"));
            scene.gpu.destroy_pool(pool).unwrap();
        });
    }
}

#[test]
fn ge7_a_place_that_is_none_is_refused_and_nothing_changes() {
    on_every(|scene| {
        let (pool, needs) = pool(scene, BlockAlgorithm::General);
        let options = any().pool(pool);
        let sized = |size, alignment| ResourceRequirements {
            size,
            alignment,
            ..needs
        };
        let at = |block, offset, needs: ResourceRequirements| {
            scene.gpu.allocate_at(block, offset, &needs, &options).err()
        };
        let refuses = |block, offset, needs, rule: GpuMisuse| {
            assert_eq!(
                at(block, offset, needs),
                Some(rule.into()),
                "{block} {offset}"
            );
        };
        refuses(0, 0, sized(1, 1), GpuMisuse::NoSuchPlace);
        scene
            .gpu
            .reserve(BLOCK, needs.memory_type_bits, &options)
            .unwrap();
        let seen = || {
            let total = scene.gpu.stats().total;
            (
                total.blocks,
                total.empty_bytes,
                total.regions,
                total.region_bytes,
            )
        };
        let before = seen();
        for (block, offset, size) in [
            (1, 0, 1),
            (u32::MAX, 0, 1),
            (0, BLOCK, 1),
            (0, u64::MAX - 255, 1),
            (0, BLOCK - 4096, 4097),
            (0, 0, u64::MAX),
        ] {
            refuses(block, offset, sized(size, 1), GpuMisuse::NoSuchPlace);
        }
        refuses(0, 0, sized(0, 1), GpuMisuse::ZeroSize);
        refuses(0, 0, sized(1, 3), GpuMisuse::BadAlignment);
        refuses(0, 100, sized(1, 1), GpuMisuse::PlaceMisaligned);
        refuses(0, 4096, sized(1, 8192), GpuMisuse::PlaceMisaligned);
        let no_type = ResourceRequirements {
            memory_type_bits: 0,
            ..sized(1, 1)
        };
        refuses(0, 0, no_type, GpuMisuse::WrongPool);
        let alone = ResourceRequirements {
            requires_dedicated: true,
            ..sized(1, 1)
        };
        refuses(0, 0, alone, GpuMisuse::UnnamedResource);
        let with = |options| scene.gpu.allocate_at(0, 0, &sized(1, 1), &options).err();
        assert_eq!(
            with(options.upper_address()),
            Some(GpuMisuse::NoUpperEnd.into())
        );
        assert_eq!(
            with(options.dedicated(DedicatedPolicy::Required)),
            Some(GpuMisuse::BadOptions.into())
        );
        assert_eq!(
            with(options.pinned()),
            Some(GpuMisuse::PoolNotPinned.into())
        );
        assert_eq!(with(any()), Some(GpuMisuse::NoSuchPool.into()));
        assert_eq!(seen(), before);
        // On either side of what lies there, and across it.
        let there = scene
            .gpu
            .allocate_at(0, 16384, &sized(8192, 4096), &options)
            .unwrap();
        for (offset, size) in [(16384, 1), (12288, 4097), (20480, 1), (0, 65536)] {
            refuses(0, offset, sized(size, 1), GpuMisuse::PlaceTaken);
        }
        let sides = [(12288, 4096), (24576, BLOCK - 24576), (0, 12288)];
        let sides = sides.map(|(offset, size)| {
            let placed = scene.gpu.allocate_at(0, offset, &sized(size, 1), &options);
            placed.expect("it is free there")
        });
        assert_eq!(scene.gpu.stats().total.region_bytes, BLOCK);
        sides
            .into_iter()
            .chain([there])
            .for_each(|region| scene.free(region));
        scene.gpu.destroy_pool(pool).unwrap();
        assert_eq!(with(options), Some(GpuMisuse::NoSuchPool.into()));
    });
}

#[test]
fn ge7_stacks_and_rings_place_their_regions_themselves() {
    for profile in MockProfile::ALL {
        for algorithm in [
            BlockAlgorithm::Stack,
            BlockAlgorithm::DoubleStack,
            BlockAlgorithm::Ring,
        ] {
            scene(profile, AllocatorOptions::default(), |scene| {
                let (pool, needs) = pool(&scene, algorithm);
                let options = any().pool(pool);
                let first = scene.gpu.allocate(&needs, &options).unwrap();
                let placed = scene.gpu.allocate_at(0, 4096, &needs, &options);
                assert_eq!(placed.err(), Some(GpuMisuse::PlacesItself.into()));
                scene.free(first);
            });
        }
    }
}

/// Nothing is allocated in a block that is being emptied; in the one that stays there is room beside the places that moves have.
#[test]
fn ge7_a_block_that_is_being_emptied_has_no_places() {
    nvidia(|scene| {
        let (pool, needs) = pool(&scene, BlockAlgorithm::General);
        let options = any().pool(pool).dedicated(DedicatedPolicy::Never);
        let needs = ResourceRequirements {
            size: 16 * KIB,
            ..needs
        };
        let mut left: Vec<_> = (0..32)
            .map(|_| scene.gpu.allocate(&needs, &options).unwrap())
            .collect();
        for nth in (0..32).rev().filter(|nth| nth % 8 != 0) {
            scene.free(left.swap_remove(nth));
        }
        let blocks: Vec<_> = captured(&scene).iter().map(|(block, ..)| *block).collect();
        assert_eq!(blocks, [0, 0, 1, 1]);
        let moves = DefragmentationOptions::new().move_bare_regions();
        let run = scene.gpu.defragment(moves).expect("nobody is at it");
        assert_eq!(run.totals().planned_blocks, 1);
        let offset = 8 * 16 * KIB + 32 * KIB;
        let placed = [0, 1].map(|block| scene.gpu.allocate_at(block, offset, &needs, &options));
        let refused: Vec<_> = placed
            .iter()
            .filter_map(|placed| placed.as_ref().err())
            .collect();
        assert_eq!(refused, [&GpuMisuse::Defragmenting.into()]);
        drop(run);
        left.extend(placed.into_iter().flatten());
        scene.free_each(left);
    });
}

/// However little the regions before it have left of the pool's reserve of host memory.
#[test]
fn ge7_an_unused_block_has_places_whatever_its_pool_has_in_reserve() {
    nvidia(|scene| {
        // Host memory comes in pieces for 128 regions, so that each of these leaves another reserve.
        for count in 0..130 {
            let (pool, needs) = pool(&scene, BlockAlgorithm::General);
            let options = any().pool(pool).dedicated(DedicatedPolicy::Never);
            let reserved = scene
                .gpu
                .reserve(2 * BLOCK, needs.memory_type_bits, &options);
            reserved.unwrap();
            let mut left: Vec<_> = (0..count)
                .map(|_| scene.gpu.allocate(&needs, &options).unwrap())
                .collect();
            let placed = scene.gpu.allocate_at(1, 4096, &needs, &options);
            left.push(placed.unwrap_or_else(|refused| panic!("behind {count}: {refused}")));
            scene.free_each(left);
            scene.gpu.destroy_pool(pool).unwrap();
        }
    });
}

#[test]
fn ge7_a_margin_is_kept_behind_a_region_at_a_place() {
    let memory = MemoryOptions {
        margin: 64,
        ..MemoryOptions::default()
    };
    let options = with_memory(memory);
    everywhere(options, |scene| {
        let (pool, needs) = pool(scene, BlockAlgorithm::General);
        let options = any().pool(pool);
        scene
            .gpu
            .reserve(BLOCK, needs.memory_type_bits, &options)
            .unwrap();
        let needs = ResourceRequirements {
            size: 4096,
            ..needs
        };
        let region = scene.gpu.allocate_at(0, 8192, &needs, &options).unwrap();
        assert!(region.offset() == 8192 && region.size() >= 4096);
        // The margin is part of the place.
        let behind = scene.gpu.allocate_at(0, 12288, &needs, &options);
        assert_eq!(behind.err(), Some(GpuMisuse::PlaceTaken.into()));
        let mapping = scene.gpu.map(&region).unwrap();
        let behind = mapping.as_ptr().wrapping_add(region.size() as usize);
        // SAFETY: the block is mapped as a whole, and has 64 bytes behind the region that nobody else uses.
        unsafe { behind.write(1) };
        drop(mapping);
        let refused = scene.gpu.free(region).expect_err("it was written over");
        assert_eq!(refused.error, GpuMisuse::MarginOverwritten.into());
        scene.free(refused.value);
    });
}
