//! Stacks, double stacks and rings: what the random programs of `range_model` do not show of virtual blocks, and pools
//! on every profile.

use crate::regions::{Gpu, everywhere};
use crate::*;

const LINEAR: [BlockAlgorithm; 3] = [Stack, DoubleStack, Ring];
const SIZE: u64 = 1 << 16;

#[test]
fn h98_ge6_blocks_of_each_algorithm_refuse_what_makes_no_sense() {
    for algorithm in LINEAR.into_iter().chain([General]) {
        let make =
            |size, granule| VirtualBlock::with_algorithm(FromGlobalAlloc::SYSTEM, size, granule, algorithm).map(|_| ());
        assert_eq!(make(1 << 16, 3), Err(VirtualBlockError::Granule));
        assert_eq!(make(255, 256), Err(VirtualBlockError::ZeroSize));
        assert_eq!(make(1 << 40, 1), Err(VirtualBlockError::TooLarge));
        let [mut block, mut other] =
            each(|| VirtualBlock::with_algorithm(FromGlobalAlloc::SYSTEM, SIZE, 256, algorithm).unwrap());
        // Both are the first of their block: they have the same number.
        let range = block.allocate(256, 1).unwrap().allocation;
        let theirs = other.allocate(256, 1).unwrap().allocation;
        let foreign = VirtualBlockError::Foreign;
        assert_eq!(block.free(theirs), Err(foreign));
        assert_eq!(block.info(theirs), Err(foreign));
        assert_eq!(block.set_user_data(theirs, 1), Err(foreign));
        assert_eq!(block.set_user_data(range, 9), Ok(()));
        assert_eq!(block.info(range).unwrap().user_data, 9);
        assert_eq!(block.allocate(256, 1 << 63), Err(VirtualBlockError::TooLarge));
        let upper = block
            .allocate_with(&VirtualAllocationOptions { upper_address: true, ..VirtualAllocationOptions::new(256, 1) });
        if matches!(algorithm, DoubleStack | General) {
            assert_eq!(upper.map(|range| range.offset), Ok(SIZE - 256));
        } else {
            assert_eq!(upper, Err(VirtualBlockError::NoUpperEnd));
        }
    }
}

/// A pool of this kind in the first memory type, on every profile.
fn pools(algorithm: BlockAlgorithm, body: impl Fn(&Gpu<'_>, RegionOptions<'_>)) {
    everywhere(AllocatorOptions::default(), |s| {
        let options = PoolOptions { algorithm, block_size: Some(SIZE), ..PoolOptions::new(0) };
        let pool = s.gpu.create_pool(&options).unwrap();
        body(s.gpu, RegionOptions::new().pool(pool));
        s.gpu.destroy_pool(pool).expect("no region lives");
    });
}

const QUARTER: ResourceRequirements = ResourceRequirements::new(SIZE / 4, 256);

#[test]
fn ge6_ge7_a_pool_frees_in_its_order_and_says_so_otherwise() {
    for algorithm in LINEAR {
        pools(algorithm, |gpu, options| {
            let mut live: VecDeque<Region> = (0..4).map(|_| gpu.allocate(&QUARTER, &options).unwrap()).collect();
            assert!(gpu.allocate(&ResourceRequirements::new(1, 1), &options).is_err());
            assert_eq!(gpu.allocate_at(0, 4096, &QUARTER, &options), refusal(PlacesItself));
            let next_of = |live: &mut VecDeque<Region>| {
                if algorithm == Ring { live.pop_front() } else { live.pop_back() }.unwrap()
            };
            let wrong = live.remove(1).expect("in the middle");
            let id = wrong.id();
            assert_eq!(gpu.free_id(id), refusal(OutOfOrder));
            let refused = gpu.free(wrong).expect_err("it is not its turn");
            assert_eq!(refused.error, OutOfOrder.into());
            let mut batch = [Some(refused.value)];
            let refused = gpu.free_batch(&mut batch).expect_err("nor in a batch");
            assert_eq!(refused.error, OutOfOrder.into());
            let wrong = batch[0].take().expect("it was given back");

            // Given up before its turn: gone for its owner, and its room later.
            gpu.free_when_unused(wrong).expect("whenever that is");
            assert_eq!(gpu.free_id(id), refusal(Stale));
            assert!(gpu.allocate(&QUARTER, &options).is_err(), "its room is not there yet");
            let next = next_of(&mut live);
            let at = next.offset();
            gpu.free(next).expect("it is its turn");
            let again = gpu.allocate(&QUARTER, &options).expect("where the last one was");
            assert_eq!(again.offset(), at);
            live.push_back(again);
            while !live.is_empty() {
                let next = next_of(&mut live);
                gpu.free(next).unwrap();
            }
            let all = gpu.allocate(&ResourceRequirements::new(SIZE, 1), &options).expect("all of it came back");
            gpu.free(all).unwrap();
        });
    }
}

#[test]
fn ge6_a_linear_pool_that_placed_nothing_ends_with_all_its_memory() {
    pools(Ring, |gpu, options| {
        let larger = ResourceRequirements::new(2 * SIZE, 16);
        assert!(gpu.allocate(&larger, &options).is_err());
    });
}

/// A ring that has come round gives up its newest region: it goes on behind the one before, and not at the start.
#[test]
fn ge6_a_ring_without_its_newest_region_goes_on_behind_the_one_before() {
    const PART: u64 = SIZE / 16;
    let parts = |count: u64| ResourceRequirements::new(count * PART, 256);
    pools(Ring, |gpu, options| {
        let place = |count| gpu.allocate(&parts(count), &options).expect("room");
        let [a, b, c] = [5, 5, 5].map(place);
        gpu.free(a).expect("the oldest");
        let newest = place(3);
        assert_eq!(newest.offset(), 0, "it has come round");
        gpu.free_when_unused(newest).expect("before its turn");
        let behind = place(1);
        assert_eq!(behind.offset(), 15 * PART);
        let again = place(5);
        assert_eq!(again.offset(), 0);
        assert!(gpu.allocate(&parts(1), &options).is_err(), "all is used");
        for region in [b, c, behind, again] {
            gpu.free(region).expect("in its turn");
        }
    });
}

#[test]
fn ge6_a_pool_of_two_stacks_grows_from_both_ends() {
    pools(DoubleStack, |gpu, options| {
        let upper = options.upper_address();
        let one = gpu.allocate(&QUARTER, &options).unwrap();
        let two = gpu.allocate(&QUARTER, &upper).unwrap();
        let three = gpu.allocate(&QUARTER, &upper).unwrap();
        assert_eq!([&one, &two, &three].map(Region::offset), [0, SIZE / 4 * 3, SIZE / 2]);
        let refused = gpu.free(two).expect_err("three is newer");
        assert_eq!(refused.error, OutOfOrder.into());
        gpu.free(one).expect("the newest of its end");
        gpu.free(three).expect("the newest of its end");
        gpu.free(refused.value).expect("now it is");
    });
    for algorithm in [Stack, Ring, General] {
        pools(algorithm, |gpu, options| {
            let refused = gpu.allocate(&QUARTER, &options.upper_address());
            assert_eq!(refused, refusal(NoUpperEnd));
            let refused = gpu.allocate(&QUARTER, &RegionOptions::new().upper_address());
            assert_eq!(refused, refusal(NoUpperEnd));
        });
    }
}

#[test]
fn ge6_a_batch_that_finds_no_room_leaves_a_linear_pool_as_it_was() {
    for algorithm in LINEAR {
        pools(algorithm, |gpu, options| {
            let first = gpu.allocate(&QUARTER, &options).unwrap();
            for named in [false, true] {
                let options = if named { options.name("part") } else { options };
                let mut batch = [const { None }; 6];
                assert!(gpu.allocate_batch(&QUARTER, &options, &mut batch).is_err());
                assert!(batch.iter().all(Option::is_none));
                assert_eq!(gpu.stats().total.regions, 1);
            }
            let mut batch = [const { None }; 3];
            gpu.allocate_batch(&QUARTER, &options, &mut batch).expect("three more fit");
            let mut all = Vec::from_iter(std::iter::once(Some(first)).chain(batch));
            if algorithm != Ring {
                all.reverse();
            }
            gpu.free_batch(&mut all).unwrap();
        });
    }
}

/// A drained ring keeps what was reserved: a frame takes no memory.
#[test]
fn ge6_a_ring_keeps_its_reserve_when_it_is_drained() {
    for algorithm in LINEAR {
        let memory = FailingAllocator::new(FromGlobalAlloc::SYSTEM, Fault::Never);
        let mut block = VirtualBlock::with_algorithm(&memory, SIZE, 16, algorithm).unwrap();
        block.reserve(200).unwrap();
        let before = block.memory_bytes();
        assert_eq!(block.reserve(u32::MAX), Err(VirtualBlockError::TooManyRanges));
        assert_eq!(block.memory_bytes(), before);
        memory.arm(Fault::From(0));
        for _ in 0..2 {
            let mut live: VecDeque<_> =
                (0..200).map(|_| block.allocate(16, 16).expect("reserved").allocation).collect();
            while let Some(next) = if algorithm == Ring { live.pop_front() } else { live.pop_back() } {
                block.free(next).unwrap();
            }
        }
    }
}
