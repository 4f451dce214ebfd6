//! A pool's blocks in the order they are tried: fullest first, so that the others drain.

#![forbid(unsafe_code)]

use super::blocks::BlockSlot;
use super::table::Table;

/// A block as the search sees it: all there is to know of a block that is passed over, sixteen bytes in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    /// Free granules.
    pub(super) free: u32,
    /// No hole has more granules than this.
    pub(super) bound: u32,
    /// A quick search for so many granules, or more, finds nothing: the last one did not, and nothing was given back since.
    pub(super) missed: u32,
    pub(super) block: u32,
}

/// The order of the shared blocks; each block's slot knows its place in it.
pub(super) struct Order {
    pub(super) ranks: Table<Rank>,
}

impl Order {
    pub(super) const fn new() -> Self {
        Self { ranks: Table::new() }
    }

    /// Puts a block in, for which [`Table::lacks`] had room.
    pub(super) fn insert(&mut self, blocks: &mut Table<BlockSlot>, rank: Rank) {
        let at = self.ranks.len();
        if self.ranks.push(rank).is_ok() {
            if let Some(slot) = blocks.get_mut(rank.block) {
                slot.link = at;
            }
            self.settle(blocks, at);
        }
    }

    /// Takes the block at `at` out.
    pub(super) fn remove(&mut self, blocks: &mut Table<BlockSlot>, at: u32) {
        let mut at = at;
        while self.swap(blocks, at, at.saturating_add(1)) {
            at = at.saturating_add(1);
        }
        let _ = self.ranks.pop();
    }

    /// The block at `at` has other numbers than it had: moves it to where it belongs. Mostly that is where it is.
    #[inline]
    pub(super) fn settle(&mut self, blocks: &mut Table<BlockSlot>, at: u32) {
        let free_at = |ranks: &Table<Rank>, at: u32| ranks.get(at).map(|rank| rank.free);
        let Some(free) = free_at(&self.ranks, at) else { return };
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

    fn swap(&mut self, blocks: &mut Table<BlockSlot>, one: u32, other: u32) -> bool {
        let (Some(first), Some(second)) = (self.ranks.get(one).copied(), self.ranks.get(other).copied()) else {
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
