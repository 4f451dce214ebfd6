//! From an address to the block it is about. Nothing here takes a lock or memory: the signal handler asks too.

use core::sync::atomic::Ordering::Relaxed;

use super::Slots;
use super::geometry::Place;
use super::ground::Ground;
use super::pages::Pages;
use super::record::Record;
use super::word::{Kind, Word};
use crate::block::{Accused, Fault, Known, State};
use crate::report::ReportKind;

/// How many cells to either side are asked for a block.
const REACH: u32 = 64;

/// A block with all that is looked up of it.
pub(super) struct Block<'a, P> {
    pub(super) ground: &'a Ground<P>,
    pub(super) cell: u32,
    pub(super) record: &'a Record,
    /// As it was read.
    pub(super) word: Word,
    pub(super) place: Place,
}

impl<'a, P: Pages> Block<'a, P> {
    #[inline(always)]
    fn find(ground: &'a Ground<P>, cell: u32) -> Option<Self> {
        let record = ground.record(cell)?;
        let word = record.word();
        Some(Self { ground, cell, record, word, place: ground.geometry.place(cell, word.shape()) })
    }

    #[inline]
    fn is_live_at(&self, address: usize) -> bool {
        self.word.is(Kind::Live) && self.place.start == address
    }
}

impl<P: Pages> Slots<P> {
    /// True of every address of the regions, the pages between blocks included.
    #[inline]
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.ground_of(address).is_some()
    }

    #[inline]
    pub(super) fn ground_of(&self, address: usize) -> Option<(&Ground<P>, usize)> {
        if let Some(page) = self.small.geometry.page_of(address) {
            return Some((&self.small, page));
        }
        let large = self.large()?;
        Some((large, large.geometry.page_of(address)?))
    }

    /// The live block that begins at `address`, or what is wrong with asking for it.
    #[expect(clippy::result_large_err, reason = "the answer to a good question is as large")]
    pub(crate) fn vet(&self, address: usize) -> Result<Known, Fault> {
        let live = self.live(address).map(|block| self.known_of(block.ground, block.cell, block.word, block.record));
        live.ok_or_else(|| self.no_block(address))
    }

    /// The live block that begins at `address`.
    #[inline(always)]
    pub(super) fn live(&self, address: usize) -> Option<Block<'_, P>> {
        let page = self.small.geometry.page_of(address);
        let (cell, in_guard) = self.small.geometry.cell_of(page.unwrap_or_default());
        let here = |cell| Block::find(&self.small, cell).filter(|block| block.is_live_at(address));
        if let (Some(_), false, Some(block)) = (page, in_guard, here(cell)) { Some(block) } else { self.live_elsewhere(address) }
    }

    /// A block of no bytes stands in the guard behind its cell; one aligned above a page may begin in any cell of its run; and there is the
    /// second region.
    #[cold]
    fn live_elsewhere(&self, address: usize) -> Option<Block<'_, P>> {
        let (ground, page) = self.ground_of(address)?;
        let (cell, in_guard) = ground.geometry.cell_of(page);
        let body = ground.record(cell).filter(|record| record.word().kind() == Kind::Body);
        let head = body.map_or(cell, |record| record.link.load(Relaxed));
        let before = cell.checked_sub(1).filter(|_| in_guard);
        let blocks = [Some(head), before].into_iter().flatten().filter_map(|cell| Block::find(ground, cell));
        blocks.into_iter().find(|block| block.is_live_at(address))
    }

    /// Why `address` cannot be given back.
    #[cold]
    pub(super) fn no_block(&self, address: usize) -> Fault {
        let fault = |kind, block| Fault { kind, block, address, changed: None, owner: None };
        let Some((ground, page)) = self.ground_of(address) else { return fault(ReportKind::ForeignFree, None) };
        let (cell, in_guard) = ground.geometry.cell_of(page);
        let mut near = None;
        // The guard of a cell may hold the end of what is in front of it.
        for cell in [Some(cell), cell.checked_sub(1).filter(|_| in_guard)].into_iter().flatten() {
            let Some(block) = self.owner(ground, cell) else { continue };
            if block.start == address {
                return fault(ReportKind::DoubleFree, Some(block));
            }
            if address.wrapping_sub(block.start) < block.size {
                return fault(ReportKind::InteriorFree, Some(block));
            }
            near = nearer(near, block, address);
        }
        fault(ReportKind::ForeignFree, near)
    }

    /// What a stopped access at `address` was about. Async-signal-safe.
    pub(crate) fn accused(&self, address: usize) -> Accused {
        let Some((ground, page)) = self.ground_of(address) else {
            return Accused { kind: ReportKind::WildAccess, block: None, other: None };
        };
        let (cell, _) = ground.geometry.cell_of(page);
        let last = ground.geometry.cells() - 1;
        let below = (cell.saturating_sub(REACH)..=cell.min(last)).rev();
        let above = cell..=cell.saturating_add(REACH).min(last);
        let left = below.filter_map(|cell| self.owner(ground, cell)).find(|block| block.start <= address);
        let right = above.filter_map(|cell| self.owner(ground, cell)).find(|block| block.start > address);
        let block = left.into_iter().chain(right).fold(None, |near, block| nearer(near, block, address));
        let other = [left, right].into_iter().flatten().find(|other| block.is_some_and(|block| block.start != other.start));
        let kind = block.map_or(ReportKind::WildAccess, |block| {
            let far = distance(&block, address) > 2 * ground.geometry.page_bytes();
            if far {
                ReportKind::WildAccess
            } else if block.state != State::Live {
                ReportKind::UseAfterFree
            } else if block.size == 0 {
                ReportKind::ZeroSizeAccess
            } else if address < block.start {
                ReportKind::Underflow
            } else {
                ReportKind::Overflow
            }
        });
        Accused { kind, block, other }
    }

    /// Makes the page of a stopped access accessible, so that it can go on. Async-signal-safe. False where the system refuses.
    pub(crate) fn land(&self, address: usize) -> bool {
        // What stands beside a live block is closed again with the block.
        let to_close = self.accused(address).block.is_some_and(|block| block.state == State::Live);
        self.ground_of(address).is_some_and(|(ground, _)| ground.land(address, to_close))
    }

    /// The block that a cell belongs or belonged to.
    fn owner(&self, ground: &Ground<P>, cell: u32) -> Option<Known> {
        let record = ground.record(cell)?;
        if !record.word().kind().is_body() {
            return self.known(ground, cell);
        }
        let head = record.link.load(Relaxed);
        let shape = ground.record(head)?.word().shape();
        let covers = ground.geometry.cells_for(shape).is_some_and(|cells| cell.wrapping_sub(head) < cells);
        if covers { self.known(ground, head) } else { None }
    }

    /// The block in a cell, as far as it is remembered.
    pub(super) fn known(&self, ground: &Ground<P>, cell: u32) -> Option<Known> {
        let record = ground.record(cell)?;
        let word = record.word();
        word.is_block().then(|| self.known_of(ground, cell, word, record))
    }

    pub(super) fn known_of(&self, ground: &Ground<P>, cell: u32, word: Word, record: &Record) -> Known {
        let shape = word.shape();
        let state = match record.moved_to() {
            _ if word.is(Kind::Live) => State::Live,
            Some(address) => State::Moved(address),
            None => State::Freed,
        };
        Known {
            start: ground.geometry.place(cell, shape).start,
            size: shape.size,
            align: shape.align,
            scope: word.scope(),
            state,
            taken: record.taken(),
            given: if state == State::Live { Default::default() } else { record.given() },
            mode: self.mode,
            back_end: ground.back_end(),
        }
    }
}

/// How far `address` is from the block: 0 within, 1 for the byte in front of it and the first behind.
fn distance(block: &Known, address: usize) -> usize {
    let end = block.start.saturating_add(block.size);
    if address < block.start {
        block.start - address
    } else if address < end {
        0
    } else {
        address - end + 1
    }
}

/// The nearer to `address`; of two as near, the live one.
fn nearer(one: Option<Known>, other: Known, address: usize) -> Option<Known> {
    let rank = |block: &Known| (distance(block, address), block.state != State::Live);
    Some(one.filter(|one| rank(one) <= rank(&other)).unwrap_or(other))
}
