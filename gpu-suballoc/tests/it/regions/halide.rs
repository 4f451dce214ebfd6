//! The scenarios of Halide's own tests of its block allocator and its allocation cache.

use super::*;

/// One rule for both: never a block that is too small for the region it was made for, and then another one.
#[test]
fn h101_the_block_made_for_a_request_holds_its_region() {
    for (granule, multiple) in [(16, 32), (32, 64), (64, 32), (256, 1), (256, 96), (4096, 32)] {
        let mut options = AllocatorOptions::default();
        options.memory.granule = granule;
        options.memory.nearest_multiple = multiple;
        // Each block is made for its request.
        options.memory.first_block = Some(u64::from(granule));
        everywhere(options, |s| {
            for (size, alignment) in
                [(15_630_480, 16), (15_630_480, 64), (9_338_976, 64), (96, 64), (1, 1), (4097, 4096)]
            {
                let before = (s.made(), s.objects());
                let never = shared();
                let region = s.must_allocate(&ResourceRequirements::new(size, alignment), &never);
                let made = (s.made() - before.0, s.objects() - before.1);
                assert_eq!(made, (1, 1), "{size} at {alignment} in granules of {granule}, blocks of {multiple}");
                let block = s.request_of(&region).size;
                assert!(region.size() >= size && region.offset() + region.size() <= block);
                s.free(region);
                s.trim(u64::MAX);
            }
        });
    }
}

/// Sizes that shrink, grow, or stay, with keeping switched on and off by another thread: exact results, never out of
/// memory.
#[test]
fn h119_a_cache_under_threads_that_switch_it() {
    let facts = MoltenVk.config().with_heap_size(0, 64 << 20);
    let mock = mock_with(facts);
    on_mock(&mock, |s| {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let workers = Vec::from_iter((0..5u64).map(|worker| {
                let gpu = s.gpu;
                let mock = s.mock;
                scope.spawn(move || {
                    for turn in 0..300u64 {
                        let step = match worker % 3 {
                            0 => 150,
                            1 => turn,
                            _ => 300 - turn,
                        };
                        let info = copied(4096 + step * 64);
                        let region = gpu.create_buffer(&info, &any()).expect("there is room for five");
                        let byte = (worker * 37 + turn) as u8;
                        assert!(mock.fill_buffer(region.buffer().unwrap(), 0, region.size(), byte));
                        thread::yield_now();
                        let mut seen = [0; 64];
                        assert!(mock.read_buffer(region.buffer().unwrap(), region.size() - 64, &mut seen));
                        assert_eq!(seen, [byte; 64], "nobody else writes there");
                        gpu.release(region).unwrap();
                    }
                })
            }));
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    s.set_reuse(false);
                    thread::yield_now();
                    s.set_reuse(true);
                    thread::yield_now();
                }
            });
            let results = Vec::from_iter(workers.into_iter().map(thread::ScopedJoinHandle::join));
            done.store(true, Relaxed);
            results.into_iter().for_each(|result| result.expect("no worker failed"));
        });
    });
}
