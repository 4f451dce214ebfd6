//! Which empty blocks stay, and what freeing many of them costs.

use super::*;

/// The first block of the default options, of the memory that a region of type 0 lies in.
fn first_block(s: &Scene<'_>) -> u64 {
    let properties = s.mock.properties();
    (8 * MIB).min(properties.heaps[properties.types[0].heap_index as usize].size / 64)
}

/// After each step: not more than a first block, or an eighth of what lives.
#[test]
fn di7_few_empty_blocks_stay_at_every_moment() {
    for profile in MockProfile::ALL {
        on(profile, |s| {
            let first = first_block(&s);
            let check = |live: &[Region], step: &str| {
                let total = s.total();
                let most = first.max(total.region_bytes / 8);
                assert!(
                    total.empty_bytes <= most,
                    "{profile:?}, {step}, {} regions: {} of {most}",
                    live.len(),
                    total.empty_bytes
                );
            };
            let mut rng = Rng::new(1);
            let mut next = |below| rng.below(below);
            let mut live: Vec<Region> = Vec::new();
            for target in [300, 20, 600, 0, 100, 0] {
                while live.len() != target {
                    if live.len() < target {
                        let size = (4 * KIB) << next(11);
                        let needs = bytes(size).memory_types(1);
                        let options = shared();
                        live.push(s.must_allocate(&needs, &options));
                    } else {
                        let at = next(live.len() as u64) as usize;
                        s.free(live.swap_remove(at));
                    }
                    check(&live, "mixed");
                }
            }
            let total = s.total();
            assert!(total.blocks <= 1 && total.block_bytes <= first, "{total:?}");
        });
    }
}

/// Where all blocks are full, one region that comes and goes does not bring and remove a block each time.
#[test]
fn di7_a_block_that_comes_and_goes_stays() {
    for profile in MockProfile::ALL {
        for multiple in [1, 3 * MIB] {
            let memory = MemoryOptions { nearest_multiple: multiple, ..MemoryOptions::default() };
            scene(profile, with_memory(memory), |s| {
                let needs = bytes(MIB).memory_types(1);
                let take = || s.must_allocate(&needs, &any());
                let mut live = times(200, &take);
                let before = s.objects();
                while s.objects() == before {
                    live.push(take());
                }
                let calls = s.made();
                for _ in 0..50 {
                    s.free_each(live.pop());
                    live.push(take());
                }
                let calls = s.made() - calls;
                assert!(calls <= 2, "{profile:?}: {calls} blocks");
                s.free_each(live);
            });
        }
    }
}

#[test]
fn di6_blocks_have_sizes_by_kind_of_memory_and_larger_regions_are_dedicated() {
    let memory = MemoryOptions {
        first_block: Some(2 * MIB),
        max_block: Some(8 * MIB),
        first_host_block: Some(MIB),
        max_host_block: Some(4 * MIB),
        ..MemoryOptions::default()
    };
    for profile in MockProfile::ALL {
        let mock = Mock::new(profile);
        scene_on(&mock, with_memory(memory), |s| {
            let mut regions = Vec::new();
            for options in [any(), visible()] {
                let Ok(first) = s.allocate(&bytes(64 * KIB), &options) else {
                    continue; // the tiler's memory is not coherent
                };
                let needs = bytes(256 * KIB).memory_types(1 << first.memory_type().unwrap());
                regions.push(first);
                let more = (0..100).map(|_| s.must_allocate(&needs, &options));
                regions.extend(more);
                let large = bytes(40 * MIB).memory_types(needs.memory_type_bits);
                let large = s.must_allocate(&large, &options);
                let alone = s.allocate(&bytes(40 * MIB), &options.dedicated(Never));
                assert!(alone.is_err(), "no block has that much");
                assert_eq!(large.size(), 40 * MIB);
                regions.push(large);
            }
            let types = mock.properties().types;
            mock.for_each_memory(&mut |_, object| {
                let properties = types[object.request.memory_type as usize].properties;
                let (first, max) =
                    if properties.contains(PropertyFlags::HOST_VISIBLE) { (MIB, 4 * MIB) } else { (2 * MIB, 8 * MIB) };
                let size = object.request.size;
                assert!((first..=max).contains(&size) || size == 40 * MIB, "{profile:?}: {size} of {properties}");
            });
            s.free_each(regions);
        });
    }
}

/// Four times the blocks: 4 times the time where it is linear, 16 where it is quadratic. The machine may have other
/// work, so the shortest of several times counts.
fn assert_linear(measure: impl Fn(u64) -> [Duration; 2]) {
    let shortest = |best: [Duration; 2], next: [Duration; 2]| [best[0].min(next[0]), best[1].min(next[1])];
    let [mut few, mut many] = [[Duration::MAX; 2]; 2];
    for _ in 0..3 {
        few = shortest(few, measure(2_000));
    }
    for _ in 0..20 {
        many = shortest(many, measure(8_000));
        if many[0] < few[0] * 9 && many[1] < few[1] * 9 {
            return;
        }
    }
    panic!("{few:?} for 2000, {many:?} for 8000");
}

#[test]
fn di7_freeing_empty_blocks_is_linear() {
    let memory = MemoryOptions { keep_empty: Some(u64::MAX), ..MemoryOptions::default() };
    // By trimming, and by freeing their regions one by one.
    assert_linear(|count| {
        let mut taken = [Duration::MAX; 2];
        scene(Nvidia, with_memory(memory), |s| {
            for (taken, keep_empty) in taken.iter_mut().zip([None, Some(0)]) {
                let pool = PoolOptions { keep_empty, ..pool_options(4 * KIB, 1) };
                let pool = s.must_create_pool(&pool);
                let options = any().pool(pool);
                let regions = Vec::from_iter((0..count).map(|_| s.take(4 * KIB, &options)));
                assert_eq!(s.objects(), count);
                let begin = Instant::now();
                s.free_each(regions);
                s.trim(u64::MAX);
                *taken = begin.elapsed();
                assert_eq!(s.objects(), 0);
                s.must_destroy_pool(pool);
            }
        });
        taken
    });
}

/// Reserving blocks, and the allocations after which most of as many blocks drain.
#[test]
fn di7_reserving_and_draining_blocks_is_linear() {
    const PIECES: u64 = 16;
    assert_linear(|count| {
        let mut taken = [Duration::MAX; 2];
        nvidia(|s| {
            let pool = s.must_create_pool(&pool_options(4 * KIB, 1));
            let options = any().pool(pool);
            let begin = Instant::now();
            let reserved = s.reserve(count * 4 * KIB, u32::MAX, &options);
            taken[0] = begin.elapsed();
            assert_eq!(reserved, Ok(()));
            assert_eq!(s.objects(), count);
            let piece = 4 * KIB / PIECES;
            let mut regions = Vec::from_iter((0..count * PIECES).map(|_| Some(s.take(piece, &options))));
            for (index, region) in regions.iter_mut().enumerate() {
                if !(index as u64).is_multiple_of(PIECES) {
                    region.take().into_iter().for_each(|region| s.free(region));
                }
            }
            let begin = Instant::now();
            for _ in 0..2 * count {
                s.free(s.take(piece, &options));
            }
            taken[1] = begin.elapsed();
            (regions.into_iter().flatten()).for_each(|region| s.free(region));
            s.trim(u64::MAX);
            s.must_destroy_pool(pool);
        });
        taken
    });
}
