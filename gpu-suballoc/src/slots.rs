//! A table of numbered slots, each spare, reserved, or filled.

use core::alloc::Layout;

use crate::growable_vec::GrowableVec;
use crate::host_memory::{GrowableTable, HostBlock};

/// No slot.
const NONE: u32 = u32::MAX;

/// In reserve it has one slot.
pub(crate) struct Slots<T> {
    slots: GrowableVec<Slot<T>>,
    /// The first spare slot.
    spare: u32,
    filled: u32,
}

struct Slot<T> {
    /// Of a spare slot: the next one.
    next: u32,
    content: Option<T>,
}

impl<T> Slots<T> {
    pub(crate) const fn new() -> Self {
        Self {
            slots: GrowableVec::new(),
            spare: NONE,
            filled: 0,
        }
    }

    /// The number of filled slots.
    pub(crate) const fn filled(&self) -> u32 {
        self.filled
    }

    /// The number of all slots.
    pub(crate) const fn len(&self) -> u32 {
        self.slots.len()
    }

    /// Reserves a slot below `limit`; `None` if there is none, or no memory.
    pub(crate) fn reserve(&mut self, limit: u32) -> Option<u32> {
        let number = self.spare;
        if let Some(slot) = self.slots.get(number) {
            self.spare = slot.next;
            return Some(number);
        }
        let number = self.slots.len();
        let new = Slot {
            next: NONE,
            content: None,
        };
        (number < limit && self.slots.push(new).is_ok()).then_some(number)
    }

    /// Fills a reserved slot.
    pub(crate) fn fill(&mut self, number: u32, content: T) {
        if let Some(slot) = self.slots.get_mut(number) {
            slot.content = Some(content);
            self.filled += 1;
        }
    }

    /// Frees a reserved slot.
    pub(crate) fn unreserve(&mut self, number: u32) {
        if let Some(slot) = self.slots.get_mut(number) {
            slot.next = self.spare;
            self.spare = number;
        }
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.slots.get(number)?.content.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.slots.get_mut(number)?.content.as_mut()
    }

    /// Frees a filled slot, if `is_removable`, and returns its content.
    pub(crate) fn remove_if(
        &mut self,
        number: u32,
        is_removable: impl FnOnce(&mut T) -> bool,
    ) -> Option<T> {
        let content = self.slots.get_mut(number)?.content.take_if(is_removable)?;
        self.filled -= 1;
        self.unreserve(number);
        Some(content)
    }

    /// The filled slots, in order.
    pub(crate) fn each(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..)
            .zip(self.slots.as_slice())
            .filter_map(|(number, slot)| Some((number, slot.content.as_ref()?)))
    }
}

impl<T> GrowableTable for Slots<T> {
    fn missing(&self) -> Option<Layout> {
        self.slots
            .missing_capacity(1)
            .filter(|_| self.spare == NONE)
    }

    fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        self.slots.grow_with(block)
    }

    fn detach_memory(&mut self) -> Option<HostBlock> {
        self.spare = NONE;
        self.slots.detach_memory()
    }
}
