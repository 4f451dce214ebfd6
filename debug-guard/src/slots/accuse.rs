//! Classifies a bad free or a stopped access, and finds its block. Acquires no lock and allocates nothing: the signal handler calls it.

use super::Slots;
use crate::block::{Accused, BlockState, GuardFinding, Known};
use crate::report_kind::ReportKind;

/// Cells on either side that are searched for a block.
const REACH: u32 = 64;

impl Slots {
    /// The finding of a free of `address`, where no live block begins.
    #[cold]
    pub(super) fn no_block(&self, address: usize) -> GuardFinding {
        let finding = |kind, block| GuardFinding::new(kind, block, address);
        let Some(page) = self.geometry.page_of(address) else {
            return finding(ReportKind::ForeignFree, None);
        };
        let (cell, in_guard) = self.geometry.cell_of(page);
        let mut near = None;
        // The guard of a cell may hold the end of what is in front of it.
        for cell in [Some(cell), cell.checked_sub(1).filter(|_| in_guard)]
            .into_iter()
            .flatten()
        {
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

    /// The kind of a stopped access at `address`, and the nearest blocks on both sides. Async-signal-safe.
    pub(crate) fn accused(&self, address: usize) -> Accused {
        let Some(page) = self.geometry.page_of(address) else {
            return Accused::WILD;
        };
        let (cell, _) = self.geometry.cell_of(page);
        let last = self.geometry.cells() - 1;
        let below = (cell.saturating_sub(REACH)..=cell.min(last)).rev();
        let above = cell..=cell.saturating_add(REACH).min(last);
        let left = below
            .filter_map(|cell| self.owner(cell))
            .find(|block| block.start <= address);
        let right = above
            .filter_map(|cell| self.owner(cell))
            .find(|block| block.start > address);
        let block = left
            .into_iter()
            .chain(right)
            .fold(None, |near, block| nearer(near, block, address));
        let other = [left, right]
            .into_iter()
            .flatten()
            .find(|other| block.is_some_and(|block| block.start != other.start));
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
        Accused { kind, block, other }
    }

    /// Makes the page of a stopped access accessible, so that the access continues. Async-signal-safe. False if the system refuses.
    pub(crate) fn land(&self, address: usize) -> bool {
        // A page beside a live block is closed again with the block.
        let to_close = self
            .accused(address)
            .block
            .is_some_and(|block| block.state == BlockState::Live);
        self.geometry
            .page_of(address)
            .is_some_and(|page| self.pages.land(page, to_close))
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

/// The block nearer to `address`; at the same distance, the live one.
fn nearer(one: Option<Known>, other: Known, address: usize) -> Option<Known> {
    let rank = |block: &Known| (distance(block, address), block.state != BlockState::Live);
    Some(one.filter(|one| rank(one) <= rank(&other)).unwrap_or(other))
}
