//! Groups of up to 64 seats: what ids lead to, from any thread.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use super::remote_free::RemoteFreeBits;
use super::segments::Segments;
use super::slot::{SlotExtent, SlotState};
use super::types::{FreeError, HostShortage, HostShortageKind};
use crate::host_block::HostBlock;
use crate::sync::{AtomicPtr, AtomicU32, Ordering};

/// The most seats a group has.
pub(super) const MAX_GROUP_SLOTS: u32 = 64;
/// No group, no page, no slab.
pub(super) const NONE: u32 = u32::MAX;
/// Groups that an id can name beside the bit that tells pages from slabs.
pub(crate) const MAX_GROUPS: u32 = 1 << 19;

/// Some seats, and what leads from them to their page or slab. A group is made once and never goes; it changes hands.
pub(super) struct SlotGroup {
    slots: AtomicPtr<SlotState>,
    len: AtomicU32,
    /// Of the owner: the page or slab that has the group. Readers elsewhere never ask.
    container: AtomicU32,
    /// Of the owner: the page's next group, or the next group without a home.
    next_group: AtomicU32,
    pub(super) remote_free: RemoteFreeBits,
}

/// All groups of a class. One thread at a time, the owner, adds; any may look up.
pub(crate) struct SlotGroups {
    table: Segments<SlotGroup>,
    /// Of the owner: groups with seats.
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
        // Acquire: the seats were written before their address, and the length before that.
        let slots = NonNull::new(self.slots.load(Ordering::Acquire))?;
        if slot >= self.len.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: below the number of seats that the block was handed in for.
        let slot_state = unsafe { slots.add(slot as usize) };
        // SAFETY: initialised before the address was stored, never moved, gone only with the groups; seats are shared by reference alone.
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

    /// Keeps the word `to` with a region, if it was `from`: any thread. Answers with what it was.
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

    /// Whether a region lives that nobody claimed: any thread.
    pub(crate) fn is_live(&self, group: u32, slot: u32, generation: u32) -> bool {
        self.slot(group, slot)
            .is_ok_and(|slot_state| slot_state.live_extent(generation).is_ok())
    }

    /// Each live region of a page or slab, in order, beginning with its first group: any thread. What the owner does meanwhile may or may
    /// not be seen, and a page that it changes hands with may be seen in part.
    pub(crate) fn each_live(&self, first: u32, visit: &mut dyn FnMut(u32, u32, u32, SlotExtent)) {
        let Some(container) = self.get(first).map(SlotGroup::container) else {
            return;
        };
        let mut at = first;
        // A group is in one chain at a time, but may be put into another one while this looks.
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

    /// Frees a region for the owner to settle: any thread, see [`SlotState::claim`].
    pub(crate) fn claim(
        &self,
        group: u32,
        slot: u32,
        generation: u32,
        user_data: u32,
    ) -> Result<SlotExtent, FreeError> {
        self.slot(group, slot)?.claim(generation, user_data)
    }

    /// How a mailbox finds a group's part.
    pub(crate) fn remote_free(&self, group: u32) -> Option<&RemoteFreeBits> {
        self.get(group).map(|group| &group.remote_free)
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// What has to be supplied for another group of `seats`: its header, or else its seats. `None` where there can be no more.
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

    /// Adds headers. What is not wanted comes back.
    pub(super) fn add_headers(&self, memory: HostBlock) -> Option<HostBlock> {
        self.table.grow_with(memory, SlotGroup::new)
    }

    /// Adds the seats of another group, and answers with its number; without a header for it `memory` comes back.
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

    /// Takes a block out, at the end of it all, until there is none.
    pub(crate) fn detach_memory(&mut self) -> Option<HostBlock> {
        while let Some(last) = self.count().checked_sub(1) {
            self.count.store(last, Ordering::Relaxed);
            let Some(group) = self.get(last) else {
                continue;
            };
            let layout = Layout::array::<SlotState>(group.len() as usize);
            let slots = NonNull::new(group.slots.swap(ptr::null_mut(), Ordering::Relaxed));
            if let (Some(slots), Ok(layout)) = (slots, layout) {
                // SAFETY: handed in by `add_slots` with this layout; the group has let go of it, and `&mut self` says that nobody reads it.
                return Some(unsafe { HostBlock::new(slots.cast(), layout) });
            }
        }
        self.table.detach_memory()
    }
}
