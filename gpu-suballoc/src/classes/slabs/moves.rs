//! Slabs whose range moves: nothing is allocated in them from [`freeze`](SlabClass::freeze) until [`thaw`](SlabClass::thaw).
//!
//! ```text
//!   in use -- freeze --> frozen: its regions can be found and freed, no slot is issued
//!                          |  \-- relocate: the same slots, at another place
//!                          v
//!                        thaw: in use, or if it is empty: its range is removed
//! ```

#![forbid(unsafe_code)]

use super::super::groups::{NONE, SlotGroups};
use super::super::sub_allocator::SlabClass;
use super::super::types::SpareRange;
use super::{Slab, SlabAllocator, SlabListing};

impl<H: Copy> SlabAllocator<H> {
    fn freeze(&mut self, groups: &SlotGroups, number: u32) -> Option<SpareRange<H>> {
        let slab = self.headers.get_mut(number)?;
        slab.range_ref.as_ref()?;
        let (listing, granules) = (slab.listing, slab.granules);
        let (has_room, is_empty) = (slab.room() != 0, slab.live == 0);
        match listing {
            SlabListing::Frozen => return None,
            SlabListing::InUse if has_room => self.unlink(granules, number),
            SlabListing::InUse => {}
            SlabListing::Spare => self.unlink_spare(number),
        }
        self.headers.get_mut(number)?.listing = SlabListing::Frozen;
        if is_empty {
            return self.dissolve(groups, number);
        }
        None
    }

    fn thaw(&mut self, groups: &SlotGroups, number: u32) -> Option<SpareRange<H>> {
        let slab = self.headers.get_mut(number)?;
        if slab.listing != SlabListing::Frozen {
            return None;
        }
        slab.listing = SlabListing::InUse;
        let (granules, has_room) = (slab.granules, slab.room() != 0);
        if slab.live == 0 {
            return self.dissolve(groups, number);
        }
        if has_room {
            self.link(granules, number);
        }
        None
    }

    /// Removes a slab from the list of empty ones of its class, or of worn ones. Visits each slab before it.
    fn unlink_spare(&mut self, number: u32) {
        let Some(slab) = self.headers.get(number) else {
            return;
        };
        let (is_worn, granules) = (slab.usable == 0, slab.granules);
        let (next, size) = (slab.next, slab.span());
        let first = if is_worn {
            self.worn
        } else {
            self.class(granules).map_or(NONE, |class| class.empty)
        };
        let mut at = first;
        while at != number
            && let Some(before) = self.headers.get_mut(at)
        {
            at = before.next;
            if at == number {
                before.next = next;
            }
        }
        if first == number {
            if is_worn {
                self.worn = next;
            } else if let Some(class) = self.class(granules) {
                class.empty = next;
            }
        }
        if !is_worn {
            self.empty -= size;
        }
        if let Some(slab) = self.headers.get_mut(number) {
            slab.next = NONE;
        }
    }
}

impl<H: Copy> SlabClass<H> {
    /// Stops allocation in a slab until it [thaws](Self::thaw). Dissolves an empty slab, and returns its range.
    pub(crate) fn freeze(&mut self, number: u32) -> Option<SpareRange<H>> {
        self.class.freeze(&self.groups, number)
    }

    /// Allows allocation in a frozen slab again. Dissolves an empty slab, and returns its range.
    pub(crate) fn thaw(&mut self, number: u32) -> Option<SpareRange<H>> {
        self.class.thaw(&self.groups, number)
    }

    /// The range of a frozen slab, and its offset.
    pub(crate) fn frozen(&self, number: u32) -> Option<(H, u64)> {
        let slab = self.class.headers.get(number)?;
        let range_ref = slab
            .range_ref
            .filter(|_| slab.listing == SlabListing::Frozen)?;
        Some((range_ref, slab.base))
    }

    /// Sets the range of a frozen slab, with all its regions. False if there is no such slab.
    pub(crate) fn relocate(&mut self, number: u32, range_ref: H, base: u64) -> bool {
        let slab = self.class.headers.get_mut(number);
        let is_frozen =
            |slab: &&mut Slab<H>| slab.listing == SlabListing::Frozen && slab.range_ref.is_some();
        let Some(slab) = slab.filter(is_frozen) else {
            return false;
        };
        slab.range_ref = Some(range_ref);
        slab.base = base;
        true
    }

    /// The number of regions in a slab.
    pub(crate) fn live_in(&self, number: u32) -> u32 {
        let slab = self.class.headers.get(number);
        slab.map_or(0, |slab| slab.live.count_ones())
    }
}
