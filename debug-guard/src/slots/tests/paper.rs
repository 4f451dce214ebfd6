//! Programs of operations over a region that is ordinary memory and keeps its own account of what is provided.

use std::collections::{BTreeMap, BTreeSet};
use std::prelude::v1::*;
use std::sync::Mutex;

use core::alloc::Layout;
use core::ops::Deref;
use core::ptr::NonNull;

use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};

use super::allocated_with;
use crate::block::{BlockMark, BlockRequest, FreeRequest, GuardFinding, SiteId};
use crate::mode::{BackEnd, Mode};
use crate::os::{Content, OsRefusal, PageCalls};
use crate::report_kind::ReportKind;
use crate::slots::redzone::next_random;
use crate::slots::{SlotOptions, Slots};

const MEMORY: &dyn HostAllocator = &FromGlobalAlloc::SYSTEM;
const PAGE: usize = 512;
/// What is out of reach.
const GONE: u8 = 0xEE;

/// Small pages, so that miri gets through. The calls of a back end over the memory of the test.
struct Paper {
    back_end: BackEnd,
    /// Kept for as long as it is used through its address.
    memory: Mutex<Vec<u8>>,
    provided: Mutex<BTreeSet<usize>>,
}

/// Slots over paper, which is freed with them.
struct OnPaper {
    slots: Option<Slots>,
    paper: NonNull<Paper>,
}

impl OnPaper {
    fn new(back_end: BackEnd, options: SlotOptions) -> Self {
        let paper = NonNull::from(Box::leak(Box::new(Paper {
            back_end,
            memory: Mutex::default(),
            provided: Mutex::default(),
        })));
        // SAFETY: freed when this is dropped, after the slots.
        let calls: &'static Paper = unsafe { paper.as_ref() };
        let slots = Slots::with_calls(MEMORY, calls, options).expect("slots");
        Self { slots: Some(slots), paper }
    }
}

impl Deref for OnPaper {
    type Target = Slots;
    fn deref(&self) -> &Slots {
        self.slots.as_ref().expect("until it is dropped")
    }
}

impl Drop for OnPaper {
    fn drop(&mut self) {
        let slots = self.slots.take().expect("dropped once");
        // SAFETY: this is the only user; what is live is not used any more.
        unsafe { slots.close(MEMORY) };
        // SAFETY: made by `new`; the slots are gone.
        drop(unsafe { Box::from_raw(self.paper.as_ptr()) });
    }
}

fn at(address: usize) -> *mut u8 {
    core::ptr::with_exposed_provenance_mut(address)
}

impl Paper {
    /// Counts pages in or out; what is counted twice is a mistake of the slots.
    fn count(&self, base: usize, bytes: usize, provided: bool) {
        let mut all = self.provided.lock().expect("lock");
        for page in (base..base + bytes).step_by(PAGE) {
            assert!(if provided { all.insert(page) } else { all.remove(&page) }, "page {page:#x} {provided}");
        }
    }
}

impl PageCalls for Paper {
    fn back_end(&self) -> BackEnd {
        self.back_end
    }
    fn page_bytes(&self) -> usize {
        PAGE
    }
    fn reserve(&self, bytes: usize) -> Result<usize, OsRefusal> {
        if bytes > PAGE << 14 {
            return Err(OsRefusal::Unavailable);
        }
        let mut memory = self.memory.lock().expect("lock");
        *memory = std::vec![GONE; bytes + PAGE];
        Ok(memory.as_mut_ptr().expose_provenance().next_multiple_of(PAGE))
    }
    unsafe fn release(&self, _: usize, _: usize) {
        self.memory.lock().expect("lock").clear();
    }
    unsafe fn provide(&self, base: usize, bytes: usize, pattern: Option<NonNull<u8>>) -> Result<Content, OsRefusal> {
        self.count(base, bytes, true);
        let Some(pattern) = pattern else {
            // SAFETY: within the memory, whose address was exposed.
            unsafe { at(base).write_bytes(0, bytes) };
            return Ok(Content::Zero);
        };
        for page in (base..base + bytes).step_by(PAGE) {
            // SAFETY: within the memory; the pattern is a page.
            unsafe { at(page).copy_from_nonoverlapping(pattern.as_ptr(), PAGE) };
        }
        Ok(Content::Pattern)
    }
    unsafe fn close(&self, base: usize, bytes: usize) -> Result<(), OsRefusal> {
        self.count(base, bytes, false);
        // SAFETY: within the memory, whose address was exposed.
        unsafe { at(base).write_bytes(GONE, bytes) };
        Ok(())
    }
    unsafe fn pass_on(&self, from: usize, to: usize) -> bool {
        if self.back_end != BackEnd::UserfaultfdMove {
            return false;
        }
        self.count(to, PAGE, true);
        // SAFETY: two pages of the memory.
        unsafe { at(to).copy_from_nonoverlapping(at(from), PAGE) };
        // SAFETY: as for the slots, which gave the page up.
        unsafe { self.close(from, PAGE) }.is_ok()
    }
    fn land(&self, _: usize, _: usize, _: bool) -> bool {
        false
    }
}

/// A block as the program remembers it.
struct Mine {
    layout: Layout,
    scope: Scope,
    own: u8,
}

fn bytes(address: usize, size: usize) -> Vec<u8> {
    // SAFETY: a live block of the program's.
    (0..size).map(|at| unsafe { core::ptr::with_exposed_provenance::<u8>(address + at).read() }).collect()
}

/// Takes and gives at random, with some bad frees, and compares everything with what a map remembers.
fn program(mode: Mode, back_end: BackEnd, mut seed: u64, turns: usize) {
    let options = SlotOptions {
        pages: 2049,
        max_pages: 600,
        quarantine_blocks: 40,
        quarantine_bytes: usize::MAX,
        deep: seed.is_multiple_of(2),
        mode,
    };
    let slots = OnPaper::new(back_end, options);
    let mut live: BTreeMap<usize, Mine> = BTreeMap::new();
    let mut dead: Vec<usize> = Vec::new();
    let mut findings: Vec<GuardFinding> = Vec::new();
    let (mut taken, mut refused) = (0, 0);
    for turn in 0..turns {
        let mark = BlockMark { site: SiteId(1), thread: 1, serial: turn as u64 };
        let chance = next_random(&mut seed) as usize;
        let pick = |all: &BTreeMap<usize, Mine>| all.keys().nth(chance / 64 % all.len().max(1)).copied();
        match chance % 16 {
            0..8 => {
                let size = if chance & 256 == 0 { chance / 512 % 200 } else { chance / 512 % 2000 };
                let layout = Layout::from_size_align(size, 1 << (chance / 1024 % 8)).expect("layout");
                let (scope, zeroed) = (Scope::ALL[turn % 5], turn % 3 == 0);
                let block = slots.allocate(
                    MEMORY,
                    BlockRequest::new(layout, scope, zeroed),
                    turn % 2 == 0,
                    mark,
                    &mut |finding| findings.push(finding),
                );
                let Ok(block) = block else {
                    refused += 1;
                    continue;
                };
                taken += 1;
                let address = block.as_ptr().expose_provenance();
                assert_eq!(address % layout.align(), 0);
                let fresh = if zeroed { 0 } else { 0xCD };
                assert!(bytes(address, size).iter().all(|&byte| byte == fresh), "{layout:?} {zeroed}");
                let own = turn as u8;
                // SAFETY: taken just now with this size.
                unsafe { core::ptr::with_exposed_provenance_mut::<u8>(address).write_bytes(own, size) };
                assert!(live.insert(address, Mine { layout, scope, own }).is_none(), "given twice");
            }
            8..14 => {
                let Some(address) = pick(&live) else { continue };
                let mine = live.remove(&address).expect("mine");
                assert!(bytes(address, mine.layout.size()).iter().all(|&byte| byte == mine.own), "touched by others");
                let found = &mut |finding| findings.push(finding);
                assert!(
                    slots
                        .free(
                            address,
                            FreeRequest { layout: mine.layout, scope: mine.scope, mark, moved_to: None },
                            found
                        )
                        .is_some()
                );
                dead.push(address);
            }
            14 => {
                let Some(&address) = dead.get(chance / 64 % dead.len().max(1)) else {
                    continue;
                };
                if !live.contains_key(&address) {
                    let (layout, scope) = allocated_with(&slots, address);
                    assert!(
                        slots
                            .free(address, FreeRequest { layout, scope, mark, moved_to: None }, &mut |finding| findings
                                .push(finding))
                            .is_none()
                    );
                    let finding = findings.pop().expect("told");
                    let told = [ReportKind::DoubleFree, ReportKind::ForeignFree, ReportKind::InteriorFree];
                    assert!(told.contains(&finding.kind), "{finding:?}");
                }
            }
            _ => {
                let Some(address) = pick(&live) else { continue };
                let mine = &live[&address];
                assert!(
                    slots
                        .validate_pointer(address)
                        .is_ok_and(|known| known.size == mine.layout.size() && known.scope == mine.scope)
                );
                if mine.layout.size() > 1 {
                    assert_eq!(
                        slots.validate_pointer(address + 1).err().map(|finding| finding.kind),
                        Some(ReportKind::InteriorFree)
                    );
                }
            }
        }
        assert!(findings.is_empty(), "{findings:#?}");
    }
    assert_eq!(slots.check(&mut |found| findings.extend(found)), 0, "{findings:#?}");
    let mut known = BTreeSet::new();
    slots.for_each(&mut |block| assert!(known.insert(block.start)));
    assert!(known.iter().eq(live.keys()));
    assert!(taken > turns / 4 && taken > refused, "{taken} taken, {refused} refused");
    for address in known {
        let (layout, scope) = allocated_with(&slots, address);
        assert!(
            slots
                .free(
                    address,
                    FreeRequest { layout, scope, mark: BlockMark::default(), moved_to: None },
                    &mut |finding| { findings.push(finding) }
                )
                .is_some()
        );
    }
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn programs_over_pages_of_paper() {
    let (seeds, turns) = if cfg!(miri) { (1, 100) } else { (6, 4000) };
    for seed in 1..=seeds {
        for back_end in [BackEnd::UserfaultfdMove, BackEnd::GuardMarkers] {
            for mode in [Mode::Fence, Mode::Strict] {
                program(mode, back_end, seed, turns);
            }
        }
    }
}

#[test]
fn what_is_planted_is_found() {
    for mode in [Mode::Fence, Mode::Strict] {
        let options = SlotOptions {
            pages: 257,
            max_pages: 0,
            quarantine_blocks: 8,
            quarantine_bytes: usize::MAX,
            deep: false,
            mode,
        };
        let slots = OnPaper::new(BackEnd::UserfaultfdMove, options);
        let layout = Layout::from_size_align(30, 16).expect("layout");
        let mut findings: Vec<GuardFinding> = Vec::new();
        let block = slots
            .allocate(MEMORY, BlockRequest::new(layout, Scope::Object, false), true, BlockMark::default(), &mut |_| {})
            .expect("block");
        let address = block.as_ptr().expose_provenance();
        for planted in [address - 1, address + 30] {
            // SAFETY: a byte of the block's page.
            unsafe { core::ptr::with_exposed_provenance_mut::<u8>(planted).write(0) };
        }
        assert!(
            slots
                .free(
                    address,
                    FreeRequest { layout, scope: Scope::Object, mark: BlockMark::default(), moved_to: None },
                    &mut |finding| findings.push(finding)
                )
                .is_some()
        );
        let told: Vec<_> = findings.iter().map(|finding| (finding.kind, finding.address)).collect();
        assert_eq!(told, [(ReportKind::Underflow, address - 1), (ReportKind::Overflow, address + 30)]);
    }
}

/// The second free is whole while the first reports, so that neither finds the other's block in quarantine when it
/// begins.
#[test]
fn frees_at_one_time_leave_no_more_in_quarantine_than_its_limit() {
    for limit in [0, 1] {
        let options = SlotOptions {
            pages: 257,
            max_pages: 0,
            quarantine_blocks: limit,
            quarantine_bytes: usize::MAX,
            deep: false,
            mode: Mode::Fence,
        };
        let slots = OnPaper::new(BackEnd::UserfaultfdMove, options);
        let layout = Layout::from_size_align(30, 16).expect("layout");
        let request = |layout| FreeRequest { layout, scope: Scope::Object, mark: BlockMark::default(), moved_to: None };
        let [first, second] = [(); 2].map(|()| {
            let request = BlockRequest::new(layout, Scope::Object, false);
            slots
                .allocate(MEMORY, request, true, BlockMark::default(), &mut |_| {})
                .expect("block")
                .as_ptr()
                .expose_provenance()
        });
        let (mut found, mut late) = (Vec::new(), Vec::new());
        let other = Layout::new::<u8>();
        slots.free(first, request(other), &mut |finding| {
            found.push(finding.kind);
            if found.len() == 1 {
                let freed = slots.free(second, request(layout), &mut |finding| late.push(finding));
                assert!(freed.is_some());
            }
        });
        assert_eq!(found, [ReportKind::SizeMismatch, ReportKind::AlignmentMismatch]);
        assert!(late.is_empty(), "{late:?}");
        let (waiting, pages) = slots.held();
        assert_eq!((u64::from(waiting), pages), (limit as u64, 2), "limit {limit}");
    }
}
