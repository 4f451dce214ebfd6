//! Slabs: small, lasting regions, all of one size in a slab, which are allocated and freed one by one.
//!
//! ```text
//!   base                                      a slab of 8 slots of 3 granules
//!   |  0  |  1  |  2  |  3  |  4  |  5  |  6  |  7  |          live: 64 bits, one a slot
//! ```
//!
//! There is a class for each number of granules up to 16, so nothing is lost to rounding. A class begins with slabs of 8 slots and doubles
//! them with its population, up to 64. A slab whose last region is freed is released if its class has another with room. A slab and its group
//! of slots have the same number. Nothing is allocated in a slab while it moves: `slabs/moves.rs`.

#![forbid(unsafe_code)]

mod moves;

use super::groups::{MAX_GROUPS, NONE, SlotGroups};
use super::segments::Segments;
use super::slot::{SlotExtent, SlotState};
use super::sub_allocator::{ClassTotals, SubAllocator};
use super::types::{
    ClassShortage, FreeError, FreedSlot, HostShortage, HostShortageKind, LiveSlot, RangeShortage,
    SlotAllocation, SlotLocation, SpareRange,
};
use crate::host_block::HostBlock;

/// Granules of the largest class.
const CLASSES: usize = 16;
/// Slots of the smallest and the largest slab.
const MIN_SLOTS: u32 = 8;
const MAX_SLOTS: u32 = 64;
/// 8, 16, 32, 64.
const SIZES: usize = 4;

/// One slab.
pub(super) struct Slab<H> {
    range_ref: Option<H>,
    /// Bytes.
    base: u64,
    /// A bit a slot: the live regions, and the slots with generations left.
    live: u64,
    usable: u64,
    /// Neighbours in the list of slabs with room of its class, of empty slabs, or of slabs without a range.
    previous: u32,
    next: u32,
    granules: u32,
    slots: u16,
    listing: SlabListing,
}

/// Where a slab is listed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SlabListing {
    /// In the list of slabs with room of its class, while it has room.
    InUse,
    /// In the list of empty slabs of its class, or of worn ones: to be released.
    Spare,
    /// In no list: its range is about to move, and nothing is allocated in it.
    Frozen,
}

/// The slabs of one size.
#[derive(Clone, Copy)]
struct SizeClass {
    /// Slabs with room.
    partial: u32,
    /// Empty slabs, to be released unless they are needed before.
    empty: u32,
    slots: u32,
}

/// The slabs of one kind of memory. `H` names the range of a slab.
pub(crate) struct SlabAllocator<H> {
    headers: Segments<Slab<H>>,
    classes: [SizeClass; CLASSES],
    /// Slabs without a range, by their number of slots.
    vacant: [u32; SIZES],
    /// Empty slabs whose slots have no generations left, to be released.
    worn: u32,
    granule_log2: u32,
    live: u32,
    slabs: u32,
    used_bytes: u64,
    reserved_bytes: u64,
    /// Granules in empty slabs.
    empty: u64,
}

const fn all(slots: u32) -> u64 {
    u64::MAX >> ((MAX_SLOTS - slots) & 63)
}

/// The index of a number of slots among the four sizes.
const fn size(slots: u32) -> usize {
    (slots
        .trailing_zeros()
        .saturating_sub(MIN_SLOTS.trailing_zeros())) as usize
}

impl<H> Slab<H> {
    const fn vacant() -> Self {
        Self {
            range_ref: None,
            base: 0,
            live: 0,
            usable: 0,
            previous: NONE,
            next: NONE,
            granules: 0,
            slots: 0,
            listing: SlabListing::InUse,
        }
    }

    const fn slots(&self) -> u32 {
        self.slots as u32
    }

    /// Granules of its range.
    const fn span(&self) -> u64 {
        (self.granules * self.slots()) as u64
    }

    const fn room(&self) -> u64 {
        self.usable & !self.live
    }
}

impl<H: Copy> SlabAllocator<H> {
    /// No slabs yet. `granule` is bytes, a power of two.
    pub(crate) const fn new(granule: u64) -> Self {
        Self {
            headers: Segments::new(),
            classes: [SizeClass {
                partial: NONE,
                empty: NONE,
                slots: 0,
            }; CLASSES],
            vacant: [NONE; SIZES],
            worn: NONE,
            granule_log2: granule.trailing_zeros(),
            live: 0,
            slabs: 0,
            used_bytes: 0,
            reserved_bytes: 0,
            empty: 0,
        }
    }

    /// The number of live regions.
    #[inline]
    pub(crate) const fn live(&self) -> u32 {
        self.live
    }

    /// Bytes in regions, and bytes in slabs.
    const fn bytes(&self) -> (u64, u64) {
        (
            self.used_bytes << self.granule_log2,
            self.reserved_bytes << self.granule_log2,
        )
    }

    /// Granules of the class of a request.
    #[inline(always)]
    fn class_of(&self, size: u64, alignment: u64) -> Option<u32> {
        let largest = self.max_size();
        if size.wrapping_sub(1) >= largest || alignment > largest || !alignment.is_power_of_two() {
            return None;
        }
        // A slot's distance from the base is a multiple of its size, which must be a multiple of the alignment.
        let mask = (alignment - 1) >> self.granule_log2;
        let granules = ((size - 1) >> self.granule_log2) + 1;
        let granules = (granules + mask) & !mask;
        u32::try_from(granules)
            .ok()
            .filter(|granules| *granules as usize <= CLASSES)
    }

    fn class(&mut self, granules: u32) -> Option<&mut SizeClass> {
        self.classes.get_mut((granules as usize).wrapping_sub(1))
    }

    /// Places a region in the first slab with room. `None` if there is no slab, or the slot has no generation left.
    #[inline(always)]
    fn place(
        &mut self,
        groups: &SlotGroups,
        granules: u32,
        user_data: u32,
    ) -> Option<SlotAllocation> {
        let number = self
            .classes
            .get((granules as usize).wrapping_sub(1))?
            .partial;
        let slab = self.headers.get_mut(number)?;
        let slot = slab.room().trailing_zeros();
        let first = slot * granules;
        let generation = groups.slot(number, slot).ok()?.issue(SlotExtent {
            first,
            granules,
            user_data,
        })?;
        slab.live |= 1u64 << (slot & 63);
        let base = slab.base;
        if slab.room() == 0 {
            self.unlink(granules, number);
        }
        self.live += 1;
        self.used_bytes += u64::from(granules);
        let size = u64::from(granules) << self.granule_log2;
        Some(SlotAllocation {
            group: number,
            slot,
            generation,
            offset: base + u64::from(slot) * size,
            size,
        })
    }

    /// Makes progress for the next attempt: excludes a slot without a generation left, or finds a slab with room.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, granules: u32) -> Result<(), ClassShortage> {
        let number = self
            .class(granules)
            .ok_or(ClassShortage::Unsupported)?
            .partial;
        let Some(slab) = self.headers.get_mut(number) else {
            return self.revive(granules);
        };
        slab.usable &= !(1u64 << (slab.room().trailing_zeros() & 63));
        let (full, worn) = (slab.room() == 0, slab.usable == 0 && slab.live == 0);
        if full {
            self.unlink(granules, number);
        }
        if worn {
            self.retire(granules, number);
        }
        Ok(())
    }

    /// Reuses an empty slab for a class without room, or returns the range that a new one needs.
    fn revive(&mut self, granules: u32) -> Result<(), ClassShortage> {
        let class = *self.class(granules).ok_or(ClassShortage::Unsupported)?;
        let Some(slab) = self.headers.get(class.empty) else {
            let slots = class
                .slots
                .max(MIN_SLOTS)
                .checked_next_power_of_two()
                .unwrap_or(MAX_SLOTS)
                .min(MAX_SLOTS);
            let granule = 1u64 << self.granule_log2;
            let size = u64::from(slots * granules) * granule;
            let alignment = granule << granules.trailing_zeros();
            return Err(ClassShortage::Range(RangeShortage {
                size,
                alignment,
                granules,
            }));
        };
        let (next, size) = (slab.next, slab.span());
        if let Some(found) = self.class(granules) {
            found.empty = next;
        }
        if let Some(slab) = self.headers.get_mut(class.empty) {
            slab.listing = SlabListing::InUse;
        }
        self.empty -= size;
        self.link(granules, class.empty);
        Ok(())
    }

    /// The memory to supply before a slab of that range can be added.
    pub(super) fn shortage_for(
        &self,
        groups: &SlotGroups,
        need: RangeShortage,
    ) -> Option<ClassShortage> {
        let slots = self.slots_of(need);
        if self
            .vacant
            .get(size(slots))
            .is_some_and(|vacant| *vacant != NONE)
        {
            return None;
        }
        let next = groups.count();
        if next >= MAX_GROUPS {
            return Some(ClassShortage::Unsupported);
        }
        if let Some(layout) = self.headers.missing_capacity(next) {
            return Some(ClassShortage::Memory(HostShortage {
                layout,
                kind: HostShortageKind::Headers,
            }));
        }
        Some(
            groups
                .missing_capacity(slots)
                .map_or(ClassShortage::Unsupported, ClassShortage::Memory),
        )
    }

    fn slots_of(&self, need: RangeShortage) -> u32 {
        let granules = need.size >> self.granule_log2;
        u32::try_from(granules.checked_div(u64::from(need.granules)).unwrap_or(0)).unwrap_or(0)
    }

    #[inline]
    fn slot_freed(&mut self, number: u32, slot: u32, extent: SlotExtent) -> FreedSlot {
        let granules = extent.granules;
        self.live -= 1;
        self.used_bytes -= u64::from(granules);
        let mut emptied = false;
        if let Some(slab) = self.headers.get_mut(number) {
            let was_full = slab.room() == 0;
            slab.live &= !(1u64 << (slot & 63));
            // A frozen slab is in no list: `thaw` decides whether it stays.
            let is_in_use = slab.listing == SlabListing::InUse;
            let empty = slab.live == 0;
            if is_in_use && was_full && slab.room() != 0 {
                self.link(granules, number);
            }
            if is_in_use && empty {
                emptied = self.retire(granules, number);
            }
        }
        FreedSlot {
            size: u64::from(granules) << self.granule_log2,
            user_data: extent.user_data,
            is_emptied: emptied,
        }
    }

    /// Lists an empty slab as spare, unless it is the last of its class with room.
    #[cold]
    fn retire(&mut self, granules: u32, number: u32) -> bool {
        let Some(slab) = self.headers.get_mut(number) else {
            return false;
        };
        if slab.usable == 0 {
            slab.listing = SlabListing::Spare;
            slab.next = core::mem::replace(&mut self.worn, number);
            return true;
        }
        let linked = slab.room() != 0;
        if linked && slab.previous == NONE && slab.next == NONE {
            return false;
        }
        let size = slab.span();
        if linked {
            self.unlink(granules, number);
        }
        let Some(class) = self.classes.get_mut((granules as usize).wrapping_sub(1)) else {
            return false;
        };
        if let Some(slab) = self.headers.get_mut(number) {
            slab.listing = SlabListing::Spare;
            slab.next = class.empty;
            class.empty = number;
            self.empty += size;
        }
        true
    }

    /// Puts a slab first in its class's list of slabs with room.
    fn link(&mut self, granules: u32, number: u32) {
        let Some(class) = self.classes.get_mut((granules as usize).wrapping_sub(1)) else {
            return;
        };
        let next = core::mem::replace(&mut class.partial, number);
        if let Some(slab) = self.headers.get_mut(number) {
            slab.previous = NONE;
            slab.next = next;
        }
        if let Some(next) = self.headers.get_mut(next) {
            next.previous = number;
        }
    }

    /// Removes a slab from its class's list of slabs with room.
    fn unlink(&mut self, granules: u32, number: u32) {
        let Some(slab) = self.headers.get_mut(number) else {
            return;
        };
        let (previous, next) = (slab.previous, slab.next);
        slab.previous = NONE;
        slab.next = NONE;
        match self.headers.get_mut(previous) {
            Some(previous) => previous.next = next,
            None => {
                if let Some(class) = self.class(granules) {
                    class.partial = next;
                }
            }
        }
        if let Some(next) = self.headers.get_mut(next) {
            next.previous = previous;
        }
    }

    /// Dissolves an empty slab: its slots are reused by another range, unless some have no generation left.
    fn dissolve(&mut self, groups: &SlotGroups, number: u32) -> Option<SpareRange<H>> {
        let slab = self.headers.get_mut(number)?;
        let (range_ref, base, granules) = (slab.range_ref.take()?, slab.base, slab.span());
        let (class, slots) = (slab.granules, slab.slots());
        let fresh = slab.usable == all(slots);
        if let Some(class) = self.class(class) {
            class.slots -= slots;
        }
        self.slabs -= 1;
        self.reserved_bytes -= granules;
        if fresh {
            self.keep_group(groups, number);
        }
        Some(SpareRange {
            range_ref,
            base,
            size: granules << self.granule_log2,
        })
    }
}

impl<H: Copy> SubAllocator for SlabAllocator<H> {
    type RangeRef = H;

    #[inline(always)]
    fn allocate(
        &mut self,
        groups: &SlotGroups,
        size: u64,
        alignment: u64,
        user_data: u32,
    ) -> Result<SlotAllocation, ClassShortage> {
        let granules = self
            .class_of(size, alignment)
            .ok_or(ClassShortage::Unsupported)?;
        loop {
            if let Some(taken) = self.place(groups, granules, user_data) {
                return Ok(taken);
            }
            self.make_room(granules)?;
        }
    }

    #[inline]
    fn free(
        &mut self,
        groups: &SlotGroups,
        group: u32,
        slot: u32,
        generation: u32,
        user_data: u32,
    ) -> Result<FreedSlot, FreeError> {
        let extent = groups.slot(group, slot)?.free(generation, user_data)?;
        Ok(self.slot_freed(group, slot, extent))
    }

    fn reclaim(&mut self, groups: &SlotGroups, group: u32, slot: u32) -> Option<FreedSlot> {
        let extent = groups.slot(group, slot).ok().and_then(SlotState::reclaim)?;
        Some(self.slot_freed(group, slot, extent))
    }

    fn find(
        &self,
        groups: &SlotGroups,
        group: u32,
        slot: u32,
        generation: u32,
    ) -> Result<SlotLocation, FreeError> {
        let extent = groups.slot(group, slot)?.live_extent(generation)?;
        let base = self.headers.get(group).ok_or(FreeError::Foreign)?.base;
        Ok(SlotLocation {
            offset: base + (u64::from(extent.first) << self.granule_log2),
            size: u64::from(extent.granules) << self.granule_log2,
            user_data: extent.user_data,
        })
    }

    #[inline]
    fn range_ref(&self, _: &SlotGroups, group: u32) -> Option<&H> {
        self.headers.get(group)?.range_ref.as_ref()
    }

    fn add(
        &mut self,
        groups: &SlotGroups,
        range_ref: H,
        base: u64,
        need: RangeShortage,
    ) -> Result<u32, ClassShortage> {
        if let Some(shortage) = self.shortage_for(groups, need) {
            return Err(shortage);
        }
        let slots = self.slots_of(need);
        let vacant = self
            .vacant
            .get_mut(size(slots))
            .ok_or(ClassShortage::Unsupported)?;
        let number = *vacant;
        let slab = self
            .headers
            .get_mut(number)
            .ok_or(ClassShortage::Unsupported)?;
        *vacant = slab.next;
        *slab = Slab {
            range_ref: Some(range_ref),
            base,
            usable: all(slots),
            granules: need.granules,
            slots: slots as u16,
            ..Slab::vacant()
        };
        self.slabs += 1;
        self.reserved_bytes += u64::from(slots * need.granules);
        if let Some(class) = self.class(need.granules) {
            class.slots += slots;
        }
        self.link(need.granules, number);
        Ok(number)
    }

    fn first_group(&self, number: u32) -> u32 {
        number
    }

    fn remove_spare(&mut self, groups: &SlotGroups, keep: u64) -> Option<SpareRange<H>> {
        if let Some(slab) = self.headers.get(self.worn) {
            let next = slab.next;
            let worn = core::mem::replace(&mut self.worn, next);
            return self.dissolve(groups, worn);
        }
        if keep > 0 && self.empty << self.granule_log2 <= keep {
            return None;
        }
        for granules in 1..=CLASSES as u32 {
            let class = *self.class(granules)?;
            if let Some(slab) = self.headers.get(class.empty) {
                let (next, size) = (slab.next, slab.span());
                if let Some(found) = self.class(granules) {
                    found.empty = next;
                }
                self.empty -= size;
                return self.dissolve(groups, class.empty);
            }
            if keep == 0
                && self
                    .headers
                    .get(class.partial)
                    .is_some_and(|slab| slab.live == 0)
            {
                self.unlink(granules, class.partial);
                return self.dissolve(groups, class.partial);
            }
        }
        None
    }

    fn walk(&self, groups: &SlotGroups, number: u32, visit: &mut dyn FnMut(LiveSlot)) {
        let (Some(slab), Some(group)) = (self.headers.get(number), groups.get(number)) else {
            return;
        };
        for slot in 0..group.len() {
            let Some((generation, extent)) = group.slot(slot).and_then(SlotState::current) else {
                continue;
            };
            visit(LiveSlot {
                group: number,
                slot,
                generation,
                offset: slab.base + (u64::from(extent.first) << self.granule_log2),
                size: u64::from(extent.granules) << self.granule_log2,
                user_data: extent.user_data,
            });
        }
    }

    fn max_size(&self) -> u64 {
        (CLASSES as u64) << self.granule_log2
    }

    fn number_bound(&self, groups: &SlotGroups) -> u32 {
        groups.count()
    }

    fn totals(&self) -> ClassTotals {
        let (used, reserved) = self.bytes();
        ClassTotals {
            live: self.live,
            used_bytes: used,
            ranges: self.slabs,
            reserved_bytes: reserved,
        }
    }

    fn add_headers(&mut self, memory: HostBlock) -> Option<HostBlock> {
        self.headers.grow_with(memory, Slab::vacant)
    }

    fn keep_group(&mut self, groups: &SlotGroups, number: u32) {
        let slots = groups.get(number).map_or(0, |group| group.len());
        if let (Some(slab), Some(vacant)) = (
            self.headers.get_mut(number),
            self.vacant.get_mut(size(slots)),
        ) {
            *slab = Slab {
                next: *vacant,
                slots: slots as u16,
                usable: all(slots),
                ..Slab::vacant()
            };
            *vacant = number;
        }
    }

    fn detach_memory(&mut self) -> Option<HostBlock> {
        self.headers.detach_memory()
    }
}
