//! Which block a region lies in, when there is another one, and what limits them: on every profile.

use super::*;

fn on_every_changed(memory: MemoryOptions, change: impl Fn(MockConfig) -> MockConfig, test: impl Fn(&Scene<'_>)) {
    for profile in MockProfile::ALL {
        println!("profile: {profile:?}");
        let mock = Mock::with_config(change(profile.config()));
        let options = with_memory(memory);
        scene_on(&mock, options, |s| test(&s));
    }
}

impl Scene<'_> {
    fn place(&self, size: u64) -> Region {
        self.take(size, &shared())
    }

    /// Memory objects and their bytes.
    fn native(&self) -> (u64, u64) {
        let live = self.mock.live_counts();
        (live.memory, live.bytes)
    }

    fn heap_of(&self, region: &Region) -> usize {
        self.mock.properties().types[region.memory_type().unwrap() as usize].heap_index as usize
    }
}

#[test]
fn h76_the_next_block_is_a_part_of_all() {
    everywhere(with_memory(MemoryOptions { first_block: Some(256 * KIB), ..MemoryOptions::default() }), |s| {
        let limits = s.mock.properties().limits;
        // Where there can be few, each has as much as all before.
        let (part, count) = if limits.max_memory_allocation_count < 1024 { (1, 6) } else { (32, 40) };
        let (mut regions, mut objects, mut reserved) = (Vec::new(), 0, 0);
        while objects < count {
            regions.push(s.place(64 * KIB));
            let now = s.native();
            if now.0 > objects {
                let (next, granule) = (reserved / part, limits.non_coherent_atom_size.max(256));
                assert_eq!(now.1 - reserved, (next - next % granule).max(256 * KIB), "after {objects} blocks");
                (objects, reserved) = now;
            }
        }
        s.free_each(regions);
        s.trim(u64::MAX);
        let again = s.place(KIB);
        assert_eq!(s.native(), (1, 256 * KIB), "from small again");
        s.free(again);
    });
}

#[test]
fn h80_h106_every_block_is_tried_before_there_is_another() {
    everywhere(with_memory(MemoryOptions { keep_empty: Some(u64::MAX), ..blocks_of(MIB) }), |s| {
        // A block that is free, and behind it one with room in pieces only.
        let whole = s.place(MIB);
        let first = whole.memory();
        let [one, two, three, four] = each(|| s.place(256 * KIB));
        s.free_each([whole, one, three]);
        assert_eq!(s.native(), (2, 2 * MIB));
        let half = s.place(512 * KIB);
        assert_eq!((half.memory(), s.native().0), (first, 2), "where it fits");
        let quarter = s.place(256 * KIB);
        assert_eq!(quarter.memory(), two.memory(), "the fullest block that has a piece");
        s.free_each([half, quarter, two, four]);
    });
}

#[test]
fn h79_a_region_lies_in_the_best_fit_of_all_blocks() {
    everywhere(with_memory(blocks_of(MIB)), |s| {
        let mut regions = times(64, || s.place(64 * KIB));
        let [second, third] = [16, 32].map(|at: usize| regions[at].memory());
        // One region less in the second block, ten less in the third: what comes goes into the second.
        s.free_each(regions.drain(32..42));
        s.free(regions.remove(16));
        for expected in [second, third] {
            regions.push(s.place(64 * KIB));
            assert_eq!(regions.last().unwrap().memory(), expected);
        }
        s.free_each(regions);
    });
}

/// Four blocks of 16 regions each. The first keeps two, with the hole between them that fits one more best; in the
/// others half are left. And so many regions came and went since that the first was not needed.
fn with_a_closed_block(s: &Scene<'_>, options: &RegionOptions<'_>) -> (Vec<Region>, Option<MemoryHandle>) {
    let place = || s.take(64 * KIB, options);
    let mut left = times(64, &place);
    let first = left[0].memory();
    let goes = |at: &usize| match *at {
        at @ 0..16 => ![5, 7].contains(&at),
        at => [1, 2].contains(&(at % 4)),
    };
    (0..64).rev().filter(goes).for_each(|at| s.free(left.remove(at)));
    (0..64).for_each(|_| s.free(place()));
    (left, first)
}

#[test]
fn h79_blocks_that_a_turnover_did_not_need_drain_and_are_used_before_another_is_made() {
    everywhere(with_memory(blocks_of(MIB)), |s| {
        let (mut left, first) = with_a_closed_block(s, &shared());
        // One of the others was not needed either.
        for index in 0..16 {
            left.push(s.place(64 * KIB));
            assert_ne!(left.last().unwrap().memory(), first, "{index}: it is to drain");
        }
        left.extend((0..22).map(|_| s.place(64 * KIB)));
        assert_eq!((left.len(), s.native().0), (64, 4), "all four are full");
        s.free_each(left);
    });
}

#[test]
fn ge7_a_place_in_a_block_that_drains_is_had() {
    on_every(|s| {
        let pool = s.pool_of(MIB, 0);
        let options = shared().pool(pool);
        let (mut left, first) = with_a_closed_block(s, &options);
        let offset = if left[0].offset() == 0 { MIB / 2 } else { 0 };
        left.push(s.allocate_at(0, offset, &bytes(64 * KIB), &options).unwrap());
        assert_eq!(left.last().unwrap().memory(), first);
        s.free_each(left);
        s.must_destroy_pool(pool);
    });
}

#[test]
fn h95_trimming_says_how_many_bytes_went_back() {
    let kept = MemoryOptions { keep_empty: Some(u64::MAX), ..MemoryOptions::default() };
    everywhere(with_memory(kept), |s| {
        let big = times(40, || s.place(MIB));
        let small = s.place(KIB);
        assert_eq!(s.trim(u64::MAX), 0, "nothing is empty");
        s.free_each(big);
        let (objects, bytes) = s.native();
        // As much as was asked for, and not all of it.
        let some = s.trim(1);
        assert!(some > 0 && s.native() == (objects - 1, bytes - some), "{some}");
        let rest = s.trim(u64::MAX);
        assert_eq!(s.native().1, bytes - some - rest);
        assert!(s.native().0 >= 1, "a region lives");
        s.free(small);
        assert_eq!(s.trim(u64::MAX), bytes - some - rest);
        assert_eq!(s.native(), (0, 0));
    });
}

#[test]
fn a_block_is_made_once_however_many_threads_need_it() {
    on_every(|s| {
        for round in 0..20 {
            let (before, barrier, gpu) = (s.made(), Barrier::new(4), s.gpu);
            let regions: Vec<_> = thread::scope(|scope| {
                let place = || {
                    barrier.wait();
                    gpu.allocate(&bytes(KIB), &shared()).unwrap()
                };
                let threads = times(4, || scope.spawn(place));
                threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
            });
            assert_eq!((s.made() - before, s.native().0), (1, 1), "round {round}");
            s.free_each(regions);
            assert!(s.trim(u64::MAX) > 0);
        }
    });
}

#[test]
fn h118_a_heap_over_its_budget_keeps_nothing() {
    on_every(|s| {
        let region = s.place(KIB);
        let heap = s.heap_of(&region);
        s.mock.set_budget(heap, Some(1));
        let asked = s.set_frame(1);
        assert_eq!(asked, s.mock.properties().features.memory_budget);
        s.free(region);
        assert_eq!(s.native().0, u64::from(!asked), "the empty block went at once");
        // One that was kept goes when a frame finds the heap over its budget.
        s.mock.set_budget(heap, None);
        s.set_frame(2);
        s.free(s.place(KIB));
        assert_eq!(s.native().0, 1);
        s.mock.set_budget(heap, Some(1));
        s.set_frame(3);
        assert_eq!(s.native().0, u64::from(!asked));
    });
}

/// Fifteen refusals of 8 MiB would be more than these limits allow, if they counted.
#[test]
fn h84_h86_a_refused_block_leaves_no_trace() {
    let memory = MemoryOptions { max_bytes: 64 * MIB, max_allocations: 3, ..MemoryOptions::default() };
    everywhere(with_memory(MemoryOptions { first_block: Some(MIB), ..memory }), |s| {
        let pool = s.must_create_pool(&PoolOptions { max_blocks: 2, ..PoolOptions::new(0) });
        let within = any().pool(pool);
        let stays = s.take(KIB, &within);
        let errors = [OutOfDeviceMemory, OutOfHostMemory, TooManyObjects, Other(-13)];
        let mut host = Vec::new();
        for error in errors.into_iter().cycle().take(15) {
            for dedicated in [Never, Required] {
                let (before, calls) = (s.native(), s.made());
                let peak = s.stats().peak_block_bytes;
                s.mock.plant(MockFault::always().of(Allocate).with(error));
                assert_eq!(s.allocate(&bytes(8 * MIB), &within.dedicated(dedicated)), refusal(error));
                s.mock.clear_faults();
                assert_eq!((s.native(), s.stats().peak_block_bytes), (before, peak));
                let asked = s.made() - calls;
                assert!(error != TooManyObjects || asked == 1, "it is no reason for smaller ones: {asked}");
            }
            host.push(s.host_bytes());
        }
        assert_eq!(host.first(), host.last(), "no slot is lost");
        let next = s.take(KIB, &within);
        assert_eq!(next.memory(), stays.memory(), "its room is there");
        let large = s.take(8 * MIB, &within);
        let more = s.allocate(&bytes(8 * MIB), &within);
        assert_eq!(more, refusal(Limit::Blocks { limit: 2 }));
        s.free_each([next, large, stays]);
        s.must_destroy_pool(pool);
    });
}

#[test]
fn h83_the_number_of_memory_objects_is_limited_by_device_and_user() {
    let change = |mut config: MockConfig| {
        config.limits.max_memory_allocation_count = 5;
        config
    };
    for (max_allocations, limit) in [(u32::MAX, 5), (3, 3)] {
        on_every_changed(MemoryOptions { max_allocations, ..MemoryOptions::default() }, change, |s| {
            let take = || s.allocate(&bytes(KIB), &alone());
            let mut regions = Vec::from_iter((0..limit).map(|_| take().unwrap()));
            let calls = s.made();
            assert_eq!(take().unwrap_err(), GpuError::Limit(Limit::Objects { limit }));
            assert_eq!(s.made(), calls, "the driver is not asked for what it may not give");
            s.free(regions.remove(0));
            // What is free is used, whatever it was before; what would rather be alone finds room in a block.
            regions.push(s.place(KIB));
            let preferred = any().dedicated(Preferred);
            regions.push(s.take(KIB, &preferred));
            s.free_each(regions);
        });
    }
}

#[test]
fn h82_limits_hold_while_threads_make_blocks() {
    let memory =
        MemoryOptions { max_bytes: 9 * MIB, max_allocations: 7, keep_empty: Some(0), ..MemoryOptions::default() };
    everywhere(with_memory(memory), |s| {
        let gpu = s.gpu;
        thread::scope(|scope| {
            for seed in 0..3u64 {
                scope.spawn(move || {
                    let mut live = Vec::new();
                    for turn in 0..300u64 {
                        let size = 1 + (seed * 7919 + turn * 104_729) % (2 * MIB);
                        let options = if turn % 3 == 0 { alone() } else { any() };
                        match gpu.allocate(&bytes(size), &options) {
                            Ok(region) => live.push(region),
                            Err(GpuError::Limit(_)) => live.drain(..).for_each(|region| gpu.free(region).unwrap()),
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                    live.into_iter().for_each(|region| gpu.free(region).unwrap());
                });
            }
        });
        let peak = s.stats().peak_block_bytes;
        assert!(peak > 4 * MIB && peak <= 9 * MIB, "{peak}");
    });
}

#[test]
fn h82_a_pool_s_bytes_never_exceed_its_limit() {
    on_every(|s| {
        let pool = s.must_create_pool(&PoolOptions { max_bytes: 1_000_000, ..PoolOptions::new(0) });
        let take = || s.allocate(&bytes(30_000), &shared().pool(pool));
        let (mut regions, mut next) = (Vec::new(), take());
        while let Ok(region) = next {
            regions.push(region);
            assert!(s.native().1 <= 1_000_000, "{:?}", s.native());
            next = take();
        }
        assert!(matches!(next, Err(GpuError::Limit(Limit::Bytes { .. }))), "{next:?}");
        assert!(regions.len() >= 30, "{}", regions.len());
        s.free_each(regions);
        s.must_destroy_pool(pool);
    });
}

#[test]
fn a_pools_options_reach_the_driver_and_what_contradicts_itself_is_no_pool() {
    on_every(|s| {
        let features = s.mock.properties().features;
        let good = PoolOptions::new(0);
        let fd = PoolOptions { export: ExternalHandleTypes::OPAQUE_FD, ..good };
        let export = if features.external_memory { fd.export } else { good.export };
        let priority = features.memory_priority.then_some(0.25);
        let options = PoolOptions { priority, export, min_alignment: 4096, ..good };
        let pool = s.must_create_pool(&options);
        let regions = [(); 3].map(|()| s.take(100, &shared().pool(pool)));
        assert!(regions.iter().all(|region| region.offset() % 4096 == 0));
        let request = s.request_of(&regions[0]);
        assert_eq!((request.priority, request.export), (priority, export));
        s.free_each(regions);
        s.must_destroy_pool(pool);
        let before = (s.mock.all_calls(), s.stats());
        let refused = |options| s.create_pool(&options).unwrap_err();
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
            assert_eq!(refused(bad), BadOptions.into(), "{bad:?}");
        }
        assert_eq!(refused(PoolOptions { priority: Some(-0.1), ..good }), BadPriority.into());
        assert!(matches!(refused(PoolOptions { block_size: Some(1 << 50), ..good }), GpuError::TooLarge { .. }));
        if !features.external_memory {
            assert_eq!(refused(fd), NotEnabled.into());
        }
        assert_eq!((s.mock.all_calls(), s.stats()), before);
    });
}

#[test]
fn h108_the_next_type_in_order_is_taken_where_the_driver_has_none_left() {
    on_every(|s| {
        let options = shared().preference(MemoryPreference::default().preferring(PropertyFlags::DEVICE_LOCAL));
        let first = s.take(MIB, &options);
        let (heap, memory_type) = (s.heap_of(&first), first.memory_type().unwrap());
        let heaps = s.mock.properties().heaps;
        s.free(first);
        s.trim(u64::MAX);
        // Somebody else has taken all of it.
        s.mock.use_elsewhere(heap, heaps[heap].size);
        for _ in 0..2 {
            let next = s.allocate(&bytes(MIB), &options);
            assert_eq!(next.is_ok(), heaps.len() > 1, "{next:?}");
            if let Ok(next) = next {
                assert_ne!(s.heap_of(&next), heap, "one full heap vetoes no other");
                s.free(next);
            }
        }
        // What is required is never given up for room.
        let must = bytes(MIB).memory_types(1 << memory_type);
        assert!(s.allocate(&must, &options).is_err());
        s.mock.use_elsewhere(heap, 0);
        s.free(s.must_allocate(&must, &options));
    });
}

#[test]
fn a_heap_within_its_budget_is_preferred_and_none_is_no_refusal() {
    on_every(|s| {
        let properties = s.mock.properties();
        if !properties.features.memory_budget {
            return println!("no VK_EXT_memory_budget");
        }
        let mut regions = vec![s.place(KIB)];
        let heap = s.heap_of(&regions[0]);
        s.mock.set_budget(heap, Some(1));
        assert!(s.set_frame(1));
        let calls = s.mock.calls(Budget);
        regions.push(s.place(32 * MIB));
        assert_eq!(s.heap_of(&regions[1]) == heap, properties.heaps.len() == 1, "another heap has room");
        (0..properties.heaps.len()).for_each(|heap| s.mock.set_budget(heap, Some(1)));
        assert!(s.set_frame(2) && !s.set_frame(2), "once a frame");
        regions.push(s.place(32 * MIB));
        assert_eq!(s.heap_of(&regions[2]), heap, "over every budget: the best type after all");
        let strict = s.allocate(&bytes(64 * MIB), &shared().within_budget());
        assert!(matches!(strict, Err(GpuError::Limit(_))), "{strict:?}");
        regions.extend((0..200).map(|_| s.place(KIB)));
        assert_eq!(s.mock.calls(Budget), calls + 2, "once a frame and before a refusal, not for each region");
        s.free_each(regions);
    });
}

#[test]
fn h78_a_request_that_asks_for_nothing_poisons_nothing() {
    on_every(|s| {
        let first = s.place(KIB);
        let memory_type = first.memory_type().unwrap();
        // Exactly what that memory can do, asked for by name: the rest of the block is as good as it was.
        let wish = MemoryPreference::requiring(s.mock.properties().types[memory_type as usize].properties);
        let needs = bytes(KIB).memory_types(1 << memory_type);
        let named = s.must_allocate(&needs, &shared().preference(wish));
        assert_eq!((named.memory(), s.native().0), (first.memory(), 1));
        s.free_each([first, named]);
    });
}

#[test]
fn what_the_driver_prefers_is_alone_unless_it_must_not_be() {
    on_every(|s| {
        let prefers = ResourceRequirements { prefers_dedicated: true, ..bytes(5000) };
        let preferred = any().dedicated(Preferred);
        for (is_alone, needs, options) in [
            (true, prefers, any()),
            (true, bytes(5000), alone()),
            (true, bytes(5000), preferred),
            (true, bytes(200 * MIB), any()),
            (false, prefers, shared()),
            (false, bytes(5000), any()),
        ] {
            let region = s.must_allocate(&needs, &options);
            let object = s.request_of(&region).size;
            assert_eq!(object == needs.size, is_alone, "{needs:?} {options:?}");
            s.free(region);
        }
    });
}

#[test]
fn empty_blocks_elsewhere_make_room_before_anything_is_refused() {
    everywhere(with_memory(MemoryOptions { max_bytes: 8 * MIB, ..MemoryOptions::default() }), |s| {
        let mut seen = 0;
        for memory_type in 0..s.mock.properties().types.len() {
            let needs = bytes(4 * MIB).memory_types(1 << memory_type);
            match s.allocate(&needs, &shared()) {
                Ok(region) => s.free(region),
                Err(GpuError::MemoryType(_)) => continue,
                Err(error) => panic!("{error}"),
            }
            seen += 1;
        }
        assert!(seen >= 1 && s.native().1 <= 8 * MIB);
    });
}

#[test]
fn of_two_holes_of_a_size_the_one_in_the_older_block_is_used_first() {
    for order in [[3, 20], [20, 3]] {
        everywhere(with_memory(blocks_of(MIB)), |s| {
            let mut regions = times(32, || Some(s.place(64 * KIB)));
            let first = regions[3].as_ref().and_then(Region::memory);
            s.free_each(order.into_iter().filter_map(|at: usize| regions[at].take()));
            let next = s.place(64 * KIB);
            assert_eq!(next.memory(), first, "{order:?}");
            s.free_each(regions.into_iter().flatten().chain([next]));
        });
    }
}

#[test]
fn h81_bytes_that_no_request_can_have_are_spent() {
    let memory = MemoryOptions { first_block: Some(4096), nearest_multiple: 1000, ..MemoryOptions::default() };
    scene(Nvidia, with_memory(memory), |s| {
        let ring = ring_options(1 << 16, 0);
        let ring = s.must_create_pool(&ring);
        let take = |options| s.must_allocate(&bytes(256), &options);
        let [oldest, next] = each(|| take(any().pool(ring)));
        s.free(oldest);
        // In a block of 5000 bytes.
        let shared = take(any());
        let map = s.must_memory_map();
        let spent = Vec::from_iter(
            ranges_of(&map)
                .filter(|range| range.range_use == RangeUse::Spent)
                .map(|range| (range.offset, range.size, range.placement)),
        );
        let (general, linear) = (RangePlacement::General, RangePlacement::Linear);
        let behind = (512, (1 << 16) - 512, linear);
        assert_eq!(spent, [(4864, 136, general), (0, 256, linear), behind]);
        drop(map);
        s.free(shared);
        s.free(next);
        s.must_destroy_pool(ring);
    });
}
