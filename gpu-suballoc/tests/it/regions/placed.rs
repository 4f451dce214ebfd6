//! Regions at places that a capture or a plan gives.

use super::*;

const BLOCK: u64 = 256 * KIB;

fn pool(scene: &Scene<'_>, algorithm: BlockAlgorithm) -> (PoolId, ResourceRequirements) {
    let memory_type = visible_type(scene.mock);
    let options = PoolOptions { algorithm, ..pool_options(BLOCK, memory_type) };
    let pool = scene.must_create_pool(&options);
    let needs = ResourceRequirements::new(1, 1).memory_types(1 << memory_type);
    (pool, needs)
}

/// The pool's regions, each with its block.
fn captured(scene: &Scene<'_>) -> Vec<(u32, RangeView, String)> {
    let map = scene.must_memory_map();
    map.blocks_with_ranges()
        .filter(|(block, _)| block.is_custom)
        .flat_map(|(block, ranges)| ranges.iter().map(|range| (block.block, *range)))
        .filter(|(_, range)| range.range_use == RangeUse::Region)
        .map(|(block, range)| (block, range, map.name(&range).unwrap_or_default().to_owned()))
        .collect()
}

/// What a capture says of them.
fn extents(captured: &[(u32, RangeView, String)]) -> Vec<(u32, u64, u64, &str)> {
    captured.iter().map(|(block, range, name)| (*block, range.offset, range.size, name.as_str())).collect()
}

#[test]
fn ge7_a_capture_of_a_pool_is_restored_piece_by_piece() {
    for profile in MockProfile::ALL {
        let mut capture = Vec::new();
        on(profile, |scene| {
            let (pool, needs) = pool(&scene, General);
            let mut rng = Rng::new(7);
            let mut below = |end| rng.below(end);
            let mut live = Vec::new();
            for turn in 0..900 {
                if below(3) > 0 || live.is_empty() {
                    let needs = ResourceRequirements { size: 1 + below(9000), alignment: 1 << below(13), ..needs };
                    let name = format!("piece {turn}");
                    let options = any().pool(pool).dedicated(Never).lifetime([Unknown, Persistent][turn % 2]);
                    let options = if turn % 5 == 0 { options.name(&name) } else { options };
                    live.push(scene.must_allocate(&needs, &options));
                } else {
                    let nth = below(live.len() as u64) as usize;
                    scene.free(live.swap_remove(nth));
                }
            }
            capture = captured(&scene);
            assert_eq!(capture.len(), live.len());
            scene.free_each(live);
            scene.must_destroy_pool(pool);
        });
        let blocks = capture.iter().map(|(block, ..)| *block).max().expect("some");
        assert!(blocks > 2, "{blocks}");

        on(profile, |scene| {
            let (pool, needs) = pool(&scene, General);
            let options = any().pool(pool);
            let types = needs.memory_type_bits;
            let bytes = u64::from(blocks + 1) * BLOCK;
            scene.reserve(bytes, types, &options).unwrap();
            let calls = scene.total().blocks;
            let mut live = Vec::new();
            // Every third piece, again and again.
            for (block, range, name) in (0..3).flat_map(|part| capture.iter().skip(part).step_by(3)) {
                let needs = ResourceRequirements { size: range.size, alignment: range.alignment.max(1), ..needs };
                let options = if name.is_empty() { options } else { options.name(name) };
                let place = || scene.allocate_at(*block, range.offset, &needs, &options);
                let region = place().expect("it is free there");
                assert_eq!(region.offset(), range.offset);
                assert_eq!(place(), refusal(PlaceTaken));
                live.push(region);
            }
            assert_eq!(extents(&captured(&scene)), extents(&capture));
            assert_eq!(scene.total().blocks, calls, "no block was made for it");
            // It is a pool as any other from here on.
            scene.free_each(live);
            let needs = ResourceRequirements { size: BLOCK, ..needs };
            let whole = scene.allocate(&needs, &options.dedicated(Never));
            scene.free(whole.expect("each block is whole again"));
            scene.must_destroy_pool(pool);
        });
    }
}

#[test]
fn ge7_a_place_that_is_none_is_refused_and_nothing_changes() {
    on_every(|scene| {
        let (pool, needs) = pool(scene, General);
        let options = any().pool(pool);
        let sized = |size, alignment| ResourceRequirements { size, alignment, ..needs };
        let at = |block, offset, needs: ResourceRequirements| scene.allocate_at(block, offset, &needs, &options).err();
        let refuses = |block, offset, needs, rule: GpuMisuse| {
            assert_eq!(at(block, offset, needs), Some(rule.into()), "{block} {offset}");
        };
        refuses(0, 0, sized(1, 1), NoSuchPlace);
        scene.reserve(BLOCK, needs.memory_type_bits, &options).unwrap();
        let seen = || {
            let total = scene.total();
            (total.blocks, total.empty_bytes, total.regions, total.region_bytes)
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
            refuses(block, offset, sized(size, 1), NoSuchPlace);
        }
        refuses(0, 0, sized(0, 1), ZeroSize);
        refuses(0, 0, sized(1, 3), BadAlignment);
        refuses(0, 100, sized(1, 1), PlaceMisaligned);
        refuses(0, 4096, sized(1, 8192), PlaceMisaligned);
        let no_type = ResourceRequirements { memory_type_bits: 0, ..sized(1, 1) };
        refuses(0, 0, no_type, WrongPool);
        let alone = ResourceRequirements { requires_dedicated: true, ..sized(1, 1) };
        refuses(0, 0, alone, UnnamedResource);
        let with = |options| scene.allocate_at(0, 0, &sized(1, 1), &options).err();
        assert_eq!(with(options.upper_address()), Some(NoUpperEnd.into()));
        assert_eq!(with(options.dedicated(Required)), Some(BadOptions.into()));
        assert_eq!(with(options.pinned()), Some(PoolNotPinned.into()));
        assert_eq!(with(any()), Some(NoSuchPool.into()));
        let unknown = scene.allocate_at(0, 0, &sized(u64::MAX, 1), &options.kind(ResourceKind::Unknown));
        assert_eq!(unknown, refusal(NoSuchPlace), "with whole pages it is not small");
        assert_eq!(seen(), before);
        // On either side of what lies there, and across it.
        let there = scene.allocate_at(0, 16384, &sized(8192, 4096), &options).unwrap();
        for (offset, size) in [(16384, 1), (12288, 4097), (20480, 1), (0, 65536)] {
            refuses(0, offset, sized(size, 1), PlaceTaken);
        }
        let sides = [(12288, 4096), (24576, BLOCK - 24576), (0, 12288)];
        let sides = sides.map(|(offset, size)| {
            let placed = scene.allocate_at(0, offset, &sized(size, 1), &options);
            placed.expect("it is free there")
        });
        assert_eq!(scene.total().region_bytes, BLOCK);
        scene.free_each(sides.into_iter().chain([there]));
        scene.must_destroy_pool(pool);
        assert_eq!(with(options), Some(NoSuchPool.into()));
    });
}

/// Nothing is allocated in a block that is being emptied, nor is its room a reserve; in the one that stays there is room
/// beside the places that moves have.
#[test]
fn ge7_ge16_a_block_that_is_being_emptied_has_no_places_and_no_room() {
    nvidia(|scene| {
        let (pool, needs) = pool(&scene, General);
        let options = any().pool(pool).dedicated(Never);
        let needs = ResourceRequirements { size: 16 * KIB, ..needs };
        let mut left = times(32, || scene.must_allocate(&needs, &options));
        for nth in (0..32).rev().filter(|nth| nth % 8 != 0) {
            scene.free(left.swap_remove(nth));
        }
        let blocks = Vec::from_iter(captured(&scene).iter().map(|(block, ..)| *block));
        assert_eq!(blocks, [0, 0, 1, 1]);
        let moves = all_moves().move_bare_regions();
        let run = scene.must_defragment(moves);
        assert_eq!(run.totals().planned_blocks, 1);
        let offset = 8 * 16 * KIB + 32 * KIB;
        let placed = [0, 1].map(|block| scene.allocate_at(block, offset, &needs, &options));
        let refused = Vec::from_iter(placed.iter().filter_map(|placed| placed.as_ref().err()));
        assert_eq!(refused, [&Defragmenting.into()]);
        left.extend(placed.into_iter().flatten());
        // As much as a block and a half.
        let reserved = scene.reserve(24 * needs.size, needs.memory_type_bits, &options);
        assert_eq!(reserved, Ok(()));
        let made = scene.made();
        left.extend((0..24).map(|_| scene.must_allocate(&needs, &options)));
        assert_eq!(scene.made(), made, "reserved");
        drop(run);
        scene.free_each(left);
    });
}

/// However little the regions before it have left of the pool's reserve of host memory.
#[test]
fn ge7_an_unused_block_has_places_whatever_its_pool_has_in_reserve() {
    nvidia(|scene| {
        // Host memory comes in pieces for 128 regions, so that each of these leaves another reserve.
        for count in 0..130 {
            let (pool, needs) = pool(&scene, General);
            let options = any().pool(pool).dedicated(Never);
            let reserved = scene.reserve(2 * BLOCK, needs.memory_type_bits, &options);
            reserved.unwrap();
            let mut left = Vec::from_iter((0..count).map(|_| scene.must_allocate(&needs, &options)));
            let placed = scene.allocate_at(1, 4096, &needs, &options);
            left.push(placed.unwrap_or_else(|refused| panic!("behind {count}: {refused}")));
            scene.free_each(left);
            scene.must_destroy_pool(pool);
        }
    });
}

#[test]
fn ge7_a_margin_is_kept_behind_a_region_at_a_place() {
    let memory = MemoryOptions { margin: 64, ..MemoryOptions::default() };
    let options = with_memory(memory);
    everywhere(options, |scene| {
        let (pool, needs) = pool(scene, General);
        let options = any().pool(pool);
        scene.reserve(BLOCK, needs.memory_type_bits, &options).unwrap();
        let needs = ResourceRequirements { size: 4096, ..needs };
        let region = scene.allocate_at(0, 8192, &needs, &options).unwrap();
        assert!(region.offset() == 8192 && region.size() >= 4096);
        // The margin is part of the place.
        let behind = scene.allocate_at(0, 12288, &needs, &options);
        assert_eq!(behind, refusal(PlaceTaken));
        let mapping = scene.must_map(&region);
        let behind = mapping.as_ptr().wrapping_add(region.size() as usize);
        // SAFETY: the block is mapped as a whole, and has 64 bytes behind the region that nobody else uses.
        unsafe { behind.write(1) };
        drop(mapping);
        let refused = scene.gpu.free(region).expect_err("it was written over");
        assert_eq!(refused.error, MarginOverwritten.into());
        scene.free(refused.value);
    });
}
