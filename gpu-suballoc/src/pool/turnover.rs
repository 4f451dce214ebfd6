//! Selects the blocks that drain: those without which the last turnover of the pool's regions would have had enough
//! room.
//!
//! ```text
//!   free bytes of open blocks
//!     |\    /\   /\        one turnover: half as many allocations as there are regions
//!     | \  /  \_/  \  /
//!     |  \/         \/  <- lowest
//!     |                    close the emptiest open block while, without its free bytes, `lowest` is at least
//!     +-----------------   its used bytes and a quarter of the used bytes of all open blocks
//! ```
//!
//! Nothing is allocated in a closed block, so it drains. It is opened again before the driver is called for a new
//! block.

#![forbid(unsafe_code)]

use super::blocks::{BlockListing, Blocks};

const MIN_ALLOCATIONS: u32 = 16;
/// One pass finds so many at most; the next turnover goes on.
const MAX_CLOSED: usize = 32;
/// Open blocks keep at least this part of their used bytes free.
const SPARE_PART: u64 = 4;

#[derive(Debug)]
pub(super) struct Turnover {
    ranges: u32,
    allocations: u32,
    pub(super) free: u64,
    pub(super) used: u64,
    lowest: u64,
}

impl Turnover {
    pub(super) const fn new() -> Self {
        Self { ranges: 0, allocations: 0, free: 0, used: 0, lowest: 0 }
    }

    /// True when the turnover is over.
    #[inline]
    pub(super) fn note_allocation(&mut self, bytes: u64) -> bool {
        self.ranges = self.ranges.wrapping_add(1);
        self.allocations = self.allocations.wrapping_add(1);
        self.free = self.free.wrapping_sub(bytes);
        self.used = self.used.wrapping_add(bytes);
        self.lowest = self.lowest.min(self.free);
        self.allocations > (self.ranges / 2).max(MIN_ALLOCATIONS)
    }

    #[inline]
    pub(super) fn note_freed(&mut self, bytes: u64, is_open: bool) {
        self.ranges = self.ranges.wrapping_sub(1);
        if is_open {
            self.free = self.free.wrapping_add(bytes);
            self.used = self.used.wrapping_sub(bytes);
        }
    }

    pub(super) fn note_opened(&mut self, free: u64, used: u64) {
        self.free = self.free.wrapping_add(free);
        self.used = self.used.wrapping_add(used);
    }

    pub(super) fn note_closed(&mut self, free: u64, used: u64) {
        self.free = self.free.wrapping_sub(free);
        self.used = self.used.wrapping_sub(used);
        self.lowest = self.lowest.saturating_sub(free);
    }

    fn is_dispensable(&self, free: u64, used: u64) -> bool {
        let spare = used.saturating_add(self.used / SPARE_PART);
        self.used > 0 && self.lowest.checked_sub(free).is_some_and(|rest| rest >= spare)
    }
}

impl Blocks {
    #[cold]
    pub(super) fn end_turnover(&mut self) {
        for (block, free, used) in self.emptiest_open().into_iter().flatten() {
            if !self.turnover.is_dispensable(free, used) {
                break;
            }
            self.list_as(block, BlockListing::Closed);
        }
        self.turnover.allocations = 0;
        self.turnover.lowest = self.turnover.free;
    }

    /// Free and used bytes of all but the last open block are returned, the emptiest first.
    fn emptiest_open(&self) -> [Option<(u32, u64, u64)>; MAX_CLOSED] {
        let mut emptiest = [None; MAX_CLOSED];
        let mut open = 0usize;
        for (block, live) in self.slots.each() {
            if live.listing != BlockListing::Open {
                continue;
            }
            open += 1;
            let mut next = Some((block, live.core.free_bytes(), live.core.used_bytes()));
            let used = |of: &Option<(u32, u64, u64)>| of.map_or(u64::MAX, |(_, _, used)| used);
            let at = emptiest.partition_point(|one| used(one) <= used(&next));
            for place in emptiest.iter_mut().skip(at) {
                core::mem::swap(place, &mut next);
            }
        }
        if let Some(last) = emptiest.get_mut(open.wrapping_sub(1)) {
            *last = None;
        }
        emptiest
    }

    pub(super) fn list_as(&mut self, block: u32, listing: BlockListing) -> bool {
        let Some(live) = self.slots.get_mut(block) else {
            return false;
        };
        let index = |listing| match listing {
            BlockListing::Open => &self.open,
            BlockListing::Closed => &self.closed,
            BlockListing::Draining => &self.draining,
        };
        let before = live.listing;
        if before == listing {
            return true;
        }
        live.core.relist(&self.store, index(before), index(listing));
        live.listing = listing;
        let (free, used) = (live.core.free_bytes(), live.core.used_bytes());
        if listing == BlockListing::Open {
            self.turnover.note_opened(free, used);
        } else if before == BlockListing::Open {
            self.turnover.note_closed(free, used);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which block drains is in `regions::blocks`.
    #[test]
    fn a_turnover_is_half_as_many_allocations_as_there_are_regions() {
        let mut turnover = Turnover::new();
        assert!(!turnover.is_dispensable(0, 0), "nothing lies anywhere");
        assert_eq!((1..100).find(|_| turnover.note_allocation(1)), Some(MIN_ALLOCATIONS + 1));
        turnover.ranges = 100;
        turnover.allocations = 0;
        assert_eq!((1..200).find(|_| turnover.note_allocation(1)), Some(101), "each is a region too");
    }
}
