//! The class that can be had without a device: transient pages. Runs under miri.

use std::alloc::Layout;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::NonNull;

use alloc_core::{AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, Scope};
use gpu_suballoc::virtual_block::{TransientPages, TransientRange, VirtualBlockError};

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
