//! Room that is made ahead is room that the next regions get.

use super::*;

const PIECE: u64 = 64 * KIB;

/// Blocks of 1 MiB: sixteen pieces.
fn small(body: impl FnOnce(Scene<'_>)) {
    scene(Nvidia, with_memory(blocks_of(MIB)), body);
}

/// A linear pool has one block: what is free in it is between its ends.
#[test]
fn ge16_what_is_free_in_a_linear_pool_is_known() {
    for algorithm in [Stack, DoubleStack, Ring] {
        small(|scene| {
            let options = PoolOptions { block_size: Some(MIB), algorithm, ..PoolOptions::new(0) };
            let pool = scene.must_create_pool(&options);
            let within = shared().pool(pool);
            let reserve = |bytes| scene.reserve(bytes, u32::MAX, &within);
            let piece = || {
                let needs = ResourceRequirements::new(PIECE, 256);
                scene.must_allocate(&needs, &within)
            };
            let one_block = Err(GpuError::Limit(Limit::Blocks { limit: 1 }));
            assert_eq!(reserve(MIB), Ok(()));
            let mut live = vec![piece(), piece(), piece()];
            assert_eq!(reserve(MIB - 3 * PIECE), Ok(()));
            assert_eq!(reserve(MIB - 3 * PIECE + 1), one_block);
            if algorithm == Ring {
                // The oldest goes: room at both ends, then behind the newest alone.
                scene.free(live.remove(0));
                assert_eq!(reserve(MIB - 2 * PIECE), Ok(()));
                assert_eq!(reserve(MIB - 2 * PIECE + 1), one_block);
                live.extend((0..14).map(|_| piece()));
                assert_eq!(reserve(1), one_block, "full");
                scene.free(live.remove(0));
                assert_eq!(reserve(PIECE), Ok(()));
                assert_eq!(reserve(PIECE + 1), one_block);
            } else {
                live.reverse();
            }
            scene.free_each(live);
            assert_eq!(reserve(MIB), Ok(()));
            scene.must_destroy_pool(pool);
        });
    }
}

#[test]
fn df9_room_for_pinned_regions_is_made_in_their_pool() {
    small(|scene| {
        let needs = ResourceRequirements::new(PIECE, 256);
        let pinned = shared().pinned();
        assert_eq!(scene.reserve(MIB, u32::MAX, &pinned), Ok(()));
        let calls = scene.made();
        let all = times(16, || scene.must_allocate(&needs, &pinned));
        assert_eq!(scene.made(), calls);
        scene.free_each(all);
    });
}

/// A free that empties no block, and one that does, leave what was reserved.
#[test]
fn ge16_what_is_reserved_outlives_frees_and_goes_with_a_trim() {
    for custom in [false, true] {
        small(|scene| {
            let pool = custom.then(|| scene.must_create_pool(&PoolOptions::new(0)));
            let options = pool.map_or(shared(), |pool| shared().pool(pool));
            let needs = ResourceRequirements::new(PIECE, 256);
            let piece = || scene.must_allocate(&needs, &options);
            let live = [piece(), piece()];
            assert_eq!(scene.reserve(8 * MIB, u32::MAX, &options), Ok(()));
            scene.free_each(live);
            let calls = scene.made();
            let all = times(128, &piece);
            assert_eq!(scene.made(), calls, "it is there");
            assert!(scene.stats().longest_wait > Duration::ZERO);
            scene.free_each(all);
            if let Some(pool) = pool {
                let at = |block| scene.allocate_at(block, 0, &needs, &options);
                scene.free(at(0).expect("nobody trimmed"));
                scene.free(at(5).expect("nobody trimmed"));
                assert!(scene.trim(u64::MAX) >= 8 * MIB);
                scene.free(piece());
                scene.must_destroy_pool(pool);
            }
            // From here on the pool keeps no more than without a reserve.
            scene.trim(u64::MAX);
            let all = times(128, || scene.must_allocate(&needs, &shared()));
            scene.free_each(all);
            assert!(scene.total().empty_bytes <= MIB);
        });
    }
}

/// What the pool's own limits, or the number of objects, do not allow together is refused before a block is created.
#[test]
fn h83_a_reserve_beyond_a_limit_of_its_pool_creates_nothing() {
    let base = PoolOptions::new(0);
    let bytes = PoolOptions { max_bytes: 3 * MIB, ..base };
    let blocks = PoolOptions { max_blocks: 3, ..base };
    let all = u64::MAX;
    for (pool, objects, max_bytes, error) in [
        (bytes, 99, all, Limit::Bytes { short_by: MIB }),
        (blocks, 99, all, Limit::Blocks { limit: 3 }),
        (base, 3, all, Limit::Objects { limit: 3 }),
        (base, 99, 3 * MIB, Limit::Bytes { short_by: MIB }),
    ] {
        let memory = MemoryOptions { max_allocations: objects, max_bytes, ..blocks_of(MIB) };
        scene(Nvidia, with_memory(memory), |scene| {
            if pool.max_blocks > 3 {
                let four = PoolOptions { min_blocks: 4, ..pool };
                assert_eq!(scene.create_pool(&four), refusal(error));
            }
            let pool = scene.must_create_pool(&pool);
            let within = shared().pool(pool);
            let reserve = |bytes| scene.reserve(bytes, u32::MAX, &within);
            assert_eq!(reserve(4 * MIB), refusal(error));
            assert_eq!(scene.made(), 0);
            assert_eq!(reserve(3 * MIB), Ok(()), "to the byte");
            scene.must_destroy_pool(pool);
            // In its place, with blocks of its own size.
            let other = scene.create_pool(&PoolOptions { block_size: Some(2 * MIB), min_blocks: 1, ..base });
            assert_eq!(scene.total().block_bytes, 2 * MIB);
            scene.must_destroy_pool(other.unwrap());
        });
    }
}

/// A block that is made ahead is there for what needs a whole block, while other blocks have room, also those that
/// drain.
#[test]
fn ge16_blocks_that_are_made_ahead_are_filled_last() {
    small(|scene| {
        let pool = scene.pool_of(MIB, 0);
        let within = shared().pool(pool);
        let piece = || scene.take(PIECE, &within);
        let all = times(128, &piece);
        let mut live = Vec::new();
        for (number, region) in all.into_iter().enumerate() {
            if number % 4 == 0 {
                live.push(region);
            } else {
                scene.free(region);
            }
        }
        // Turnovers that need one piece close the blocks that they do not need, none of which is empty.
        for _ in 0..64 {
            scene.free(piece());
        }
        let free = scene.pool_stats(pool).unwrap().free_bytes();
        assert_eq!(free, 96 * PIECE);
        let reserved = scene.reserve(free + 1, u32::MAX, &within);
        assert_eq!(reserved, Ok(()));
        live.extend((0..96).map(|_| piece()));
        let calls = scene.mock.calls(Allocate);
        live.push(scene.take(MIB, &within));
        assert_eq!(scene.mock.calls(Allocate), calls);
        scene.free_each(live);
        scene.must_destroy_pool(pool);
    });
}
