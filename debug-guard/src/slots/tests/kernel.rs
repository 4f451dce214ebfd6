//! Both kinds over every back end that this kernel offers.

use std::prelude::v1::*;
use std::{println, thread, vec};

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};

use super::allocated_with;
use crate::block::{BlockMark, BlockRequest, BlockState, FreeRequest, GuardFinding, SiteId};
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
        Self {
            slots,
            findings: Vec::new(),
            serial: 0,
        }
    }

    fn mark(&mut self) -> BlockMark {
        self.serial += 1;
        BlockMark {
            site: SiteId(self.serial as u32),
            thread: 7,
            serial: self.serial,
        }
    }

    fn try_take(
        &mut self,
        layout: Layout,
        right: bool,
        zeroed: bool,
    ) -> Result<NonNull<u8>, SlotRefused> {
        let mark = self.mark();
        let findings = &mut self.findings;
        self.slots.allocate(
            MEMORY,
            BlockRequest::new(layout, Scope::Object, zeroed),
            right,
            mark,
            &mut |finding| findings.push(finding),
        )
    }

    fn take(&mut self, size: usize, align: usize) -> usize {
        let layout = Layout::from_size_align(size, align).expect("layout");
        self.try_take(layout, true, false)
            .expect("block")
            .as_ptr()
            .expose_provenance()
    }

    fn give(&mut self, address: usize) -> bool {
        let (layout, scope) = allocated_with(&self.slots, address);
        self.give_as(address, layout, scope)
    }

    fn give_as(&mut self, address: usize, layout: Layout, scope: Scope) -> bool {
        let mark = self.mark();
        let findings = &mut self.findings;
        self.slots
            .free(
                address,
                FreeRequest {
                    layout,
                    scope,
                    mark,
                    moved_to: None,
                },
                &mut |finding| findings.push(finding),
            )
            .is_some()
    }

    /// The one fault found since the last time.
    fn one(&mut self) -> GuardFinding {
        assert_eq!(self.findings.len(), 1, "{:#?}", self.findings);
        self.findings.remove(0)
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
    BackEnd::ALL
        .iter()
        .copied()
        .filter(move |&back_end| back_end != BackEnd::Cookies && offered.offers(back_end))
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
            assert_eq!(
                (read(block), read(block + size - 1)),
                (0xCD, 0xCD),
                "{size} {align}"
            );
            let end = (block + size).next_multiple_of(PAGE);
            assert!(end - (block + size) < align.min(PAGE));
            assert!(readable(end - 8) && !readable(end), "{size} {align}");
            assert!(!readable((block & !(PAGE - 1)) - 8), "{size} {align}");
            write(block, 1);
            write(block + size - 1, 2);
            assert!(bench.slots.contains(block) && bench.slots.contains(end));
            assert_eq!(
                bench.slots.validate_pointer(block).expect("live").size,
                size
            );
            assert!(bench.give(block));
            assert_eq!(
                readable(block),
                mode == Mode::Fence && size <= PAGE && align <= PAGE,
                "{size} {align}"
            );
        }
        bench.end();
    });
}

#[test]
fn t02_a_byte_in_the_slack_is_found_at_the_free() {
    each(|mode, back_end| {
        let mut bench = Bench::new(mode, back_end);
        let block = bench.take(61, 16);
        let before = read(block + 61);
        write(block + 61, 0);
        assert!(bench.give(block));
        let finding = bench.one();
        assert_eq!(
            (finding.kind, finding.address),
            (ReportKind::Overflow, block + 61)
        );
        let changed = finding.changed.expect("bytes");
        assert_eq!(
            (
                changed.first,
                changed.span,
                changed.expected[0],
                changed.actual[0]
            ),
            (block + 61, 1, before, 0)
        );
        let known = finding.block.expect("block");
        assert_eq!(
            (known.start, known.size, known.align, known.state),
            (block, 61, 16, BlockState::Freed)
        );
        assert_eq!((known.allocated.serial, known.freed.serial), (1, 2));
        bench.end();
    });
}

#[test]
fn t10_a_byte_in_front_is_found_at_the_free_or_asked_for() {
    each(|mode, back_end| {
        let mut bench = Bench::new(mode, back_end);
        let block = bench.take(64, 16);
        for offset in [1, 17, 256] {
            write(block - offset, 0);
            assert_eq!(bench.check(), 1);
            let finding = bench.one();
            assert_eq!(
                (finding.kind, finding.address),
                (ReportKind::Underflow, block - offset)
            );
            assert_eq!(bench.check(), 0, "written back");
        }
        write(block - 1, 0);
        assert!(bench.give(block));
        assert_eq!(bench.one().kind, ReportKind::Underflow);
        bench.end();
    });
}

#[test]
fn t16_a_write_after_the_free_is_found_when_the_block_has_waited() {
    for back_end in back_ends() {
        let mut bench = Bench::new(Mode::Fence, back_end);
        let block = bench.take(64, 16);
        assert!(bench.give(block));
        write(block + 5, 7);
        for _ in 0..400 {
            let other = bench.take(64, 16);
            bench.give(other);
            if !bench.findings.is_empty() {
                break;
            }
            assert_ne!(other, block);
        }
        let finding = bench.one();
        assert_eq!(
            (finding.kind, finding.address),
            (ReportKind::UseAfterFree, block + 5)
        );
        assert_eq!(
            finding
                .block
                .map(|known| (known.start, known.allocated.serial, known.freed.serial)),
            Some((block, 1, 2))
        );
        bench.end();
    }
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
        assert!(
            (600..=744).contains(&found),
            "{found} of 1000 with 256 that wait"
        );
        assert_eq!(bench.check(), 1000 - found, "those that wait");
        bench.findings.clear();
        bench.end();
    }
}

#[test]
fn t20_the_second_free_names_the_first() {
    each(|mode, back_end| {
        let mut bench = Bench::new(mode, back_end);
        for size in [0, 64, 3 * PAGE, 2 << 20] {
            let block = bench.take(size, 1);
            assert!(bench.give(block));
            let first = bench.serial;
            assert!(!bench.give(block));
            let finding = bench.one();
            assert_eq!(
                (finding.kind, finding.address),
                (ReportKind::DoubleFree, block),
                "{size}"
            );
            let known = finding.block.expect("block");
            assert_eq!(
                (known.size, known.state, known.freed.serial),
                (size, BlockState::Freed, first)
            );
        }
        bench.end();
    });
}

#[test]
fn t21_a_free_of_an_older_generation_is_told_as_long_as_the_ring_has_not_come_round() {
    for back_end in back_ends() {
        let mut bench = Bench::new(Mode::Strict, back_end);
        let block = bench.take(64, 16);
        assert!(bench.give(block));
        for _ in 0..5000 {
            let other = bench.take(64, 16);
            assert_ne!(other, block);
            bench.give(other);
        }
        assert!(!bench.give(block));
        let finding = bench.one();
        assert_eq!(
            (finding.kind, finding.block.map(|known| known.freed.serial)),
            (ReportKind::DoubleFree, Some(2))
        );
        bench.end();
    }
}

#[test]
fn t31_what_cannot_be_held_is_refused() {
    each(|mode, back_end| {
        let mut bench = Bench::new(mode, back_end);
        for layout in [
            Layout::from_size_align(isize::MAX as usize, 1),
            Layout::from_size_align(1 << 45, 1),
            Layout::from_size_align(0, 1 << 30),
            Layout::from_size_align(1, 1 << 60),
        ] {
            assert!(
                bench
                    .try_take(layout.expect("layout"), true, false)
                    .is_err()
            );
        }
        bench.end();
    });
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
            assert_eq!(
                (stopped.kind, stopped.block.map(|known| known.start)),
                (kind, Some(start)),
                "{address:#x}"
            );
        }
        let far = bench.slots.classify_access(block + (1 << 20));
        assert_eq!(far.kind, ReportKind::WildAccess);
        for block in [block, empty, large] {
            assert!(bench.give(block));
        }
        bench.end();
    });
}

#[test]
fn t17_the_ring_comes_round_and_addresses_rest_in_between() {
    for back_end in back_ends() {
        let small = SlotOptions {
            pages: 4097,
            ..options(Mode::Strict)
        };
        let mut bench = Bench::with(back_end, small);
        let mut last = std::collections::HashMap::new();
        let kept = bench.take(64, 16);
        for turn in 0..10_000_usize {
            let block = bench.take(64, 16);
            if let Some(before) = last.insert(block, turn) {
                assert!(
                    turn - before >= 900,
                    "{block:#x} came again after {}",
                    turn - before
                );
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
fn t45_threads_free_what_others_took() {
    each(|mode, back_end| {
        let slots = Slots::new(MEMORY, back_end, options(mode)).expect("slots");
        let slots: &Slots = &slots;
        thread::scope(|scope| {
            let (send, receive): (Vec<_>, Vec<_>) = (0..4)
                .map(|_| std::sync::mpsc::channel::<(usize, usize)>())
                .unzip();
            for (number, receive) in receive.into_iter().enumerate() {
                let to = send[(number + 1) % 4].clone();
                scope.spawn(move || {
                    let mut found = |finding: GuardFinding| std::panic!("{finding:#?}");
                    for turn in 0..3000_usize {
                        let size = if turn % 50 == 0 {
                            9000
                        } else {
                            1 + turn * 7 % 300
                        };
                        let mark = BlockMark {
                            site: SiteId(1),
                            thread: number as u32,
                            serial: turn as u64,
                        };
                        let layout = Layout::from_size_align(size, 8).expect("layout");
                        let block = slots
                            .allocate(
                                MEMORY,
                                BlockRequest::new(layout, Scope::Object, false),
                                turn % 2 == 0,
                                mark,
                                &mut found,
                            )
                            .expect("block");
                        let block = block.as_ptr().expose_provenance();
                        write(block, number as u8);
                        write(block + size - 1, number as u8);
                        to.send((block, size)).expect("sent");
                        if let Ok((block, size)) = receive.try_recv() {
                            let layout = Layout::from_size_align(size, 8).expect("a layout");
                            assert!(
                                slots
                                    .free(
                                        block,
                                        FreeRequest {
                                            layout,
                                            scope: Scope::Object,
                                            mark,
                                            moved_to: None
                                        },
                                        &mut found
                                    )
                                    .is_some()
                            );
                        }
                    }
                    drop(to);
                    while let Ok((block, _)) = receive.recv() {
                        let (layout, scope) = allocated_with(slots, block);
                        let mark = BlockMark::default();
                        assert!(
                            slots
                                .free(
                                    block,
                                    FreeRequest {
                                        layout,
                                        scope,
                                        mark,
                                        moved_to: None
                                    },
                                    &mut found
                                )
                                .is_some()
                        );
                    }
                });
            }
            drop(send);
        });
        let mut live = 0;
        slots.for_each(&mut |_| live += 1);
        assert_eq!(live, 0);
    });
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
                    .allocate(
                        &host,
                        BlockRequest::new(layout, Scope::Object, false),
                        true,
                        mark,
                        &mut |_| {},
                    )
                    .expect("block");
                let before = host.requests();
                assert!(
                    slots
                        .free(
                            block.as_ptr().addr(),
                            FreeRequest {
                                layout,
                                scope: Scope::Object,
                                mark,
                                moved_to: None
                            },
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
