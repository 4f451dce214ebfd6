//! The scenarios of Halide's own tests of its block allocator.

use super::*;

/// One block of 1 MiB and no more.
fn one_block() -> AllocatorOptions {
    let mut options = AllocatorOptions::default();
    options.memory.first_block = Some(1 << 20);
    options.memory.max_block = Some(1 << 20);
    options.memory.max_bytes = 1 << 20;
    options
}

/// A freed region of a few bytes leaves nothing in the way, whatever its lifetime.
#[test]
fn h106_after_a_small_one_that_is_gone_two_halves_fit() {
    for lifetime in [Lifetime::Unknown, Lifetime::Transient, Lifetime::Persistent] {
        let mut options = AllocatorOptions::default();
        options.memory.max_bytes = 4 << 20;
        (options.memory.first_block, options.memory.max_block) = (Some(4 << 20), Some(4 << 20));
        options.memory.max_allocations = 1;
        scene(MockProfile::Lavapipe, options, |s| {
            s.free(s.take(4, &any().lifetime(lifetime)));
            let halves = [0, 1].map(|_| s.take(2 << 20, &any().lifetime(lifetime)));
            assert_eq!(s.mock.live_counts().memory, 1);
            halves.into_iter().for_each(|half| s.free(half));
        });
    }
}

#[test]
fn h106_half_and_half_and_a_third_fails_then_the_whole() {
    scene(MockProfile::Lavapipe, one_block(), |s| {
        let never = RegionOptions {
            dedicated: DedicatedPolicy::Never,
            ..any()
        };
        let half = || s.gpu.allocate(&bytes(512 << 10), &never);
        let (first, second) = (half().unwrap(), half().unwrap());
        let refused = half().unwrap_err();
        assert!(refused.is_out_of_device_memory(), "{refused}");
        assert_eq!(s.mock.live_counts().memory, 1);
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
        for profile in MockProfile::ALL {
            scene(profile, options, |s| {
                for (size, alignment) in [
                    (15_630_480, 16),
                    (15_630_480, 64),
                    (9_338_976, 64),
                    (96, 64),
                    (1, 1),
                    (4097, 4096),
                ] {
                    let before = (
                        s.mock.calls(MockCall::Allocate),
                        s.mock.live_counts().memory,
                    );
                    let never = RegionOptions {
                        dedicated: DedicatedPolicy::Never,
                        ..any()
                    };
                    let region = s
                        .gpu
                        .allocate(&ResourceRequirements::new(size, alignment), &never)
                        .unwrap();
                    let made = (
                        s.mock.calls(MockCall::Allocate) - before.0,
                        s.mock.live_counts().memory - before.1,
                    );
                    assert_eq!(
                        made,
                        (1, 1),
                        "{size} at {alignment} in granules of {granule}, blocks of {multiple}"
                    );
                    let block = s
                        .mock
                        .memory(region.memory().unwrap())
                        .unwrap()
                        .request
                        .size;
                    assert!(region.size() >= size && region.offset() + region.size() <= block);
                    s.free(region);
                    s.gpu.trim(u64::MAX);
                }
            });
        }
    }
}
