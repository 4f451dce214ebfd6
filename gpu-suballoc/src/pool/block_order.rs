//! A pool's blocks in the order they are tried: fullest first, so that the others drain.

#![forbid(unsafe_code)]

use super::blocks::BlockSlot;
use crate::growable_vec::GrowableVec;

/// A block as the search sees it: all there is to know of a block that is passed over, sixteen bytes in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockRank {
    /// Free granules.
    pub(super) free: u32,
    /// No hole has more granules than this.
    pub(super) bound: u32,
    /// A quick search for so many granules, or more, finds nothing: the last one did not, and nothing was given back since.
    pub(super) failed_fit: u32,
    pub(super) block: u32,
}

/// The order of the shared blocks; each block's slot knows its place in it.
pub(super) struct BlockOrder {
    pub(super) ranks: GrowableVec<BlockRank>,
}

impl BlockOrder {
    pub(super) const fn new() -> Self {
        Self {
            ranks: GrowableVec::new(),
        }
    }

    /// Puts a block in, for which [`GrowableVec::missing_capacity`] had room.
    pub(super) fn insert(&mut self, blocks: &mut GrowableVec<BlockSlot>, rank: BlockRank) {
        let at = self.ranks.len();
        if self.ranks.push(rank).is_ok() {
            if let Some(slot) = blocks.get_mut(rank.block) {
                slot.link = at;
            }
            self.rebalance(blocks, at);
        }
    }

    /// Takes the block at `at` out.
    pub(super) fn remove(&mut self, blocks: &mut GrowableVec<BlockSlot>, at: u32) {
        let mut at = at;
        while self.swap(blocks, at, at.saturating_add(1)) {
            at = at.saturating_add(1);
        }
        let _ = self.ranks.pop();
    }

    /// The block at `at` has other numbers than it had: moves it to where it belongs. Mostly that is where it is.
    #[inline]
    pub(super) fn rebalance(&mut self, blocks: &mut GrowableVec<BlockSlot>, at: u32) {
        let free_at = |ranks: &GrowableVec<BlockRank>, at: u32| ranks.get(at).map(|rank| rank.free);
        let Some(free) = free_at(&self.ranks, at) else {
            return;
        };
        let mut at = at;
        while let Some(before) = at.checked_sub(1) {
            if free_at(&self.ranks, before).is_none_or(|other| other <= free) {
                break;
            }
            self.swap(blocks, before, at);
            at = before;
        }
        while free_at(&self.ranks, at.saturating_add(1)).is_some_and(|other| other < free) {
            self.swap(blocks, at, at.saturating_add(1));
            at = at.saturating_add(1);
        }
    }

    fn swap(&mut self, blocks: &mut GrowableVec<BlockSlot>, one: u32, other: u32) -> bool {
        let (Some(first), Some(second)) =
            (self.ranks.get(one).copied(), self.ranks.get(other).copied())
        else {
            return false;
        };
        for (rank, at) in [(first, other), (second, one)] {
            if let Some(place) = self.ranks.get_mut(at) {
                *place = rank;
            }
            if let Some(slot) = blocks.get_mut(rank.block) {
                slot.link = at;
            }
        }
        true
    }
}
