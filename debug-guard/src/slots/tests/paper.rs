//! Programs of operations over a region that is ordinary memory and keeps its own account of what is provided.

use std::collections::{BTreeMap, BTreeSet};
use std::prelude::v1::*;
use std::sync::Mutex;

use core::alloc::Layout;

use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};

use super::allocated_with;
use crate::block::{BlockMark, BlockRequest, FreeRequest, GuardFinding, SiteId};
use crate::mode::{BackEnd, Mode};
use crate::os::Pages;
use crate::os::{Content, OsRefusal};
use crate::report_kind::ReportKind;
use crate::slots::fill::next_random;
use crate::slots::{Kind, SlotOptions, Slots};

const MEMORY: &dyn HostAllocator = &FromGlobalAlloc::SYSTEM;
const PAGE: usize = 512;
/// What is out of reach.
const GONE: u8 = 0xEE;

/// Small pages, so that miri gets through.
struct Paper {
    /// Kept for as long as it is used through its address.
    _memory: Vec<u8>,
    base: usize,
    pages: usize,
    back_end: BackEnd,
    provided: Mutex<BTreeSet<usize>>,
}

impl Paper {
    fn fill(&self, first: usize, count: usize, value: u8) {
        let at = core::ptr::with_exposed_provenance_mut::<u8>(self.base + first * PAGE);
        // SAFETY: within the memory, whose address was exposed.
        unsafe { at.write_bytes(value, count * PAGE) };
    }

    /// Counts pages in or out; what is counted twice is a mistake of the slots.
    fn count(&self, first: usize, count: usize, provided: bool) {
        assert!(first + count <= self.pages);
        let mut all = self.provided.lock().expect("lock");
        for page in first..first + count {
            assert!(
                if provided {
                    all.insert(page)
                } else {
                    all.remove(&page)
                },
                "page {page} {provided}"
            );
        }
    }
}

impl Pages for Paper {
    fn reserve(back_end: BackEnd, pages: usize) -> Result<Self, OsRefusal> {
        if pages > 1 << 14 {
            return Err(OsRefusal::Unavailable);
        }
        let mut memory = std::vec![GONE; (pages + 1) * PAGE];
        let base = memory
            .as_mut_ptr()
            .expose_provenance()
            .next_multiple_of(PAGE);
        Ok(Self {
            _memory: memory,
            base,
            pages,
            back_end,
            provided: Mutex::default(),
        })
    }
    fn base(&self) -> usize {
        self.base
    }
    fn pages(&self) -> usize {
        self.pages
    }
    fn back_end(&self) -> BackEnd {
        self.back_end
    }
    fn page_bytes() -> usize {
        PAGE
    }
    unsafe fn provide(
        &self,
        first: usize,
        count: usize,
        pattern: *const u8,
    ) -> Result<Content, OsRefusal> {
        self.count(first, count, true);
        for page in first..first + count {
            let at = core::ptr::with_exposed_provenance_mut::<u8>(self.base + page * PAGE);
            // SAFETY: within the memory; the pattern is a page.
            unsafe { at.copy_from_nonoverlapping(pattern, PAGE) };
        }
        Ok(Content::Pattern)
    }
    fn provide_zeroed(&self, first: usize, count: usize) -> Result<(), OsRefusal> {
        self.count(first, count, true);
        self.fill(first, count, 0);
        Ok(())
    }
    unsafe fn revoke(&self, first: usize, count: usize) -> Result<(), OsRefusal> {
        self.count(first, count, false);
        self.fill(first, count, GONE);
        Ok(())
    }
    unsafe fn pass_on(&self, from: usize, to: usize) -> Result<bool, OsRefusal> {
        if self.back_end != BackEnd::UserfaultfdMove {
            return Ok(false);
        }
        self.count(from, 1, false);
        self.count(to, 1, true);
        let [from_at, to_at] = [from, to]
            .map(|page| core::ptr::with_exposed_provenance_mut::<u8>(self.base + page * PAGE));
        // SAFETY: two pages of the memory.
        unsafe { to_at.copy_from_nonoverlapping(from_at, PAGE) };
        self.fill(from, 1, GONE);
        Ok(true)
    }
    fn land(&self, _: usize, _: bool) -> bool {
        false
    }
    fn has_landed(&self) -> bool {
        false
    }
    unsafe fn close_again(&self, page: usize) {
        unreachable!("nothing lands, and {page} was closed");
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
    (0..size)
        .map(|at| unsafe { core::ptr::with_exposed_provenance::<u8>(address + at).read() })
        .collect()
}

/// Takes and gives at random, with some bad frees, and compares everything with what a map remembers.
fn program(kind: Kind, back_end: BackEnd, mut seed: u64, turns: usize) {
    let options = SlotOptions {
        pages: 2049,
        max_pages: 600,
        quarantine_blocks: 40,
        quarantine_bytes: usize::MAX,
        deep: seed.is_multiple_of(2),
        mode: Mode::Fence,
    };
    let slots: Slots<Paper> = Slots::new(MEMORY, kind, back_end, options).expect("slots");
    let mut live: BTreeMap<usize, Mine> = BTreeMap::new();
    let mut dead: Vec<usize> = Vec::new();
    let mut findings: Vec<GuardFinding> = Vec::new();
    let (mut taken, mut refused) = (0, 0);
    for turn in 0..turns {
        let mark = BlockMark {
            site: SiteId(1),
            thread: 1,
            serial: turn as u64,
        };
        let chance = next_random(&mut seed) as usize;
        let pick =
            |all: &BTreeMap<usize, Mine>| all.keys().nth(chance / 64 % all.len().max(1)).copied();
        match chance % 16 {
            0..8 => {
                let size = if chance & 256 == 0 {
                    chance / 512 % 200
                } else {
                    chance / 512 % 2000
                };
                let layout =
                    Layout::from_size_align(size, 1 << (chance / 1024 % 8)).expect("layout");
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
                assert!(
                    bytes(address, size).iter().all(|&byte| byte == fresh),
                    "{layout:?} {zeroed}"
                );
                let own = turn as u8;
                // SAFETY: taken just now with this size.
                unsafe {
                    core::ptr::with_exposed_provenance_mut::<u8>(address).write_bytes(own, size)
                };
                assert!(
                    live.insert(address, Mine { layout, scope, own }).is_none(),
                    "given twice"
                );
            }
            8..14 => {
                let Some(address) = pick(&live) else { continue };
                let mine = live.remove(&address).expect("mine");
                assert!(
                    bytes(address, mine.layout.size())
                        .iter()
                        .all(|&byte| byte == mine.own),
                    "touched by others"
                );
                let found = &mut |finding| findings.push(finding);
                assert!(
                    slots
                        .free(
                            address,
                            FreeRequest {
                                layout: mine.layout,
                                scope: mine.scope,
                                mark,
                                moved_to: None
                            },
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
                            .free(
                                address,
                                FreeRequest {
                                    layout,
                                    scope,
                                    mark,
                                    moved_to: None
                                },
                                &mut |finding| findings.push(finding)
                            )
                            .is_none()
                    );
                    let finding = findings.pop().expect("told");
                    let told = [
                        ReportKind::DoubleFree,
                        ReportKind::ForeignFree,
                        ReportKind::InteriorFree,
                    ];
                    assert!(told.contains(&finding.kind), "{finding:?}");
                }
            }
            _ => {
                let Some(address) = pick(&live) else { continue };
                let mine = &live[&address];
                assert!(slots.validate_pointer(address).is_ok_and(|known| known.size
                    == mine.layout.size()
                    && known.scope == mine.scope));
                if mine.layout.size() > 1 {
                    assert_eq!(
                        slots
                            .validate_pointer(address + 1)
                            .err()
                            .map(|finding| finding.kind),
                        Some(ReportKind::InteriorFree)
                    );
                }
            }
        }
        assert!(findings.is_empty(), "{findings:#?}");
    }
    assert_eq!(
        slots.check(&mut |found| findings.extend(found)),
        0,
        "{findings:#?}"
    );
    let mut known = BTreeSet::new();
    slots.for_each(&mut |block| assert!(known.insert(block.start)));
    assert!(known.iter().eq(live.keys()));
    assert!(
        taken > turns / 4 && taken > refused,
        "{taken} taken, {refused} refused"
    );
    for address in known {
        let (layout, scope) = allocated_with(&slots, address);
        assert!(
            slots
                .free(
                    address,
                    FreeRequest {
                        layout,
                        scope,
                        mark: BlockMark::default(),
                        moved_to: None
                    },
                    &mut |finding| { findings.push(finding) }
                )
                .is_some()
        );
    }
    assert!(findings.is_empty(), "{findings:#?}");
    // SAFETY: no block is live, and this is the only user.
    unsafe { slots.close(MEMORY) };
}

#[test]
fn programs_over_pages_of_paper() {
    let (seeds, turns) = if cfg!(miri) { (1, 100) } else { (6, 4000) };
    for seed in 1..=seeds {
        for back_end in [BackEnd::UserfaultfdMove, BackEnd::GuardMarkers] {
            for kind in [Kind::Fence, Kind::Strict] {
                program(kind, back_end, seed, turns);
            }
        }
    }
}

#[test]
fn what_is_planted_is_found() {
    for kind in [Kind::Fence, Kind::Strict] {
        let options = SlotOptions {
            pages: 257,
            max_pages: 0,
            quarantine_blocks: 8,
            quarantine_bytes: usize::MAX,
            deep: false,
            mode: Mode::Fence,
        };
        let slots: Slots<Paper> =
            Slots::new(MEMORY, kind, BackEnd::UserfaultfdMove, options).expect("slots");
        let layout = Layout::from_size_align(30, 16).expect("layout");
        let mut findings: Vec<GuardFinding> = Vec::new();
        let block = slots
            .allocate(
                MEMORY,
                BlockRequest::new(layout, Scope::Object, false),
                true,
                BlockMark::default(),
                &mut |_| {},
            )
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
                    FreeRequest {
                        layout,
                        scope: Scope::Object,
                        mark: BlockMark::default(),
                        moved_to: None
                    },
                    &mut |finding| findings.push(finding)
                )
                .is_some()
        );
        let told: Vec<_> = findings
            .iter()
            .map(|finding| (finding.kind, finding.address))
            .collect();
        assert_eq!(
            told,
            [
                (ReportKind::Underflow, address - 1),
                (ReportKind::Overflow, address + 30)
            ]
        );
        // SAFETY: no block is live, and this is the only user.
        unsafe { slots.close(MEMORY) };
    }
}
