//! Stacks, double stacks and rings: virtual blocks beside a list, and pools on every profile. The first half runs under miri.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::over;
use alloc_core::FromGlobalAlloc;
use debug_guard::{FailingAllocator, Fault};
use gpu_suballoc::virtual_block::{
    VirtualAllocationOptions, VirtualBlockError, VirtualPiece, VirtualRange,
};
use gpu_suballoc::{
    BlockAlgorithm, GpuAllocator, GpuMisuse, PoolOptions, Region, RegionOptions,
    ResourceRequirements, VirtualBlock,
};
use mock_device::{MockCall, MockDevice, MockProfile};
use testkit::RecordingAllocator;

const LINEAR: [BlockAlgorithm; 3] = [
    BlockAlgorithm::Stack,
    BlockAlgorithm::DoubleStack,
    BlockAlgorithm::Ring,
];
const SIZE: u64 = 1 << 16;
const TURNS: u32 = if cfg!(miri) { 400 } else { 20_000 };

/// A number below `bound`.
fn below(state: &mut u64, bound: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % bound
}

/// What lives in a block, in the order it came, each with what was asked for.
#[derive(Default)]
struct Model {
    lower: VecDeque<(VirtualRange, u64)>,
    upper: Vec<(VirtualRange, u64)>,
}

impl Model {
    fn all(&self) -> Vec<(VirtualRange, u64)> {
        let mut all: Vec<_> = self.lower.iter().chain(&self.upper).copied().collect();
        all.sort_by_key(|(range, _)| range.offset);
        all
    }

    /// Which of the lower end goes next; the others.
    fn next(&mut self, algorithm: BlockAlgorithm) -> Option<(VirtualRange, u64)> {
        if algorithm == BlockAlgorithm::Ring {
            self.lower.pop_front()
        } else {
            self.lower.pop_back()
        }
    }
}

fn check<A: alloc_core::HostAllocator>(block: &VirtualBlock<A>, model: &Model) {
    let all = model.all();
    let (mut end, mut seen, mut holes, mut largest) = (0, Vec::new(), 0, 0);
    block.for_each(|VirtualPiece { offset, size, used }| {
        assert_eq!(offset, end, "pieces are the block");
        end = offset + size;
        match used {
            Some((name, _)) => seen.push((name, offset, size)),
            None => {
                holes += 1;
                largest = largest.max(size);
            }
        }
    });
    assert_eq!(end, SIZE);
    let mine: Vec<_> = all
        .iter()
        .map(|(range, _)| (range.allocation, range.offset, range.size))
        .collect();
    assert_eq!(seen, mine);
    let sums = block.statistics();
    assert_eq!(
        (
            sums.allocation_count,
            sums.allocation_bytes,
            sums.unused_range_count
        ),
        (
            all.len() as u32,
            all.iter().map(|(range, _)| range.size).sum(),
            holes
        )
    );
    assert_eq!(
        (block.largest_free(), sums.largest_free_bound),
        (largest, largest)
    );
    assert_eq!(block.is_empty(), all.is_empty());
    for (range, asked) in all {
        let info = block.info(range.allocation).unwrap();
        assert_eq!((info.offset, info.size), (range.offset, asked));
    }
}

#[test]
fn ge6_a_linear_virtual_block_agrees_with_a_list() {
    for algorithm in LINEAR {
        let host = RecordingAllocator::system();
        let mut block = VirtualBlock::with_algorithm(&host, SIZE, 256, algorithm).unwrap();
        let (mut model, mut random) = (Model::default(), 11);
        let (mut placed, mut full, mut wrapped, mut refused) = (0, 0, 0, 0);
        for turn in 0..TURNS {
            let two = algorithm == BlockAlgorithm::DoubleStack;
            let upper = two && below(&mut random, 2) == 0;
            // For a while it fills, for a while it drains.
            if below(&mut random, 20) < if turn / 50 % 2 == 0 { 13 } else { 8 } {
                let asked = 1 + below(&mut random, 4096);
                let alignment = 1 << below(&mut random, 11);
                let options = VirtualAllocationOptions {
                    upper_address: upper,
                    user_data: turn,
                    ..VirtualAllocationOptions::new(asked, alignment)
                };
                match block.allocate_with(&options) {
                    Ok(range) => {
                        assert!(range.offset % alignment == 0 && range.size >= asked);
                        assert!(range.offset + range.size <= SIZE);
                        let apart = |(other, _): &(VirtualRange, u64)| {
                            range.offset >= other.offset + other.size
                                || other.offset >= range.offset + range.size
                        };
                        assert!(model.all().iter().all(apart), "{range:?} overlaps");
                        assert_eq!(block.info(range.allocation).unwrap().user_data, turn);
                        if upper {
                            model.upper.push((range, asked));
                        } else {
                            let last = model.lower.back();
                            wrapped +=
                                u32::from(last.is_some_and(|(last, _)| range.offset < last.offset));
                            model.lower.push_back((range, asked));
                        }
                        placed += 1;
                    }
                    Err(error) => {
                        assert_eq!(error, VirtualBlockError::Full);
                        full += 1;
                    }
                }
            } else {
                // Whatever is not next is refused, and stays.
                let others = model.lower.len().saturating_sub(1);
                if others > 0 {
                    let nth = below(&mut random, others as u64) as usize;
                    let nth = nth + usize::from(algorithm == BlockAlgorithm::Ring);
                    let wrong = model.lower[nth].0.allocation;
                    assert_eq!(block.free(wrong), Err(VirtualBlockError::OutOfOrder));
                    refused += 1;
                }
                if upper && model.upper.len() > 1 {
                    let wrong = model.upper[0].0.allocation;
                    assert_eq!(block.free(wrong), Err(VirtualBlockError::OutOfOrder));
                }
                let next = if upper {
                    model.upper.pop()
                } else {
                    model.next(algorithm)
                };
                if let Some((range, _)) = next {
                    assert_eq!(block.free(range.allocation), Ok(()));
                    assert_eq!(block.free(range.allocation), Err(VirtualBlockError::Stale));
                    assert_eq!(block.info(range.allocation), Err(VirtualBlockError::Stale));
                }
            }
            if turn % 7 == 0 {
                check(&block, &model);
            }
        }
        assert!(
            placed > TURNS / 4 && full > 0 && refused > 0,
            "{placed} {full} {refused}"
        );
        assert_eq!(wrapped > 0, algorithm == BlockAlgorithm::Ring);
        block.clear();
        assert!(block.is_empty());
        let whole = block.allocate(SIZE, 1).expect("all of it is free");
        assert_eq!(whole.offset, 0);
        for (range, _) in model.all() {
            assert_eq!(block.info(range.allocation), Err(VirtualBlockError::Stale));
        }
        assert_eq!(block.memory_bytes(), host.total().live_bytes);
        drop(block);
        host.assert_empty("by a dropped block");
    }
}

#[test]
fn ge6_a_ring_is_used_to_the_last_byte() {
    let mut ring =
        VirtualBlock::with_algorithm(FromGlobalAlloc::SYSTEM, SIZE, 256, BlockAlgorithm::Ring)
            .unwrap();
    let mut live: VecDeque<_> = (0..4)
        .map(|_| ring.allocate(SIZE / 4, 1).unwrap())
        .collect();
    for _ in 0..100 {
        assert_eq!(ring.allocate(1, 1), Err(VirtualBlockError::Full));
        let oldest = live.pop_front().unwrap();
        ring.free(oldest.allocation).unwrap();
        let next = ring.allocate(SIZE / 4, 1).unwrap();
        assert_eq!(next.offset, oldest.offset);
        live.push_back(next);
    }
}

#[test]
fn ge6_linear_blocks_survive_every_refusal() {
    for nth in 0..4 {
        let host = FailingAllocator::new(RecordingAllocator::system(), Fault::Never);
        let mut block =
            VirtualBlock::with_algorithm(&host, SIZE, 256, BlockAlgorithm::DoubleStack).unwrap();
        host.arm(Fault::Nth(nth));
        let mut refused = 0;
        for turn in 0..100u64 {
            let options = VirtualAllocationOptions {
                upper_address: turn % 2 == 1,
                ..VirtualAllocationOptions::new(256, 1)
            };
            if let Err(error) = block.allocate_with(&options) {
                assert!(matches!(error, VirtualBlockError::Host(_)), "{error:?}");
                assert_eq!(u64::from(block.statistics().allocation_count), turn);
                refused += 1;
                block
                    .allocate_with(&options)
                    .expect("the next try succeeds");
            }
        }
        assert_eq!(refused, 1, "tables of 16, 32, 64 and 128 nodes");
        host.arm(Fault::Never);
        block.reserve(100).unwrap();
        host.arm(Fault::From(0));
        assert!((0..100).all(|_| block.allocate(1, 1).is_ok()), "reserved");
    }
}

#[test]
fn h98_ge6_blocks_of_each_algorithm_refuse_what_makes_no_sense() {
    for algorithm in LINEAR.into_iter().chain([BlockAlgorithm::General]) {
        let make = |size, granule| {
            VirtualBlock::with_algorithm(FromGlobalAlloc::SYSTEM, size, granule, algorithm)
                .map(|_| ())
        };
        assert_eq!(make(1 << 16, 3), Err(VirtualBlockError::Granule));
        assert_eq!(make(255, 256), Err(VirtualBlockError::ZeroSize));
        assert_eq!(make(1 << 40, 1), Err(VirtualBlockError::TooLarge));
        let [mut block, mut other] = [(); 2].map(|()| {
            VirtualBlock::with_algorithm(FromGlobalAlloc::SYSTEM, SIZE, 256, algorithm).unwrap()
        });
        assert_eq!(block.allocate(0, 1), Err(VirtualBlockError::ZeroSize));
        for alignment in [0, 3] {
            assert_eq!(
                block.allocate(1, alignment),
                Err(VirtualBlockError::Alignment)
            );
        }
        for size in [SIZE + 1, 1 << 63, u64::MAX - 15, u64::MAX] {
            assert_eq!(block.allocate(size, 1), Err(VirtualBlockError::TooLarge));
        }
        assert_eq!(
            block.allocate(256, 1 << 63),
            Err(VirtualBlockError::TooLarge)
        );
        let upper = block.allocate_with(&VirtualAllocationOptions {
            upper_address: true,
            ..VirtualAllocationOptions::new(256, 1)
        });
        if matches!(
            algorithm,
            BlockAlgorithm::DoubleStack | BlockAlgorithm::General
        ) {
            assert_eq!(upper.map(|range| range.offset), Ok(SIZE - 256));
        } else {
            assert_eq!(upper, Err(VirtualBlockError::NoUpperEnd));
        }
        let range = block.allocate(256, 1).unwrap();
        assert_eq!(
            other.free(range.allocation),
            Err(VirtualBlockError::Foreign)
        );
        assert_eq!(
            other.info(range.allocation),
            Err(VirtualBlockError::Foreign)
        );
        assert_eq!(
            other.set_user_data(range.allocation, 1),
            Err(VirtualBlockError::Foreign)
        );
        assert_eq!(block.set_user_data(range.allocation, 9), Ok(()));
        assert_eq!(block.info(range.allocation).unwrap().user_data, 9);
    }
}

/// A pool of this kind in the first memory type, on every profile.
fn pools(
    algorithm: BlockAlgorithm,
    body: impl Fn(&GpuAllocator<&MockDevice<RecordingAllocator>, RecordingAllocator>, RegionOptions<'_>),
) {
    for profile in MockProfile::ALL {
        let mock = MockDevice::new(profile, RecordingAllocator::system());
        let host = RecordingAllocator::system();
        // SAFETY: a mock, and nothing runs on it.
        let gpu = over(&mock, host.clone());
        let pool = gpu
            .create_pool(&PoolOptions {
                algorithm,
                block_size: Some(SIZE),
                ..PoolOptions::new(0)
            })
            .unwrap();
        body(&gpu, RegionOptions::new().pool(pool));
        gpu.destroy_pool(pool).expect("no region lives");
        gpu.close().unwrap();
        assert_eq!(mock.live_counts().memory, 0);
        host.assert_empty("by the allocator");
        assert!(mock.violations().is_empty(), "{}", mock.violations());
    }
}

const QUARTER: ResourceRequirements = ResourceRequirements::new(SIZE / 4, 256);

#[test]
fn ge6_a_pool_frees_in_its_order_and_says_so_otherwise() {
    for algorithm in LINEAR {
        pools(algorithm, |gpu, options| {
            let mut live: VecDeque<Region> = (0..4)
                .map(|_| gpu.allocate(&QUARTER, &options).unwrap())
                .collect();
            assert!(
                gpu.allocate(&ResourceRequirements::new(1, 1), &options)
                    .is_err()
            );
            let next_of = |live: &mut VecDeque<Region>| {
                if algorithm == BlockAlgorithm::Ring {
                    live.pop_front()
                } else {
                    live.pop_back()
                }
                .unwrap()
            };
            let wrong = live.remove(1).expect("in the middle");
            let id = wrong.id();
            assert_eq!(gpu.free_id(id), Err(GpuMisuse::OutOfOrder.into()));
            let refused = gpu.free(wrong).expect_err("it is not its turn");
            assert_eq!(refused.error, GpuMisuse::OutOfOrder.into());
            let mut batch = [Some(refused.value)];
            let refused = gpu.free_batch(&mut batch).expect_err("nor in a batch");
            assert_eq!(refused.error, GpuMisuse::OutOfOrder.into());
            let wrong = batch[0].take().expect("it was given back");

            // Given up before its turn: gone for its owner, and its room later.
            gpu.free_when_unused(wrong).expect("whenever that is");
            assert_eq!(gpu.free_id(id), Err(GpuMisuse::Stale.into()));
            assert!(
                gpu.allocate(&QUARTER, &options).is_err(),
                "its room is not there yet"
            );
            let next = next_of(&mut live);
            let at = next.offset();
            gpu.free(next).expect("it is its turn");
            let again = gpu
                .allocate(&QUARTER, &options)
                .expect("where the last one was");
            assert_eq!(again.offset(), at);
            live.push_back(again);
            while !live.is_empty() {
                let next = next_of(&mut live);
                gpu.free(next).unwrap();
            }
            let all = gpu
                .allocate(&ResourceRequirements::new(SIZE, 1), &options)
                .expect("all of it came back");
            gpu.free(all).unwrap();
        });
    }
}

#[test]
fn ge6_a_linear_pool_that_placed_nothing_ends_with_all_its_memory() {
    pools(BlockAlgorithm::Ring, |gpu, options| {
        let larger = ResourceRequirements::new(2 * SIZE, 16);
        assert!(gpu.allocate(&larger, &options).is_err());
    });
}

#[test]
fn ge6_a_pool_of_two_stacks_grows_from_both_ends() {
    pools(BlockAlgorithm::DoubleStack, |gpu, options| {
        let upper = options.upper_address();
        let one = gpu.allocate(&QUARTER, &options).unwrap();
        let two = gpu.allocate(&QUARTER, &upper).unwrap();
        let three = gpu.allocate(&QUARTER, &upper).unwrap();
        assert_eq!(
            [&one, &two, &three].map(Region::offset),
            [0, SIZE / 4 * 3, SIZE / 2]
        );
        let refused = gpu.free(two).expect_err("three is newer");
        assert_eq!(refused.error, GpuMisuse::OutOfOrder.into());
        gpu.free(one).expect("the newest of its end");
        gpu.free(three).expect("the newest of its end");
        gpu.free(refused.value).expect("now it is");
    });
    for algorithm in [
        BlockAlgorithm::Stack,
        BlockAlgorithm::Ring,
        BlockAlgorithm::General,
    ] {
        pools(algorithm, |gpu, options| {
            let refused = gpu.allocate(&QUARTER, &options.upper_address());
            assert_eq!(refused.unwrap_err(), GpuMisuse::NoUpperEnd.into());
            let refused = gpu.allocate(&QUARTER, &RegionOptions::new().upper_address());
            assert_eq!(refused.unwrap_err(), GpuMisuse::NoUpperEnd.into());
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
            gpu.allocate_batch(&QUARTER, &options, &mut batch)
                .expect("three more fit");
            let mut all: Vec<_> = std::iter::once(Some(first)).chain(batch).collect();
            if algorithm != BlockAlgorithm::Ring {
                all.reverse();
            }
            gpu.free_batch(&mut all).unwrap();
        });
    }
}

#[test]
fn ge6_more_ranges_than_there_can_be_are_not_reserved() {
    for algorithm in LINEAR {
        let block = VirtualBlock::with_algorithm(FromGlobalAlloc::SYSTEM, SIZE, 256, algorithm);
        let mut block = block.unwrap();
        block.allocate(256, 1).unwrap();
        let before = block.memory_bytes();
        let reserved = block.reserve(u32::MAX);
        assert_eq!(reserved, Err(VirtualBlockError::TooManyRanges));
        assert_eq!(block.memory_bytes(), before);
    }
}

/// A pool has the place of one that was destroyed, and nothing else of it.
#[test]
fn ge16_a_pool_in_the_place_of_another_allocates_as_its_own_algorithm_does() {
    let all = [BlockAlgorithm::General]
        .into_iter()
        .chain(LINEAR)
        .collect::<Vec<_>>();
    for (before, after) in all
        .iter()
        .flat_map(|one| all.iter().map(move |other| (*one, *other)))
    {
        let mock = MockDevice::new(MockProfile::Nvidia, RecordingAllocator::system());
        let host = RecordingAllocator::system();
        let gpu = over(&mock, host.clone());
        let made = |algorithm| {
            let options = PoolOptions {
                algorithm,
                block_size: Some(SIZE),
                ..PoolOptions::new(0)
            };
            gpu.create_pool(&options).unwrap()
        };
        let needs = ResourceRequirements::new(256, 16).memory_types(1);
        // Of a pool that was used, and of one that was not.
        for is_used in [false, true] {
            let pool = made(before);
            if is_used {
                let options = RegionOptions::new().pool(pool);
                gpu.free(gpu.allocate(&needs, &options).unwrap()).unwrap();
            }
            gpu.destroy_pool(pool).unwrap();
            let pool = made(after);
            let lower = RegionOptions::new().pool(pool);
            let ends = if after == BlockAlgorithm::DoubleStack {
                vec![lower.upper_address(), lower]
            } else {
                vec![lower]
            };
            let blocks: &'static AtomicU32 = Box::leak(Box::default());
            mock.set_hook(Some(Box::leak(Box::new(move |call| {
                blocks.fetch_add(u32::from(call == MockCall::Allocate), Relaxed);
            }))));
            for options in ends {
                let region = gpu.allocate(&needs, &options).unwrap();
                gpu.free(region).unwrap();
            }
            mock.set_hook(None);
            let blocks = blocks.load(Relaxed);
            assert_eq!(blocks, 1, "{after:?} after {before:?}, used: {is_used}");
            gpu.destroy_pool(pool).unwrap();
        }
        assert!(gpu.close().is_ok());
        host.assert_empty("after the allocator was closed");
    }
}
