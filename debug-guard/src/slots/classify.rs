//! Acquires no lock and allocates nothing: the signal handler calls it.

use core::sync::atomic::Ordering::Relaxed;

use super::Slots;
use super::geometry::{BlockPlacement, Shape};
use super::record::{CellRecord, SlotKind, SlotState};
use crate::block::{BlockState, GuardFinding, Known, StoppedAccess};
use crate::report_kind::ReportKind;

pub(super) struct FoundBlock<'a> {
    pub(super) cell: u32,
    pub(super) record: &'a CellRecord,
    pub(super) word: SlotState,
    pub(super) place: BlockPlacement,
}

impl Slots {
    /// Pages between blocks are included.
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.geometry.page_of(address).is_some()
    }

    /// The block is in one page of one cell.
    pub(super) fn is_single(&self, shape: Shape) -> bool {
        let page_bytes = self.geometry.page_bytes();
        shape.size <= page_bytes && shape.align <= page_bytes
    }

    #[expect(clippy::result_large_err, reason = "the answer to a good question is as large")]
    pub(crate) fn validate_pointer(&self, address: usize) -> Result<Known, GuardFinding> {
        let live = self.live(address);
        live.map(|block| self.known_of(block.cell, block.word, block.record))
            .ok_or_else(|| self.classify_bad_free(address))
    }

    /// The block begins in its cell; a block of no bytes in the guard page behind its cell; a block aligned above a
    /// page in any cell of its run.
    pub(super) fn live(&self, address: usize) -> Option<FoundBlock<'_>> {
        let (cell, in_guard) = self.geometry.cell_of(self.geometry.page_of(address)?);
        let begins_in = |cell| {
            let record = self.table.get(cell)?;
            let word = record.word();
            let place = self.geometry.place(cell, word.shape());
            (word.kind() == SlotKind::Live && place.start == address).then_some(FoundBlock {
                cell,
                record,
                word,
                place,
            })
        };
        begins_in(cell).or_else(|| {
            let record = self.table.get(cell);
            let body = record.filter(|record| record.word().kind() == SlotKind::Body);
            let head = body.and_then(|record| begins_in(record.link.load(Relaxed)));
            head.or_else(|| begins_in(cell.checked_sub(1).filter(|_| in_guard)?))
        })
    }

    /// The block may be freed.
    pub(super) fn owner(&self, cell: u32) -> Option<Known> {
        let record = self.table.get(cell)?;
        if !record.word().kind().is_body() {
            return self.known(cell);
        }
        let head = record.link.load(Relaxed);
        let shape = self.table.get(head)?.word().shape();
        let covers = cell.wrapping_sub(head) < self.geometry.cells_for(shape)?;
        covers.then(|| self.known(head))?
    }

    pub(super) fn known(&self, cell: u32) -> Option<Known> {
        let record = self.table.get(cell)?;
        let word = record.word();
        word.is_block().then(|| self.known_of(cell, word, record))
    }

    pub(super) fn known_of(&self, cell: u32, word: SlotState, record: &CellRecord) -> Known {
        let shape = word.shape();
        let state = match record.moved_to() {
            _ if word.kind() == SlotKind::Live => BlockState::Live,
            Some(address) => BlockState::MovedTo(address),
            None => BlockState::Freed,
        };
        Known {
            start: self.geometry.place(cell, shape).start,
            size: shape.size,
            align: shape.align,
            scope: word.scope(),
            state,
            allocated: record.allocated(),
            freed: if state == BlockState::Live { Default::default() } else { record.freed() },
            mode: self.mode,
            back_end: self.pages.back_end(),
        }
    }
}

const REACH: u32 = 64;

impl Slots {
    #[cold]
    pub(super) fn classify_bad_free(&self, address: usize) -> GuardFinding {
        let finding = |kind, block| GuardFinding::new(kind, block, address);
        let Some(page) = self.geometry.page_of(address) else {
            return finding(ReportKind::ForeignFree, None);
        };
        let (cell, in_guard) = self.geometry.cell_of(page);
        let mut near = None;
        // The guard of a cell may hold the end of the block in front.
        for cell in [Some(cell), cell.checked_sub(1).filter(|_| in_guard)].into_iter().flatten() {
            let Some(block) = self.owner(cell) else {
                continue;
            };
            if block.start == address {
                return finding(ReportKind::DoubleFree, Some(block));
            }
            if address.wrapping_sub(block.start) < block.size {
                return finding(ReportKind::InteriorFree, Some(block));
            }
            near = nearer(near, block, address);
        }
        finding(ReportKind::ForeignFree, near)
    }

    /// Async-signal-safe.
    pub(crate) fn classify_access(&self, address: usize) -> StoppedAccess {
        let Some(page) = self.geometry.page_of(address) else {
            return StoppedAccess::WILD;
        };
        let (cell, _) = self.geometry.cell_of(page);
        let last = self.geometry.cells() - 1;
        let below = (cell.saturating_sub(REACH)..=cell.min(last)).rev();
        let above = cell..=cell.saturating_add(REACH).min(last);
        let left = below.filter_map(|cell| self.owner(cell)).find(|block| block.start <= address);
        let right = above.filter_map(|cell| self.owner(cell)).find(|block| block.start > address);
        let block = left.into_iter().chain(right).fold(None, |near, block| nearer(near, block, address));
        let other =
            [left, right].into_iter().flatten().find(|other| block.is_some_and(|block| block.start != other.start));
        let kind = block.map_or(ReportKind::WildAccess, |block| {
            let far = distance(&block, address) > 2 * self.geometry.page_bytes();
            if far {
                ReportKind::WildAccess
            } else if block.state != BlockState::Live {
                ReportKind::UseAfterFree
            } else if block.size == 0 {
                ReportKind::ZeroSizeAccess
            } else if address < block.start {
                ReportKind::Underflow
            } else {
                ReportKind::Overflow
            }
        });
        StoppedAccess { kind, block, other }
    }

    /// Async-signal-safe.
    pub(crate) fn land(&self, address: usize) -> bool {
        // A page beside a live block is closed again with the block.
        let to_close = self.classify_access(address).block.is_some_and(|block| block.state == BlockState::Live);
        self.geometry.page_of(address).is_some_and(|page| self.pages.land(page, to_close))
    }
}

/// 0 within the block, 1 for the byte in front of it and the first behind.
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

/// At the same distance it is the live one.
fn nearer(one: Option<Known>, other: Known, address: usize) -> Option<Known> {
    let rank = |block: &Known| (distance(block, address), block.state != BlockState::Live);
    Some(one.filter(|one| rank(one) <= rank(&other)).unwrap_or(other))
}
