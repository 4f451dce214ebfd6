//! Every way to misuse a block, against the keeper alone. Runs under miri but for what needs memory that is not there.

mod again;
mod behind;
mod layouts;
mod threads;

use core::alloc::Layout;
use core::ptr::NonNull;
use std::vec::Vec;

use alloc_core::{FromGlobalAlloc, Scope};

use super::{CookieOptions, Cookies};
use crate::block::{BlockMark, BlockRequest, BlockState, FreeRequest, Freed, GuardFinding, SiteId};
use crate::fault_injection::FailingAllocator;
use crate::report_kind::ReportKind;
use crate::{Fault as Plan, Mode, os};

type Memory = FailingAllocator<FromGlobalAlloc<std::alloc::System>>;

/// The layout and scope of the live block at `address`; any others if there is none.
fn allocated_with(cookies: &Cookies, address: usize) -> (Layout, Scope) {
    match cookies.validate_pointer(address) {
        Ok(known) => (Layout::from_size_align(known.size, known.align).expect("a layout"), known.scope),
        Err(_) => (Layout::new::<u8>(), Scope::Object),
    }
}

/// The result of a free, and the finding about the freed block.
#[derive(Debug)]
struct GivenBack {
    freed: Option<Freed>,
    finding: Option<GuardFinding>,
}

struct Keeper {
    memory: Memory,
    cookies: Cookies,
    serial: u64,
}

impl Keeper {
    fn new(blocks: usize) -> Self {
        let memory = FailingAllocator::new(FromGlobalAlloc::SYSTEM, Plan::Never);
        let cookies = Cookies::new(CookieOptions { blocks, bytes: 1 << 20 });
        Self { memory, cookies, serial: 0 }
    }

    fn mark(&mut self) -> BlockMark {
        self.serial += 1;
        BlockMark { site: SiteId(self.serial as u32 + 100), thread: 5, serial: self.serial }
    }

    fn take(&mut self, size: usize, align: usize) -> NonNull<u8> {
        let mark = self.mark();
        let layout = Layout::from_size_align(size, align).expect("a layout");
        let block = self
            .cookies
            .allocate(&self.memory, BlockRequest::new(layout, Scope::Object, false), false, mark)
            .expect("memory");
        assert!(block.addr().get().is_multiple_of(align));
        block
    }

    fn give_as(
        &mut self,
        at: usize,
        layout: Option<Layout>,
        scope: Option<Scope>,
        moved: Option<usize>,
    ) -> (GivenBack, Vec<GuardFinding>) {
        let mark = self.mark();
        let mut findings = Vec::new();
        let known = allocated_with(&self.cookies, at);
        let (layout, scope) = (layout.unwrap_or(known.0), scope.unwrap_or(known.1));
        // SAFETY: the keeper's memory; no test uses what it gave back but to misuse it within quarantine.
        let freed = unsafe {
            self.cookies.free(&self.memory, at, FreeRequest { layout, scope, mark, moved_to: moved }, &mut |finding| {
                findings.push(finding)
            })
        };
        let own = |finding: &GuardFinding| finding.kind != ReportKind::UseAfterFree;
        let finding = findings.iter().position(own).map(|at| findings.remove(at));
        (GivenBack { freed, finding }, findings)
    }

    fn give(&mut self, at: NonNull<u8>) -> (GivenBack, Vec<GuardFinding>) {
        self.give_as(at.addr().get(), None, None, None)
    }

    /// Freed with nothing to tell.
    fn give_well(&mut self, at: NonNull<u8>) {
        let (given, late) = self.give(at);
        assert!(given.freed.is_some() && given.finding.is_none(), "{given:?}");
        assert!(late.is_empty(), "{late:?}");
    }

    /// Refused for this reason; nothing happened.
    fn refused(&mut self, at: usize) -> GuardFinding {
        let (given, late) = self.give_as(at, None, None, None);
        assert!(given.freed.is_none() && late.is_empty(), "{given:?} {late:?}");
        given.finding.expect("a finding")
    }

    fn check(&self) -> Vec<GuardFinding> {
        let mut found = Vec::new();
        self.cookies.check(&mut |findings| found.extend(findings));
        found
    }

    fn close(mut self) -> Vec<GuardFinding> {
        let mut late = Vec::new();
        // SAFETY: the keeper's memory.
        unsafe { self.cookies.close(&self.memory, &mut |finding| late.push(finding)) };
        assert_eq!(self.memory.live_bytes(), 0, "something was not given back");
        late
    }
}

/// Writes a byte `offset` from `block`, outside of the object but within what the keeper took for it.
fn poke(block: NonNull<u8>, offset: isize, byte: u8) {
    let at = block.addr().get().wrapping_add_signed(offset);
    // SAFETY: header, pad, tail or a quarantined object; exposed by the keeper.
    unsafe { core::ptr::with_exposed_provenance_mut::<u8>(at).write(byte) };
}

fn peek(block: NonNull<u8>, offset: isize) -> u8 {
    let at = block.addr().get().wrapping_add_signed(offset);
    // SAFETY: header, pad, tail or a quarantined object; exposed by the keeper.
    unsafe { core::ptr::with_exposed_provenance::<u8>(at).read() }
}

#[test]
fn t02_every_byte_of_the_tail_is_watched() {
    for size in if cfg!(miri) { &[0, 13][..] } else { &[0, 1, 8, 13, 61, 64] }.iter().copied() {
        for offset in 0..super::layout::tail_len(size) {
            let mut keeper = Keeper::new(16);
            let block = keeper.take(size, 1);
            let at = (size + offset) as isize;
            let (old, new) = (peek(block, at), !peek(block, at));
            poke(block, at, new);
            let (given, late) = keeper.give(block);
            let finding = given.finding.expect("an overflow");
            let kind = if size == 0 { ReportKind::ZeroSizeAccess } else { ReportKind::Overflow };
            assert_eq!((finding.kind, finding.address), (kind, block.addr().get() + size + offset));
            let changed = finding.changed.expect("bytes");
            assert_eq!((changed.span, changed.expected[0], changed.actual[0]), (1, old, new));
            assert_eq!(finding.block.map(|known| (known.start, known.size)), Some((block.addr().get(), size)));
            assert!(given.freed.is_some() && late.is_empty(), "a good free of a damaged block");
            assert!(keeper.close().is_empty());
        }
    }
}

#[test]
fn t10_t11_every_byte_in_front_is_watched_and_the_block_known_all_the_same() {
    for align in [16, 64] {
        for offset in 1..=align.max(32) {
            let mut keeper = Keeper::new(16);
            let block = keeper.take(40, align as usize);
            let old = peek(block, -offset);
            poke(block, -offset, old ^ 0x40);
            let (given, late) = keeper.give(block);
            let finding = given.finding.expect("an underflow");
            let kind = if (9..=32).contains(&offset) { ReportKind::HeaderDamaged } else { ReportKind::Underflow };
            assert_eq!(
                (finding.kind, finding.address),
                (kind, block.addr().get() - offset as usize),
                "{offset} in front"
            );
            let changed = finding.changed.expect("bytes");
            assert_eq!((changed.span, changed.expected[0], changed.actual[0]), (1, old, old ^ 0x40));
            assert_eq!(finding.block.map(|known| (known.size, known.allocated.serial)), Some((40, 1)));
            assert!(given.freed.is_some() && late.is_empty());
            assert!(keeper.close().is_empty());
        }
    }
}

#[test]
fn what_a_check_finds_is_told_once_and_the_next_change_anew() {
    let mut keeper = Keeper::new(16);
    let block = keeper.take(40, 8);
    for _ in 0..3 {
        poke(block, 40, peek(block, 40) ^ 1);
        let found = keeper.check();
        assert_eq!(found.iter().map(|finding| finding.kind).collect::<Vec<_>>(), [ReportKind::Overflow]);
        assert!(keeper.check().is_empty());
    }
    keeper.give_well(block);
    for offset in [0, 39, 40, 47, -1, -32] {
        poke(block, offset, peek(block, offset) ^ 1);
        let found = keeper.check();
        assert_eq!(
            found.iter().map(|finding| finding.kind).collect::<Vec<_>>(),
            [ReportKind::UseAfterFree],
            "{offset}"
        );
        assert_eq!(found[0].address, block.addr().get().wrapping_add_signed(offset));
        let known = found[0].block.expect("the block");
        assert_eq!((known.state, known.freed.serial, known.freed.site), (BlockState::Freed, 2, SiteId(102)));
        assert!(keeper.check().is_empty());
    }
    assert!(keeper.close().is_empty());
}

#[test]
fn t22_pointers_into_a_block_name_it() {
    let mut keeper = Keeper::new(64);
    let block = keeper.take(100, 8);
    let start = block.addr().get();
    // In front of the last two there is no memory of ours, and where nothing catches a read, that is what a free reads.
    for at in [start + 1, start + 16, start + 99, start + 100, start - 16, start - 32] {
        let mut findings = std::vec![keeper.cookies.validate_pointer(at).expect_err("no start")];
        if os::CATCHES_READS || at > start {
            findings.push(keeper.refused(at));
        }
        for finding in findings {
            assert_eq!((finding.kind, finding.address), (ReportKind::InteriorFree, at));
            assert_eq!(finding.block.map(|known| (known.start, known.state)), Some((start, BlockState::Live)));
        }
    }
    // In front of these there is no room for a header.
    for at in [8, 16] {
        assert_eq!(keeper.refused(at).kind, ReportKind::ForeignFree);
    }
    keeper.give_well(block);
    let finding = keeper.refused(start + 16);
    assert_eq!(
        (finding.kind, finding.block.map(|known| known.state)),
        (ReportKind::InteriorFree, Some(BlockState::Freed))
    );
    assert!(keeper.close().is_empty());
}

/// The first word of what would be its header can be read, the last cannot.
#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn t23_a_pointer_behind_the_end_of_a_mapping_is_foreign() {
    let (mut keeper, page) = (Keeper::new(64), os::page_size());
    let (flags, access) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: pages of nobody's, wherever there is room.
    let pages = unsafe { libc::mmap(core::ptr::null_mut(), 2 * page, access, flags, -1, 0) };
    assert_ne!(pages, libc::MAP_FAILED);
    assert_eq!(
        // SAFETY: the second of them, which nobody uses.
        unsafe { libc::mprotect(pages.wrapping_byte_add(page), page, libc::PROT_NONE) },
        0
    );
    let end = pages.expose_provenance() + page;
    for at in [end, end + 16, end + 32] {
        assert_eq!(keeper.refused(at).kind, ReportKind::ForeignFree);
        assert_eq!(keeper.cookies.validate_pointer(at).expect_err("strange").kind, ReportKind::ForeignFree);
    }
    // SAFETY: mapped above.
    assert_eq!(unsafe { libc::munmap(pages, 2 * page) }, 0);
    assert!(keeper.close().is_empty());
}

#[test]
fn light_blocks_have_a_header_and_no_more() {
    let mut keeper = Keeper::new(64);
    let layout = Layout::new::<[u64; 4]>();
    let before = keeper.memory.live_bytes();
    let mut blocks = Vec::new();
    for _ in 0..20 {
        blocks.push(
            keeper
                .cookies
                .allocate(&keeper.memory, BlockRequest::new(layout, Scope::Object, false), true, BlockMark::default())
                .expect("memory"),
        );
    }
    let mut seen = 0;
    keeper.cookies.for_each(&mut |known| seen += usize::from(known.mode == Mode::Off && known.size == 32));
    assert_eq!(seen, 20);
    // The table and the thread's cache came with the first.
    let again = keeper
        .cookies
        .allocate(&keeper.memory, BlockRequest::new(layout, Scope::Object, false), true, BlockMark::default())
        .expect("memory");
    let with_again = keeper.memory.live_bytes();
    let (given, _) = keeper.give(again);
    assert_eq!(given.freed.map(|freed| (freed.size, freed.mode)), Some((32, Mode::Off)));
    assert_eq!(with_again - keeper.memory.live_bytes(), 64, "given back at once");
    poke(blocks[0], -3, 0x11);
    assert_eq!(keeper.give(blocks[0]).0.finding.map(|finding| finding.kind), Some(ReportKind::Underflow));
    blocks.drain(1..).for_each(|block| keeper.give_well(block));
    assert!(keeper.memory.live_bytes() > before);
    assert!(keeper.close().is_empty());
}

#[test]
fn all_that_lives_and_waits_is_told() {
    let (all, freed) = if cfg!(miri) { (12, 4) } else { (2000, 300) };
    let one = usize::midpoint(freed, all);
    let mut keeper = Keeper::new(1000);
    let blocks: Vec<_> = (0..all).map(|size| keeper.take(size % 50, 8)).collect();
    for block in &blocks[..freed] {
        keeper.give_well(*block);
    }
    let (mut live, mut waiting) = (Vec::new(), Vec::new());
    keeper.cookies.for_each(&mut |known| {
        let list = if known.state == BlockState::Live { &mut live } else { &mut waiting };
        list.push(known.start);
    });
    let mut expected: Vec<_> = blocks.iter().map(|block| block.addr().get()).collect();
    waiting.sort_unstable();
    expected[..freed].sort_unstable();
    assert_eq!(waiting, expected[..freed]);
    live.sort_unstable();
    expected[freed..].sort_unstable();
    assert_eq!(live, expected[freed..]);
    assert_eq!(keeper.cookies.held().0, freed as u64);
    assert_eq!(keeper.cookies.held().1, (0..freed as u64).map(|size| size % 50).sum::<u64>());
    assert_eq!(
        keeper.cookies.find(blocks[one].addr().get() + 3).map(|known| known.start),
        Some(blocks[one].addr().get())
    );
    blocks[freed..].iter().for_each(|block| keeper.give_well(*block));
    assert!(keeper.close().is_empty());
}
