//! The common interface of pages and slabs, and both together with their groups, as a pool has them.

#![forbid(unsafe_code)]

use super::groups::SlotGroups;
use super::pages::PageAllocator;
use super::slabs::SlabAllocator;
use super::types::{
    ClassShortage, FreeError, FreedSlot, HostShortage, HostShortageKind, LiveSlot, RangeShortage,
    SlotAllocation, SlotLocation, SpareRange,
};
use crate::host_block::HostBlock;

/// The totals of a class.
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

/// Places regions in ranges, with host memory, that the caller supplies. One thread at a time, the owner.
///
/// An allocation that lacks something returns what, and the caller repeats it with that supplied: host memory first, then the range. No method
/// calls back, so all may be called under a lock, and the missing memory be allocated without it. `groups` must always be the same.
pub(crate) trait SubAllocator {
    /// Names the range of a page or slab.
    type RangeRef: Copy;

    /// Places a region; `size` and `alignment` in bytes.
    ///
    /// # Errors
    /// What the caller has to supply; nothing was changed.
    fn allocate(
        &mut self,
        groups: &SlotGroups,
        size: u64,
        alignment: u64,
        user_data: u32,
    ) -> Result<SlotAllocation, ClassShortage>;

    /// Frees a region that has `user_data`. Never needs memory.
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

    /// Frees a region that another thread claimed. `None` if it was reclaimed already.
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

    /// The range of the page or slab of a live region.
    fn range_ref(&self, groups: &SlotGroups, group: u32) -> Option<&Self::RangeRef>;

    /// Adds a range at offset `base` for the shortage `need`. Returns the number of the page or slab.
    ///
    /// # Errors
    /// Host memory that is still missing; nothing was changed.
    fn add(
        &mut self,
        groups: &SlotGroups,
        range_ref: Self::RangeRef,
        base: u64,
        need: RangeShortage,
    ) -> Result<u32, ClassShortage>;

    /// The first group of a page or slab, which never changes.
    fn first_group(&self, number: u32) -> u32;

    /// Removes an empty page or slab, if the empty ones have more than `keep` bytes; with `keep` 0 also an open one that is empty.
    fn remove_spare(
        &mut self,
        groups: &SlotGroups,
        keep: u64,
    ) -> Option<SpareRange<Self::RangeRef>>;

    /// Visits the live regions of a page or slab, in order of offset.
    fn walk(&self, groups: &SlotGroups, number: u32, visit: &mut dyn FnMut(LiveSlot));

    /// Numbers of pages or slabs are below this.
    fn number_bound(&self, groups: &SlotGroups) -> u32;

    /// The size of the largest region, in bytes.
    fn max_size(&self) -> u64;

    fn totals(&self) -> ClassTotals;

    /// Adds headers of pages or slabs.
    fn add_headers(&mut self, memory: HostBlock) -> Option<HostBlock>;

    /// Keeps an unused group for a later page or range.
    fn keep_group(&mut self, groups: &SlotGroups, number: u32);

    /// Removes a block of host memory, until none is left.
    fn detach_memory(&mut self) -> Option<HostBlock>;

    /// Supplies missing host memory. Returns memory that is not needed.
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

/// A sub-allocator with its groups. Each method is the [`SubAllocator`] one of its name.
pub(crate) struct GroupedAllocator<P> {
    pub(super) groups: SlotGroups,
    pub(super) class: P,
}

/// Transient pages as a pool has them.
pub(crate) type TransientClass<H> = GroupedAllocator<PageAllocator<H>>;
/// Slabs as a pool has them.
pub(crate) type SlabClass<H> = GroupedAllocator<SlabAllocator<H>>;

impl<P: SubAllocator> GroupedAllocator<P> {
    /// Adds groups to a class without a page or slab.
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

    /// Stores the user data `to` with a region, if it was `from`. Returns the previous user data.
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
