//! What pages and slabs have in common, and the two of them as a pool has them: with their groups, under its lock.

#![forbid(unsafe_code)]

use super::groups::SlotGroups;
use super::pages::PageAllocator;
use super::slabs::SlabAllocator;
use super::types::{
    ClassShortage, FreeError, FreedSlot, HostShortage, HostShortageKind, LiveSlot, RangeShortage,
    SlotAllocation, SlotLocation, SpareRange,
};
use crate::host_block::HostBlock;

/// What is in the pages or slabs of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassTotals {
    /// Regions that live.
    pub(crate) live: u32,
    /// Their bytes.
    pub(crate) used_bytes: u64,
    /// Pages or slabs.
    pub(crate) ranges: u32,
    /// Their bytes.
    pub(crate) reserved_bytes: u64,
}

/// Regions placed into ranges that are handed in, with host memory that is handed in. One thread at a time, the owner.
///
/// A take that lacks something says what, and is repeated when it is there: host memory first, then the range. Nothing here calls
/// anybody, so all of it may be done under a lock, and what is lacking be fetched outside of it. `groups` are always the same.
pub(crate) trait SubAllocator {
    /// What the user wants to know of a page or slab.
    type RangeRef: Copy;

    /// Places a region; `size` and `alignment` in bytes.
    ///
    /// # Errors
    /// What is lacking; nothing was changed.
    fn allocate(
        &mut self,
        groups: &SlotGroups,
        size: u64,
        alignment: u64,
        user_data: u32,
    ) -> Result<SlotAllocation, ClassShortage>;

    /// Gives a region back, if its word is `word`. Never needs memory.
    ///
    /// # Errors
    /// Why there is no such live region; nothing was changed.
    fn free(
        &mut self,
        groups: &SlotGroups,
        group: u32,
        slot: u32,
        generation: u32,
        user_data: u32,
    ) -> Result<FreedSlot, FreeError>;

    /// Takes back a region that another thread claimed. `None` where it was taken back already.
    fn reclaim(&mut self, groups: &SlotGroups, group: u32, slot: u32) -> Option<FreedSlot>;

    /// Where a live region is.
    ///
    /// # Errors
    /// As [`free`](SubAllocator::free).
    fn find(
        &self,
        groups: &SlotGroups,
        group: u32,
        slot: u32,
        generation: u32,
    ) -> Result<SlotLocation, FreeError>;

    /// What the user said of the page or slab that a live region is in.
    fn range_ref(&self, groups: &SlotGroups, group: u32) -> Option<&Self::RangeRef>;

    /// Hands a range in: `need` is what was lacking, `base` its offset. Answers with the number of the page or slab.
    ///
    /// # Errors
    /// Host memory that is lacking after all; nothing was changed.
    fn add(
        &mut self,
        groups: &SlotGroups,
        range_ref: Self::RangeRef,
        base: u64,
        need: RangeShortage,
    ) -> Result<u32, ClassShortage>;

    /// The first group of a page or slab, the same as long as it is one.
    fn first_group(&self, number: u32) -> u32;

    /// Takes out an empty page or slab, where all empty ones have more than `keep` bytes; with `keep` 0 also what waits for the next take.
    fn remove_spare(
        &mut self,
        groups: &SlotGroups,
        keep: u64,
    ) -> Option<SpareRange<Self::RangeRef>>;

    /// The live regions of a page or slab, in order of their offsets.
    fn walk(&self, groups: &SlotGroups, number: u32, visit: &mut dyn FnMut(LiveSlot));

    /// Numbers of pages or slabs are below this.
    fn number_bound(&self, groups: &SlotGroups) -> u32;

    /// The largest region there can be, in bytes.
    fn max_size(&self) -> u64;

    fn totals(&self) -> ClassTotals;

    /// Adds headers of pages or slabs.
    fn add_headers(&mut self, memory: HostBlock) -> Option<HostBlock>;

    /// A group that was made waits for a page or a range.
    fn keep_group(&mut self, groups: &SlotGroups, number: u32);

    /// At the end of it all: host memory to be given back, until there is none.
    fn detach_memory(&mut self) -> Option<HostBlock>;

    /// Hands in host memory, of the layout that was lacking. What is not needed any more comes back.
    fn grow_with(
        &mut self,
        groups: &SlotGroups,
        need: HostShortage,
        memory: HostBlock,
    ) -> Option<HostBlock> {
        match need.kind {
            HostShortageKind::Headers => self.add_headers(memory),
            HostShortageKind::Groups => groups.add_headers(memory),
            HostShortageKind::Slots(slots) => match groups.add_slots(memory, slots) {
                Ok(number) => {
                    self.keep_group(groups, number);
                    None
                }
                Err(memory) => Some(memory),
            },
        }
    }
}

/// PageAllocator or slabs with their groups: all under one lock, or in one hand. Each call is the [`SubAllocator`] one of its name.
pub(crate) struct GroupedAllocator<P> {
    pub(super) groups: SlotGroups,
    pub(super) class: P,
}

/// Transient pages as a pool has them.
pub(crate) type TransientClass<H> = GroupedAllocator<PageAllocator<H>>;
/// Slabs as a pool has them.
pub(crate) type SlabClass<H> = GroupedAllocator<SlabAllocator<H>>;

impl<P: SubAllocator> GroupedAllocator<P> {
    /// Over a class without a page or slab.
    pub(crate) const fn new(class: P) -> Self {
        Self {
            groups: SlotGroups::new(),
            class,
        }
    }

    #[inline(always)]
    pub(crate) fn allocate(
        &mut self,
        size: u64,
        alignment: u64,
        user_data: u32,
    ) -> Result<SlotAllocation, ClassShortage> {
        self.class
            .allocate(&self.groups, size, alignment, user_data)
    }

    #[inline]
    pub(crate) fn free(
        &mut self,
        group: u32,
        slot: u32,
        generation: u32,
        user_data: u32,
    ) -> Result<FreedSlot, FreeError> {
        self.class
            .free(&self.groups, group, slot, generation, user_data)
    }

    pub(crate) fn find(
        &self,
        group: u32,
        slot: u32,
        generation: u32,
    ) -> Result<SlotLocation, FreeError> {
        self.class.find(&self.groups, group, slot, generation)
    }

    /// Keeps the word `to` with a region, if it was `from`. Answers with what it was.
    ///
    /// # Errors
    /// As [`free`](GroupedAllocator::free).
    pub(crate) fn set_user_data(
        &mut self,
        group: u32,
        slot: u32,
        generation: u32,
        from: u32,
        to: u32,
    ) -> Result<u32, FreeError> {
        self.groups.set_user_data(group, slot, generation, from, to)
    }

    #[inline]
    pub(crate) fn range_ref(&self, group: u32) -> Option<&P::RangeRef> {
        self.class.range_ref(&self.groups, group)
    }

    pub(crate) fn add(
        &mut self,
        range_ref: P::RangeRef,
        base: u64,
        need: RangeShortage,
    ) -> Result<u32, ClassShortage> {
        self.class.add(&self.groups, range_ref, base, need)
    }

    pub(crate) fn grow_with(&mut self, need: HostShortage, memory: HostBlock) -> Option<HostBlock> {
        self.class.grow_with(&self.groups, need, memory)
    }

    pub(crate) fn remove_spare(&mut self, keep: u64) -> Option<SpareRange<P::RangeRef>> {
        self.class.remove_spare(&self.groups, keep)
    }

    pub(crate) fn walk(&self, number: u32, visit: &mut dyn FnMut(LiveSlot)) {
        self.class.walk(&self.groups, number, visit);
    }

    pub(crate) fn number_bound(&self) -> u32 {
        self.class.number_bound(&self.groups)
    }

    pub(crate) fn max_size(&self) -> u64 {
        self.class.max_size()
    }

    pub(crate) fn totals(&self) -> ClassTotals {
        self.class.totals()
    }

    /// The class's own memory, then the groups'.
    pub(crate) fn detach_memory(&mut self) -> Option<HostBlock> {
        self.class
            .detach_memory()
            .or_else(|| self.groups.detach_memory())
    }
}

#[cfg(test)]
impl<P: SubAllocator> GroupedAllocator<P> {
    pub(super) fn groups(&self) -> &SlotGroups {
        &self.groups
    }

    pub(super) fn reclaim(&mut self, group: u32, slot: u32) -> Option<FreedSlot> {
        self.class.reclaim(&self.groups, group, slot)
    }

    /// As if these seats had been used up.
    pub(super) fn age(&self, group: u32, mut slots: core::ops::Range<u32>) {
        assert!(slots.all(|slot| {
            self.groups
                .slot(group, slot)
                .map(super::slot::SlotState::wear_out)
                .is_ok()
        }));
    }
}
