//! Finds the block at an address. Acquires no lock and allocates nothing: the signal handler calls it.

use core::sync::atomic::Ordering::Relaxed;

use super::Slots;
use super::geometry::BlockPlacement;
use super::record::CellRecord;
use super::slot_region::SlotRegion;
use super::slot_state::{SlotKind, SlotState};
use crate::block::{BlockState, GuardFinding, Known};
use crate::os::Pages;

/// A block with its record, state word and placement.
pub(super) struct FoundBlock<'a, P> {
    pub(super) region: &'a SlotRegion<P>,
    pub(super) cell: u32,
    pub(super) record: &'a CellRecord,
    /// As it was loaded.
    pub(super) word: SlotState,
    pub(super) place: BlockPlacement,
}

impl<'a, P: Pages> FoundBlock<'a, P> {
    #[inline(always)]
    fn find(region: &'a SlotRegion<P>, cell: u32) -> Option<Self> {
        let record = region.record(cell)?;
        let word = record.word();
        Some(Self {
            region,
            cell,
            record,
            word,
            place: region.geometry.place(cell, word.shape()),
        })
    }

    #[inline]
    fn is_live_at(&self, address: usize) -> bool {
        self.word.is(SlotKind::Live) && self.place.start == address
    }
}

impl<P: Pages> Slots<P> {
    /// True for every address of the regions, the pages between blocks included.
    #[inline]
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.region_of(address).is_some()
    }

    #[inline]
    pub(super) fn region_of(&self, address: usize) -> Option<(&SlotRegion<P>, usize)> {
        if let Some(page) = self.small.geometry.page_of(address) {
            return Some((&self.small, page));
        }
        let large = self.large()?;
        Some((large, large.geometry.page_of(address)?))
    }

    /// The live block that begins at `address`, or the finding of a free of `address`.
    #[expect(
        clippy::result_large_err,
        reason = "the answer to a good question is as large"
    )]
    pub(crate) fn validate_pointer(&self, address: usize) -> Result<Known, GuardFinding> {
        let live = self
            .live(address)
            .map(|block| self.known_of(block.region, block.cell, block.word, block.record));
        live.ok_or_else(|| self.no_block(address))
    }

    /// The live block that begins at `address`.
    #[inline(always)]
    pub(super) fn live(&self, address: usize) -> Option<FoundBlock<'_, P>> {
        let page = self.small.geometry.page_of(address);
        let (cell, in_guard) = self.small.geometry.cell_of(page.unwrap_or_default());
        let here =
            |cell| FoundBlock::find(&self.small, cell).filter(|block| block.is_live_at(address));
        if let (Some(_), false, Some(block)) = (page, in_guard, here(cell)) {
            Some(block)
        } else {
            self.live_elsewhere(address)
        }
    }

    /// Searches the other places: a block of no bytes is in the guard page behind its cell, a block aligned above a page may begin in any
    /// cell of its run, and a large one is in the second region.
    #[cold]
    fn live_elsewhere(&self, address: usize) -> Option<FoundBlock<'_, P>> {
        let (region, page) = self.region_of(address)?;
        let (cell, in_guard) = region.geometry.cell_of(page);
        let body = region
            .record(cell)
            .filter(|record| record.word().kind() == SlotKind::Body);
        let head = body.map_or(cell, |record| record.link.load(Relaxed));
        let before = cell.checked_sub(1).filter(|_| in_guard);
        let mut blocks = [Some(head), before]
            .into_iter()
            .flatten()
            .filter_map(|cell| FoundBlock::find(region, cell));
        blocks.find(|block| block.is_live_at(address))
    }

    /// The live or last freed block that covers a cell.
    pub(super) fn owner(&self, region: &SlotRegion<P>, cell: u32) -> Option<Known> {
        let record = region.record(cell)?;
        if !record.word().kind().is_body() {
            return self.known(region, cell);
        }
        let head = record.link.load(Relaxed);
        let shape = region.record(head)?.word().shape();
        let cells = region.geometry.cells_for(shape)?;
        let covers = cell.wrapping_sub(head) < cells;
        covers.then(|| self.known(region, head))?
    }

    /// The live or last freed block of a cell.
    pub(super) fn known(&self, region: &SlotRegion<P>, cell: u32) -> Option<Known> {
        let record = region.record(cell)?;
        let word = record.word();
        word.is_block()
            .then(|| self.known_of(region, cell, word, record))
    }

    pub(super) fn known_of(
        &self,
        region: &SlotRegion<P>,
        cell: u32,
        word: SlotState,
        record: &CellRecord,
    ) -> Known {
        let shape = word.shape();
        let state = match record.moved_to() {
            _ if word.is(SlotKind::Live) => BlockState::Live,
            Some(address) => BlockState::MovedTo(address),
            None => BlockState::Freed,
        };
        Known {
            start: region.geometry.place(cell, shape).start,
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
            back_end: region.back_end(),
        }
    }
}
