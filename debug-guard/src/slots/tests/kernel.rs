//! Both kinds over every back end that this kernel offers.

use std::prelude::v1::*;
use std::{println, vec};

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};

use super::allocated_with;
use crate::block::{BlockMark, BlockRequest, FreeRequest, GuardFinding, SiteId};
use crate::mode::{BackEnd, Mode};
use crate::os::{self, BackEnds};
use crate::report_kind::ReportKind;
use crate::slots::{SlotOptions, SlotRefused, Slots};

const PAGE: usize = 4096;
const MEMORY: &dyn HostAllocator = &FromGlobalAlloc::SYSTEM;

/// Slots, and what they found.
struct Bench {
    slots: Slots,
    findings: Vec<GuardFinding>,
    serial: u64,
}

fn options(mode: Mode) -> SlotOptions {
    SlotOptions {
        pages: 1 << 16,
        max_pages: 0,
        quarantine_blocks: 256,
        quarantine_bytes: 256 * PAGE,
        deep: false,
        mode,
    }
}

impl Bench {
    fn new(mode: Mode, back_end: BackEnd) -> Self {
        Self::with(back_end, options(mode))
    }

    fn with(back_end: BackEnd, options: SlotOptions) -> Self {
        let slots = Slots::new(MEMORY, back_end, options).expect("slots");
        Self { slots, findings: Vec::new(), serial: 0 }
    }

    fn mark(&mut self) -> BlockMark {
        self.serial += 1;
        BlockMark { site: SiteId(self.serial as u32), thread: 7, serial: self.serial }
    }

    fn try_take(&mut self, layout: Layout, right: bool, zeroed: bool) -> Result<NonNull<u8>, SlotRefused> {
        let mark = self.mark();
        let findings = &mut self.findings;
        self.slots.allocate(MEMORY, BlockRequest::new(layout, Scope::Object, zeroed), right, mark, &mut |finding| {
            findings.push(finding)
        })
    }

    fn take(&mut self, size: usize, align: usize) -> usize {
        let layout = Layout::from_size_align(size, align).expect("layout");
        self.try_take(layout, true, false).expect("block").as_ptr().expose_provenance()
    }

    fn give(&mut self, address: usize) -> bool {
        let (layout, scope) = allocated_with(&self.slots, address);
        self.give_as(address, layout, scope)
    }

    fn give_as(&mut self, address: usize, layout: Layout, scope: Scope) -> bool {
        let mark = self.mark();
        let findings = &mut self.findings;
        self.slots
            .free(address, FreeRequest { layout, scope, mark, moved_to: None }, &mut |finding| findings.push(finding))
            .is_some()
    }

    fn check(&mut self) -> usize {
        let findings = &mut self.findings;
        self.slots.check(&mut |found| findings.extend(found))
    }

    /// Nothing is left, and nothing was found that no test asked for.
    fn end(self) {
        assert!(self.findings.is_empty(), "{:#?}", self.findings);
        let mut live = 0;
        self.slots.for_each(&mut |_| live += 1);
        assert_eq!(live, 0);
        // SAFETY: no block is live, and this is the only user.
        unsafe { self.slots.close(MEMORY) };
    }
}

fn back_ends() -> impl Iterator<Item = BackEnd> {
    let offered = BackEnds::probe();
    BackEnd::ALL.iter().copied().filter(move |&back_end| back_end != BackEnd::Cookies && offered.offers(back_end))
}

fn each(test: impl Fn(Mode, BackEnd)) {
    for back_end in back_ends() {
        for mode in [Mode::Fence, Mode::Strict] {
            println!("{mode} over {back_end}");
            test(mode, back_end);
        }
    }
}

fn readable(address: usize) -> bool {
    os::read_u64(address & !7).is_some()
}

fn write(address: usize, byte: u8) {
    // SAFETY: the tests know what they write to.
    unsafe { core::ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(byte) };
}

fn read(address: usize) -> u8 {
    // SAFETY: the tests know what they read.
    unsafe { core::ptr::with_exposed_provenance::<u8>(address).read_volatile() }
}

#[test]
fn blocks_stand_between_pages_that_cannot_be_touched() {
    each(|mode, back_end| {
        let mut bench = Bench::new(mode, back_end);
        for (size, align) in [
            (1, 1),
            (61, 1),
            (64, 16),
            (PAGE, 16),
            (PAGE, PAGE),
            (PAGE + 1, 1),
            (300_000, 8),
            (100, 1 << 16),
            (3 << 20, 64),
            (5 << 20, 1 << 21),
        ] {
            let block = bench.take(size, align);
            assert_eq!(block % align, 0);
            assert_eq!((read(block), read(block + size - 1)), (0xCD, 0xCD), "{size} {align}");
            let end = (block + size).next_multiple_of(PAGE);
            assert!(end - (block + size) < align.min(PAGE));
            assert!(readable(end - 8) && !readable(end), "{size} {align}");
            assert!(!readable((block & !(PAGE - 1)) - 8), "{size} {align}");
            write(block, 1);
            write(block + size - 1, 2);
            assert!(bench.slots.contains(block) && bench.slots.contains(end));
            assert_eq!(bench.slots.validate_pointer(block).expect("live").size, size);
            assert!(bench.give(block));
            assert_eq!(readable(block), mode == Mode::Fence && size <= PAGE && align <= PAGE, "{size} {align}");
        }
        bench.end();
    });
}

#[test]
fn t16_frees_alone_let_blocks_fall_out_of_the_quarantine() {
    for back_end in back_ends() {
        let mut bench = Bench::new(Mode::Fence, back_end);
        let blocks: Vec<usize> = (0..1000).map(|_| bench.take(64, 16)).collect();
        for &block in &blocks {
            assert!(bench.give(block));
            write(block, 1);
        }
        let found = bench.findings.len();
        assert!((600..=744).contains(&found), "{found} of 1000 with 256 that wait");
        assert_eq!(bench.check(), 1000 - found, "those that wait");
        bench.findings.clear();
        bench.end();
    }
}

#[test]
fn a_stopped_access_belongs_to_the_nearest_block() {
    each(|mode, back_end| {
        let mut bench = Bench::new(mode, back_end);
        let block = bench.take(64, 16);
        let empty = bench.take(0, 1);
        let large = bench.take(5 * PAGE, 16);
        let gone = bench.take(2 * PAGE, 16);
        assert!(bench.give(gone));
        for (address, kind, start) in [
            (block + 64, ReportKind::Overflow, block),
            (block + 64 + 200, ReportKind::Overflow, block),
            (large - 1, ReportKind::Underflow, large),
            (large + 5 * PAGE, ReportKind::Overflow, large),
            (empty, ReportKind::ZeroSizeAccess, empty),
            (gone, ReportKind::UseAfterFree, gone),
            (gone + 2 * PAGE - 1, ReportKind::UseAfterFree, gone),
        ] {
            let stopped = bench.slots.classify_access(address);
            assert_eq!((stopped.kind, stopped.block.map(|known| known.start)), (kind, Some(start)), "{address:#x}");
        }
        let far = bench.slots.classify_access(block + (1 << 20));
        assert_eq!(far.kind, ReportKind::WildAccess);
        for block in [block, empty, large] {
            assert!(bench.give(block) && !bench.give(block));
            let twice = bench.findings.pop().map(|finding| finding.kind);
            assert_eq!(twice, Some(ReportKind::DoubleFree));
        }
        bench.end();
    });
}

#[test]
fn t17_the_ring_comes_round_and_addresses_rest_in_between() {
    for back_end in back_ends() {
        let small = SlotOptions { pages: 4097, ..options(Mode::Strict) };
        let mut bench = Bench::with(back_end, small);
        let mut last = std::collections::HashMap::new();
        let kept = bench.take(64, 16);
        for turn in 0..10_000_usize {
            let block = bench.take(64, 16);
            if let Some(before) = last.insert(block, turn) {
                assert!(turn - before >= 900, "{block:#x} came again after {}", turn - before);
            }
            bench.give(block);
        }
        assert!(last.len() > 1500, "{}", last.len());
        assert!(bench.slots.validate_pointer(kept).is_ok());
        bench.give(kept);
        bench.end();
    }
}

#[test]
fn what_is_taken_of_the_allocator_goes_back() {
    let host = crate::FailingAllocator::new(FromGlobalAlloc::SYSTEM, crate::Fault::Never);
    for back_end in back_ends() {
        for mode in [Mode::Fence, Mode::Strict] {
            let slots = Slots::new(&host, back_end, options(mode)).expect("slots");
            let sizes = vec![64, 5000, 3 << 20];
            for size in sizes {
                let layout = Layout::from_size_align(size, 8).expect("layout");
                let mark = BlockMark::default();
                let block = slots
                    .allocate(&host, BlockRequest::new(layout, Scope::Object, false), true, mark, &mut |_| {})
                    .expect("block");
                let before = host.requests();
                assert!(
                    slots
                        .free(
                            block.as_ptr().addr(),
                            FreeRequest { layout, scope: Scope::Object, mark, moved_to: None },
                            &mut |_| {}
                        )
                        .is_some()
                );
                assert_eq!(host.requests(), before, "a free takes nothing");
            }
            assert!(host.live_bytes() > 0);
            // SAFETY: no block is live, and this is the only user.
            unsafe { slots.close(&host) };
            assert_eq!(host.live_bytes(), 0);
        }
    }
}
