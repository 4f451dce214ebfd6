//! Groups of up to 64 slots, which any thread finds by a region's id.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use super::remote_free::RemoteFreeBits;
use super::segments::Segments;
use super::slot::{SlotExtent, SlotState};
use super::types::{FreeError, HostShortage, HostShortageKind};
use crate::host_block::HostBlock;
use crate::sync::{AtomicPtr, AtomicU32, Ordering};

/// The limit of slots in a group.
pub(super) const MAX_GROUP_SLOTS: u32 = 64;
/// No group, no page, no slab.
pub(super) const NONE: u32 = u32::MAX;
/// Groups that an id can name, beside the bit that separates pages from slabs.
pub(crate) const MAX_GROUPS: u32 = 1 << 19;

/// Slots, and the number of their page or slab. A group is created once and never freed; it is reused by other pages or slabs.
pub(super) struct SlotGroup {
    slots: AtomicPtr<SlotState>,
    len: AtomicU32,
    /// The page or slab of the group. Only the owner reads it.
    container: AtomicU32,
    /// The page's next group, or the next group without a page. Only the owner writes it.
    next_group: AtomicU32,
    pub(super) remote_free: RemoteFreeBits,
}

/// All groups of a class. One thread at a time, the owner, adds; any thread may read.
pub(crate) struct SlotGroups {
    table: Segments<SlotGroup>,
    /// Groups with slots. Only the owner writes it.
    count: AtomicU32,
}

impl SlotGroup {
    const fn new() -> Self {
        Self {
            slots: AtomicPtr::new(ptr::null_mut()),
            len: AtomicU32::new(0),
            container: AtomicU32::new(NONE),
            next_group: AtomicU32::new(NONE),
            remote_free: RemoteFreeBits::new(),
        }
    }

    #[inline]
    pub(super) fn slot(&self, slot: u32) -> Option<&SlotState> {
        // Acquire: the slots were written before their address, and the length before that.
        let slots = NonNull::new(self.slots.load(Ordering::Acquire))?;
        if slot >= self.len.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: below the number of slots of the block.
        let slot_state = unsafe { slots.add(slot as usize) };
        // SAFETY: initialised before the address was stored, never moved, freed only with the groups; slots are shared by reference only.
        Some(unsafe { slot_state.as_ref() })
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn container(&self) -> u32 {
        self.container.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn next_group(&self) -> u32 {
        self.next_group.load(Ordering::Relaxed)
    }

    pub(super) fn set_container(&self, container: u32) {
        self.container.store(container, Ordering::Relaxed);
    }

    pub(super) fn set_next_group(&self, next_group: u32) {
        self.next_group.store(next_group, Ordering::Relaxed);
    }
}

impl SlotGroups {
    pub(crate) const fn new() -> Self {
        Self {
            table: Segments::new(),
            count: AtomicU32::new(0),
        }
    }

    #[inline]
    pub(super) fn get(&self, group: u32) -> Option<&SlotGroup> {
        self.table.get(group)
    }

    #[inline]
    pub(super) fn slot(&self, group: u32, slot: u32) -> Result<&SlotState, FreeError> {
        self.get(group)
            .and_then(|found| found.slot(slot))
            .ok_or(FreeError::Foreign)
    }

    /// Stores the user data `to` with a region, if it was `from`: any thread. Returns the previous user data.
    pub(crate) fn set_user_data(
        &self,
        group: u32,
        slot: u32,
        generation: u32,
        from: u32,
        to: u32,
    ) -> Result<u32, FreeError> {
        self.slot(group, slot)?.set_user_data(generation, from, to)
    }

    /// Whether a region lives and is not claimed: any thread.
    pub(crate) fn is_live(&self, group: u32, slot: u32, generation: u32) -> bool {
        self.slot(group, slot)
            .is_ok_and(|slot_state| slot_state.live_extent(generation).is_ok())
    }

    /// Visits each live region of a page or slab, in order, beginning with its first group: any thread. Concurrent changes by the owner may or
    /// may not be seen, and a page that is reused meanwhile may be seen in part.
    pub(crate) fn each_live(&self, first: u32, visit: &mut dyn FnMut(u32, u32, u32, SlotExtent)) {
        let Some(container) = self.get(first).map(SlotGroup::container) else {
            return;
        };
        let mut at = first;
        // A group is in one list at a time, but may be moved to another one meanwhile.
        for _ in 0..self.count() {
            let Some(group) = self.get(at).filter(|group| group.container() == container) else {
                return;
            };
            for slot in 0..group.len() {
                if let Some((generation, extent)) = group.slot(slot).and_then(SlotState::current) {
                    visit(at, slot, generation, extent);
                }
            }
            at = group.next_group();
        }
    }

    /// Frees a region that the owner reclaims later: any thread, see [`SlotState::claim`].
    pub(crate) fn claim(
        &self,
        group: u32,
        slot: u32,
        generation: u32,
        user_data: u32,
    ) -> Result<SlotExtent, FreeError> {
        self.slot(group, slot)?.claim(generation, user_data)
    }

    /// A group's bits for the list of remote frees.
    pub(crate) fn remote_free(&self, group: u32) -> Option<&RemoteFreeBits> {
        self.get(group).map(|group| &group.remote_free)
    }

    /// The number of groups.
    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// The memory to supply for another group of `slots`: its header, or else its slots. `None` if there can be no more.
    pub(super) fn missing_capacity(&self, slots: u32) -> Option<HostShortage> {
        let next = self.count();
        if next >= MAX_GROUPS {
            return None;
        }
        if let Some(layout) = self.table.missing_capacity(next) {
            return Some(HostShortage {
                layout,
                kind: HostShortageKind::Groups,
            });
        }
        let layout = Layout::array::<SlotState>(slots as usize).ok()?;
        Some(HostShortage {
            layout,
            kind: HostShortageKind::Slots(slots),
        })
    }

    /// Adds headers. Returns memory that is not needed.
    pub(super) fn add_headers(&self, memory: HostBlock) -> Option<HostBlock> {
        self.table.grow_with(memory, SlotGroup::new)
    }

    /// Adds the slots of another group. Returns its number, or `memory` if there is no header for it.
    pub(super) fn add_slots(&self, memory: HostBlock, slots: u32) -> Result<u32, HostBlock> {
        let number = self.count();
        let fits = number < MAX_GROUPS
            && Layout::array::<SlotState>(slots as usize) == Ok(memory.layout());
        let Some(group) = self.get(number).filter(|_| fits) else {
            return Err(memory);
        };
        group.len.store(slots, Ordering::Relaxed);
        group
            .slots
            .store(memory.fill(SlotState::new).as_ptr(), Ordering::Release);
        self.count.store(number + 1, Ordering::Relaxed);
        Ok(number)
    }

    /// Removes a block of host memory, until none is left.
    pub(crate) fn detach_memory(&mut self) -> Option<HostBlock> {
        while let Some(last) = self.count().checked_sub(1) {
            self.count.store(last, Ordering::Relaxed);
            let Some(group) = self.get(last) else {
                continue;
            };
            let layout = Layout::array::<SlotState>(group.len() as usize);
            let slots = NonNull::new(group.slots.swap(ptr::null_mut(), Ordering::Relaxed));
            if let (Some(slots), Ok(layout)) = (slots, layout) {
                // SAFETY: `add_slots` took it with this layout; its address was removed from the group, and `&mut self` excludes readers.
                return Some(unsafe { HostBlock::new(slots.cast(), layout) });
            }
        }
        self.table.detach_memory()
    }
}
