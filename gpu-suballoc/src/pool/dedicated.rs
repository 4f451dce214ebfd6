//! Memory objects with one region each.

#![forbid(unsafe_code)]

use super::blocks::NONE;
use super::object::Object;
use crate::error::GpuMisuse;
use crate::growable_vec::GrowableVec;
use crate::id::NO_RECORD;
use crate::range::MAX_GENERATION;

/// The dedicated memory objects of a pool.
pub(super) struct DedicatedBlocks {
    pub(super) slots: GrowableVec<DedicatedSlot>,
    spare: u32,
    pub(super) live: u32,
    pub(super) bytes: u64,
}

/// A slot for a dedicated memory object.
pub(super) struct DedicatedSlot {
    /// Of the current or last region.
    pub(super) generation: u32,
    /// The next spare slot.
    link: u32,
    pub(super) live: Option<DedicatedRegion>,
}

/// An object and its region.
#[derive(Debug)]
pub(super) struct DedicatedRegion {
    pub(super) object: Object,
    pub(super) user_data: u32,
    /// Freed while a flush was under way: no lookup finds it, and the object is freed when the flush ends.
    pub(super) is_freed: bool,
}

impl DedicatedBlocks {
    pub(super) const fn new() -> Self {
        Self {
            slots: GrowableVec::new(),
            spare: NONE,
            live: 0,
            bytes: 0,
        }
    }

    pub(super) fn has_spare(&self) -> bool {
        self.spare != NONE
    }

    /// Reserves a slot for an object in creation.
    pub(super) fn reserve(&mut self, limit: u32) -> Option<u32> {
        if self.spare == NONE {
            let place = self.slots.len();
            let slot = DedicatedSlot {
                generation: 0,
                link: NONE,
                live: None,
            };
            return (place < limit && self.slots.push(slot).is_ok()).then_some(place);
        }
        let place = self.spare;
        self.spare = self.slots.get(place)?.link;
        Some(place)
    }

    /// Frees a slot. A slot whose generations are used up is not used again.
    pub(super) fn unreserve(&mut self, place: u32) {
        if let Some(slot) = self.slots.get_mut(place)
            && slot.generation < MAX_GENERATION
        {
            slot.link = self.spare;
            self.spare = place;
        }
    }

    /// Installs an object. Returns the generation of its region.
    pub(super) fn install(&mut self, place: u32, region: DedicatedRegion) -> u32 {
        let size = region.object.size;
        let Some(slot) = self.slots.get_mut(place) else {
            return 0;
        };
        slot.generation = slot.generation.saturating_add(1);
        slot.live = Some(region);
        self.live = self.live.saturating_add(1);
        self.bytes = self.bytes.saturating_add(size);
        slot.generation
    }

    #[inline]
    pub(super) fn get(&self, place: u32, generation: u32) -> Result<&DedicatedRegion, GpuMisuse> {
        let slot = self
            .slots
            .get(place)
            .filter(|slot| slot.generation == generation);
        slot.and_then(|slot| slot.live.as_ref())
            .filter(|region| !region.is_freed)
            .ok_or(GpuMisuse::Stale)
    }

    pub(super) fn get_mut(
        &mut self,
        place: u32,
        generation: u32,
    ) -> Result<&mut DedicatedRegion, GpuMisuse> {
        let slot = self
            .slots
            .get_mut(place)
            .filter(|slot| slot.generation == generation);
        slot.and_then(|slot| slot.live.as_mut())
            .filter(|region| !region.is_freed)
            .ok_or(GpuMisuse::Stale)
    }

    /// The object in a slot, of any generation.
    pub(super) fn object_mut(&mut self, place: u32) -> Result<&mut Object, GpuMisuse> {
        let region = self
            .slots
            .get_mut(place)
            .and_then(|slot| slot.live.as_mut());
        region
            .map(|region| &mut region.object)
            .ok_or(GpuMisuse::Stale)
    }

    /// Gives a region its next generation. Refused if the slot's generations are used up.
    pub(super) fn renew(&mut self, place: u32, generation: u32) -> Result<u32, GpuMisuse> {
        self.get(place, generation)?;
        let slot = self
            .slots
            .get_mut(place)
            .filter(|slot| slot.generation < MAX_GENERATION)
            .ok_or(GpuMisuse::Stale)?;
        slot.generation = slot.generation.saturating_add(1);
        Ok(slot.generation)
    }

    /// Frees a region that has `user_data`. Returns its size, and its object if that is idle. For a region with a record, the records have
    /// checked that it is not mapped, so only a flush that began before may be under way: then the object is [detached](Self::detach_leftover)
    /// later.
    pub(super) fn remove(
        &mut self,
        place: u32,
        generation: u32,
        user_data: u32,
    ) -> Result<(u64, Option<Object>), GpuMisuse> {
        let found = self.get(place, generation)?;
        if found.user_data != user_data {
            return Err(GpuMisuse::Held);
        }
        let (size, idle) = (found.object.size, found.object.map.is_idle());
        if !idle && user_data == NO_RECORD {
            return Err(GpuMisuse::Mapped);
        }
        let region = self
            .slots
            .get_mut(place)
            .and_then(|slot| slot.live.as_mut())
            .ok_or(GpuMisuse::Stale)?;
        region.is_freed = true;
        Ok((size, self.detach_leftover(place)))
    }

    /// Removes the object of a freed region, once it is idle.
    pub(super) fn detach_leftover(&mut self, place: u32) -> Option<Object> {
        let slot = self.slots.get_mut(place)?;
        let object = slot
            .live
            .take_if(|region| region.is_freed && region.object.map.is_idle())?
            .object;
        self.live = self.live.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(object.size);
        self.unreserve(place);
        Some(object)
    }
}
