//! The scenarios of Halide's own tests of its block allocator and its allocation cache.

use super::*;

/// One block of 1 MiB and no more.
fn one_block() -> AllocatorOptions {
    with_memory(MemoryOptions {
        max_bytes: MIB,
        ..blocks_of(MIB)
    })
}

#[test]
fn h106_released_ones_are_reserved_again() {
    nvidia(|s| {
        let mut rng = Rng::new(1061);
        for _ in 0..1000 {
            let region = s.buffer(4 * (1 + rng.below(31)));
            s.gpu.release(region).unwrap();
        }
        let made = s.mock.calls(MockCall::CreateBuffer);
        assert!(made <= 31, "{made} buffers were made for 31 sizes");
    });
}

/// A freed region of a few bytes leaves nothing in the way, whatever its lifetime.
#[test]
fn h106_after_a_small_one_that_is_gone_two_halves_fit() {
    for lifetime in [Lifetime::Unknown, Lifetime::Transient, Lifetime::Persistent] {
        let options: AllocatorOptions = "4:4:4:1".parse().expect("sound");
        scene(MockProfile::Lavapipe, options, |s| {
            s.free(s.take(4, &any().lifetime(lifetime)));
            let halves = [0, 1].map(|_| s.take(2 << 20, &any().lifetime(lifetime)));
            assert_eq!(s.objects(), 1);
            halves.into_iter().for_each(|half| s.free(half));
        });
    }
}

#[test]
fn h106_half_and_half_and_a_third_fails_then_the_whole() {
    scene(MockProfile::Lavapipe, one_block(), |s| {
        let never = shared();
        let half = || s.gpu.allocate(&bytes(512 << 10), &never);
        let (first, second) = (half().unwrap(), half().unwrap());
        let refused = half().unwrap_err();
        assert!(refused.is_out_of_device_memory(), "{refused}");
        assert_eq!(s.objects(), 1);
        s.free(first);
        s.free(second);
        let whole = s.gpu.allocate(&bytes(1 << 20), &never).unwrap();
        assert_eq!((whole.offset(), whole.size()), (0, 1 << 20));
        assert!(s.gpu.allocate(&bytes(1), &never).is_err());
        s.free(whole);
    });
}

/// One rule for both: never a block that is too small for the region it was made for, and then another one.
#[test]
fn h101_the_block_made_for_a_request_holds_its_region() {
    for (granule, multiple) in [
        (16, 32),
        (32, 64),
        (64, 32),
        (256, 1),
        (256, 96),
        (4096, 32),
    ] {
        let mut options = AllocatorOptions::default();
        options.memory.granule = granule;
        options.memory.nearest_multiple = multiple;
        // Each block is made for its request.
        options.memory.first_block = Some(u64::from(granule));
        everywhere(options, |s| {
            for (size, alignment) in [
                (15_630_480, 16),
                (15_630_480, 64),
                (9_338_976, 64),
                (96, 64),
                (1, 1),
                (4097, 4096),
            ] {
                let before = (s.made(), s.objects());
                let never = shared();
                let region = s
                    .gpu
                    .allocate(&ResourceRequirements::new(size, alignment), &never)
                    .unwrap();
                let made = (s.made() - before.0, s.objects() - before.1);
                assert_eq!(
                    made,
                    (1, 1),
                    "{size} at {alignment} in granules of {granule}, blocks of {multiple}"
                );
                let block = s.request_of(&region).size;
                assert!(region.size() >= size && region.offset() + region.size() <= block);
                s.free(region);
                s.gpu.trim(u64::MAX);
            }
        });
    }
}

/// Sizes that shrink, grow, or stay, with keeping switched on and off by another thread: exact results, never out of memory.
#[test]
fn h119_a_cache_under_threads_that_switch_it() {
    let facts = MockProfile::MoltenVk.config().with_heap_size(0, 64 << 20);
    let mock = Mock::with_config(facts, RecordingAllocator::system());
    scene_on(&mock, AllocatorOptions::default(), |s| {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..5u64)
                .map(|worker| {
                    let gpu = s.gpu;
                    let mock = s.mock;
                    scope.spawn(move || {
                        for turn in 0..300u64 {
                            let step = match worker % 3 {
                                0 => 150,
                                1 => turn,
                                _ => 300 - turn,
                            };
                            let info = BufferInfo::new(4096 + step * 64, COPIED);
                            let region = gpu
                                .create_buffer(&info, &any())
                                .expect("there is room for five");
                            let byte = (worker * 37 + turn) as u8;
                            assert!(mock.fill_buffer(
                                region.buffer().unwrap(),
                                0,
                                region.size(),
                                byte
                            ));
                            thread::yield_now();
                            let mut seen = [0; 64];
                            assert!(mock.read_buffer(
                                region.buffer().unwrap(),
                                region.size() - 64,
                                &mut seen
                            ));
                            assert_eq!(seen, [byte; 64], "nobody else writes there");
                            gpu.release(region).unwrap();
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    s.gpu.set_reuse(false);
                    thread::yield_now();
                    s.gpu.set_reuse(true);
                    thread::yield_now();
                }
            });
            let results: Vec<_> = workers
                .into_iter()
                .map(thread::ScopedJoinHandle::join)
                .collect();
            done.store(true, Relaxed);
            results
                .into_iter()
                .for_each(|result| result.expect("no worker failed"));
        });
    });
}
