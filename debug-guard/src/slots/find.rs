//! Finds the block at an address. Acquires no lock and allocates nothing: the signal handler calls it.

use core::sync::atomic::Ordering::Relaxed;

use super::Slots;
use super::geometry::{BlockPlacement, Shape};
use super::record::CellRecord;
use super::slot_state::{SlotKind, SlotState};
use crate::block::{BlockState, GuardFinding, Known};

/// A block with its record, state word and placement.
pub(super) struct FoundBlock<'a> {
    pub(super) cell: u32,
    pub(super) record: &'a CellRecord,
    /// As it was loaded.
    pub(super) word: SlotState,
    pub(super) place: BlockPlacement,
}

impl Slots {
    /// True for every address of the region, the pages between blocks included.
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.geometry.page_of(address).is_some()
    }

    /// True for a block in one page of one cell.
    pub(super) fn is_single(&self, shape: Shape) -> bool {
        let page_bytes = self.geometry.page_bytes();
        shape.size <= page_bytes && shape.align <= page_bytes
    }

    /// The live block that begins at `address`, or the finding of a free of `address`.
    #[expect(
        clippy::result_large_err,
        reason = "the answer to a good question is as large"
    )]
    pub(crate) fn validate_pointer(&self, address: usize) -> Result<Known, GuardFinding> {
        let live = self.live(address);
        live.map(|block| self.known_of(block.cell, block.word, block.record))
            .ok_or_else(|| self.no_block(address))
    }

    /// The live block that begins at `address`: in its cell; a block of no bytes in the guard page behind its cell; a block aligned above a
    /// page in any cell of its run.
    pub(super) fn live(&self, address: usize) -> Option<FoundBlock<'_>> {
        let (cell, in_guard) = self.geometry.cell_of(self.geometry.page_of(address)?);
        let body = self
            .table
            .get(cell)
            .filter(|record| record.word().kind() == SlotKind::Body);
        let head = body.map_or(cell, |record| record.link.load(Relaxed));
        let before = cell.checked_sub(1).filter(|_| in_guard);
        [Some(head), before].into_iter().flatten().find_map(|cell| {
            let record = self.table.get(cell)?;
            let word = record.word();
            let place = self.geometry.place(cell, word.shape());
            (word.kind() == SlotKind::Live && place.start == address).then_some(FoundBlock {
                cell,
                record,
                word,
                place,
            })
        })
    }

    /// The live or last freed block that covers a cell.
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

    /// The live or last freed block of a cell.
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
            freed: if state == BlockState::Live {
                Default::default()
            } else {
                record.freed()
            },
            mode: self.mode,
            back_end: self.pages.back_end(),
        }
    }
}
