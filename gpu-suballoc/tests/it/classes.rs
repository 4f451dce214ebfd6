//! The classes that can be had without a device: transient pages and linear blocks. Runs under miri.

use std::alloc::Layout;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::NonNull;

use alloc_core::{AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, Scope};
use gpu_suballoc::{
    LinearBlock, LinearError, LinearRange, TransientPages, TransientRange, VirtualBlockError,
};

/// The system's memory, counted; the `refuse`th request from now on is refused.
#[derive(Default)]
struct ClassHost {
    blocks: Cell<isize>,
    bytes: Cell<usize>,
    refuse: Cell<u32>,
}

// SAFETY: every block is the system's, handed through.
unsafe impl HostAllocator for ClassHost {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let left = self.refuse.get();
        self.refuse.set(left.saturating_sub(1));
        if left == 1 {
            return Err(AllocError);
        }
        let block = FromGlobalAlloc::SYSTEM.allocate(layout, scope)?;
        self.blocks.set(self.blocks.get() + 1);
        self.bytes.set(self.bytes.get() + layout.size());
        Ok(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: forwarded.
        unsafe { FromGlobalAlloc::SYSTEM.deallocate(block, layout, scope) };
        self.blocks.set(self.blocks.get() - 1);
        self.bytes.set(self.bytes.get() - layout.size());
    }
}

const TURNS: u32 = if cfg!(miri) { 300 } else { 30_000 };

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % below
    }
}

#[test]
fn transient_pages_agree_with_a_list_and_give_all_memory_back() {
    let host = ClassHost::default();
    let mut pages = TransientPages::new(&host, 1 << 22, 256, 1 << 16).unwrap();
    let (mut live, mut random) = (VecDeque::<TransientRange>::new(), Random(3));
    let (mut placed, mut full) = (0u32, 0u32);
    for turn in 0..TURNS {
        let (size, alignment) = (1 + random.below(8192), 1 << random.below(14));
        match pages.allocate(size, alignment) {
            Ok(range) => {
                assert!(
                    range.size >= size
                        && range.offset % alignment == 0
                        && range.offset + range.size <= 1 << 22
                );
                let overlap = live.iter().find(|other| {
                    range.offset < other.offset + other.size
                        && other.offset < range.offset + range.size
                });
                assert_eq!(overlap, None, "{range:?}");
                assert_eq!(pages.info(range.allocation), Ok((range.offset, range.size)));
                live.push_back(range);
                placed += 1;
            }
            Err(error) => {
                assert_eq!(error, VirtualBlockError::Full);
                full += 1;
            }
        }
        while live.len() as u64 > 100 + u64::from(turn) % 600 / 2 {
            let range = live.pop_front().unwrap();
            assert_eq!(pages.free(range.allocation), Ok(()));
            assert_eq!(pages.free(range.allocation), Err(VirtualBlockError::Stale));
            assert_eq!(pages.info(range.allocation), Err(VirtualBlockError::Stale));
        }
        let statistics = pages.statistics();
        assert_eq!(statistics.allocation_count as usize, live.len());
        assert_eq!(
            statistics.allocation_bytes,
            live.iter().map(|range| range.size).sum::<u64>()
        );
        assert_eq!(statistics.memory_bytes, host.bytes.get() as u64);
    }
    assert!(placed > TURNS / 2, "{placed} placed, {full} refused");
    let mut seen = Vec::new();
    pages.for_each(|range| seen.push(range));
    seen.sort_by_key(|range| range.offset);
    live.make_contiguous().sort_by_key(|range| range.offset);
    assert_eq!(seen, Vec::from(live));
    drop(pages);
    assert_eq!((host.blocks.get(), host.bytes.get()), (0, 0));
}

#[test]
fn transient_pages_survive_every_refusal() {
    for nth in 1.. {
        let host = ClassHost::default();
        let mut pages = TransientPages::new(&host, 1 << 22, 256, 1 << 16).unwrap();
        host.refuse.set(nth);
        let mut refused = 0;
        for count in 0..if cfg!(miri) { 70 } else { 200 } {
            let before = pages.statistics();
            if let Err(error) = pages.allocate(1000, 1) {
                assert!(matches!(error, VirtualBlockError::Host(_)), "{error:?}");
                let after = pages.statistics();
                assert_eq!(
                    (after.allocation_count, after.allocation_bytes),
                    (before.allocation_count, before.allocation_bytes)
                );
                refused += 1;
                assert!(pages.allocate(1000, 1).is_ok(), "the next try succeeds");
            }
            assert_eq!(pages.statistics().allocation_count, count + 1);
        }
        drop(pages);
        assert_eq!(host.blocks.get(), 0);
        if refused == 0 {
            assert!(nth > 3, "there was something to refuse");
            break;
        }
    }
}

#[test]
fn transient_pages_refuse_what_makes_no_sense() {
    let host = ClassHost::default();
    let new = |size, granule, page| TransientPages::new(&host, size, granule, page).map(|_| ());
    assert_eq!(new(1 << 20, 3, 1 << 16), Err(VirtualBlockError::Granule));
    assert_eq!(
        new(1 << 20, 256, 3 << 16),
        Err(VirtualBlockError::Alignment)
    );
    assert_eq!(new(1 << 20, 256, 1024), Err(VirtualBlockError::Alignment));
    assert_eq!(
        new((1 << 16) - 1, 256, 1 << 16),
        Err(VirtualBlockError::ZeroSize)
    );
    let mut pages = TransientPages::new(&host, 1 << 20, 256, 1 << 16).unwrap();
    let mut other = TransientPages::new(&host, 1 << 20, 256, 1 << 16).unwrap();
    assert_eq!(pages.largest(), 1 << 13);
    assert_eq!(pages.allocate(0, 1), Err(VirtualBlockError::ZeroSize));
    assert_eq!(pages.allocate(1, 0), Err(VirtualBlockError::Alignment));
    assert_eq!(pages.allocate(1, 12), Err(VirtualBlockError::Alignment));
    for size in [(1 << 13) + 1, 1 << 63, u64::MAX - 15, u64::MAX] {
        assert_eq!(pages.allocate(size, 1), Err(VirtualBlockError::TooLarge));
    }
    assert_eq!(pages.allocate(1, 1 << 14), Err(VirtualBlockError::TooLarge));
    let range = pages.allocate(1 << 13, 1 << 13).unwrap();
    assert_eq!(
        other.free(range.allocation),
        Err(VirtualBlockError::Foreign)
    );
    assert_eq!(pages.free(range.allocation), Ok(()));
}

/// A linear block beside a list of what lives in it.
struct Linear<'h> {
    block: LinearBlock<&'h ClassHost>,
    lower: VecDeque<LinearRange>,
    upper: Vec<LinearRange>,
}

const SIZE: u64 = 1 << 16;

impl<'h> Linear<'h> {
    fn new(host: &'h ClassHost) -> Self {
        Self {
            block: LinearBlock::new(host, SIZE, 256).unwrap(),
            lower: VecDeque::new(),
            upper: Vec::new(),
        }
    }

    fn allocate(&mut self, upper: bool, size: u64, alignment: u64) -> Result<(), LinearError> {
        let range = if upper {
            self.block.allocate_upper(size, alignment)?
        } else {
            self.block.allocate(size, alignment)?
        };
        assert!(
            range.size >= size
                && range.offset % alignment == 0
                && range.offset + range.size <= SIZE,
            "{range:?}"
        );
        for other in self.lower.iter().chain(&self.upper) {
            assert!(
                range.offset >= other.offset + other.size
                    || other.offset >= range.offset + range.size,
                "{range:?} overlaps {other:?}"
            );
        }
        assert_eq!(
            self.block.info(range.allocation),
            Ok((range.offset, range.size))
        );
        if upper {
            self.upper.push(range)
        } else {
            self.lower.push_back(range)
        }
        Ok(())
    }

    /// Frees one that was taken out of the lists.
    fn free(&mut self, range: LinearRange) {
        assert_eq!(self.block.free(range.allocation), Ok(()));
        assert_eq!(self.block.free(range.allocation), Err(LinearError::Stale));
        assert_eq!(self.block.info(range.allocation), Err(LinearError::Stale));
    }

    fn check(&self) {
        let live: Vec<LinearRange> = self.lower.iter().chain(&self.upper).copied().collect();
        let mut seen = Vec::new();
        self.block.for_each(|range| seen.push(range));
        assert_eq!(seen, live);
        assert_eq!(
            self.block.live(),
            (live.len() as u32, live.iter().map(|range| range.size).sum())
        );
    }
}

#[test]
fn linear_blocks_agree_with_a_list() {
    let host = ClassHost::default();
    let mut linear = Linear::new(&host);
    let mut random = Random(11);
    let (mut placed, mut full, mut ring, mut wrapped, mut out_of_order) = (0, 0, 0, 0, 0);
    for turn in 0..TURNS {
        // For a while a ring, for a while two stacks, for a while anything.
        let mode = turn / 97 % 3;
        let upper = mode > 0 && random.below(2) == 0;
        if random.below(20) < 11 {
            match linear.allocate(upper, 1 + random.below(4096), 1 << random.below(11)) {
                Ok(()) => placed += 1,
                Err(LinearError::Full) => full += 1,
                Err(LinearError::Ring) => ring += 1,
                Err(error) => panic!("{error:?}"),
            }
        } else if upper {
            if let Some(range) = linear.upper.pop() {
                linear.free(range);
            }
        } else {
            let range = if mode == 0 || random.below(3) == 0 {
                linear.lower.pop_front()
            } else {
                linear.lower.pop_back()
            };
            if let Some(range) = range {
                linear.free(range);
            }
        }
        let inner = linear
            .lower
            .get(1)
            .filter(|_| linear.lower.len() > 2)
            .or_else(|| linear.upper.iter().rev().nth(1))
            .copied();
        if let Some(inner) = inner {
            assert_eq!(
                linear.block.free(inner.allocation),
                Err(LinearError::OutOfOrder)
            );
            out_of_order += 1;
        }
        wrapped += u32::from(
            linear
                .lower
                .front()
                .zip(linear.lower.back())
                .is_some_and(|(first, last)| last.offset < first.offset),
        );
        linear.check();
    }
    assert!(
        placed > TURNS / 3 && full > 0 && wrapped > 0 && out_of_order > 0,
        "{placed} {full} {ring} {wrapped} {out_of_order}"
    );
    assert!(
        ring > 0 || cfg!(miri),
        "the upper end of a ring was never asked for"
    );
    linear.block.clear();
    assert_eq!(linear.block.live(), (0, 0));
    drop(linear);
    assert_eq!((host.blocks.get(), host.bytes.get()), (0, 0));
}

#[test]
fn a_ring_is_used_to_the_last_byte() {
    let host = ClassHost::default();
    let mut linear = Linear::new(&host);
    for _ in 0..4 {
        linear.allocate(false, SIZE / 4, 1).unwrap();
    }
    for _ in 0..100 {
        assert_eq!(linear.allocate(false, 1, 1), Err(LinearError::Full));
        let oldest = linear.lower.pop_front().unwrap();
        linear.free(oldest);
        linear.allocate(false, SIZE / 4, 1).unwrap();
        assert_eq!(
            linear.lower.back().map(|range| range.offset),
            Some(oldest.offset)
        );
    }
}

#[test]
fn linear_blocks_survive_every_refusal() {
    for nth in 1..=8 {
        let host = ClassHost::default();
        let mut linear = Linear::new(&host);
        host.refuse.set(nth);
        let mut refused = 0;
        for turn in 0..120u64 {
            let upper = turn % 2 == 1;
            if let Err(error) = linear.allocate(upper, 256, 1) {
                assert!(matches!(error, LinearError::Host(_)), "{error:?}");
                linear.check();
                refused += 1;
                linear
                    .allocate(upper, 256, 1)
                    .expect("the next try succeeds");
            }
        }
        linear.check();
        assert_eq!(
            refused,
            u32::from(nth <= 6),
            "three tables of 16, 32 and 64 ranges at each end"
        );
    }
}

#[test]
fn linear_blocks_refuse_what_makes_no_sense() {
    let host = ClassHost::default();
    assert_eq!(
        LinearBlock::new(&host, 1 << 16, 3).map(|_| ()),
        Err(LinearError::Alignment)
    );
    assert_eq!(
        LinearBlock::new(&host, 255, 256).map(|_| ()),
        Err(LinearError::ZeroSize)
    );
    let (mut linear, mut other) = (Linear::new(&host), Linear::new(&host));
    for upper in [false, true] {
        assert_eq!(linear.allocate(upper, 0, 1), Err(LinearError::ZeroSize));
        assert_eq!(linear.allocate(upper, 1, 0), Err(LinearError::Alignment));
        assert_eq!(linear.allocate(upper, 1, 3), Err(LinearError::Alignment));
        for size in [SIZE + 1, 1 << 63, u64::MAX - 15, u64::MAX] {
            assert_eq!(linear.allocate(upper, size, 1), Err(LinearError::TooLarge));
        }
        linear.allocate(upper, 256, 1).unwrap();
        assert_eq!(linear.allocate(upper, 256, 1 << 63), Err(LinearError::Full));
    }
    let [lower, upper] = [linear.lower[0], linear.upper[0]];
    assert_eq!(
        other.block.free(lower.allocation),
        Err(LinearError::Foreign)
    );
    assert_eq!(
        other.block.info(upper.allocation),
        Err(LinearError::Foreign)
    );
    assert_eq!((lower.offset, upper.offset), (0, SIZE - 256));
}
