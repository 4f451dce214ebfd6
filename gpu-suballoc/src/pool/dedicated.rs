//! Memory objects with one region each.

#![forbid(unsafe_code)]

use super::blocks::NONE;
use super::object::Object;
use crate::error::GpuMisuse;
use crate::growable_vec::GrowableVec;
use crate::id::RegionPlace;

/// The dedicated memory objects of a pool.
pub(super) struct DedicatedBlocks {
    pub(super) slots: GrowableVec<DedicatedSlot>,
    spare: u32,
    pub(super) live: u32,
    pub(super) bytes: u64,
}

/// A slot for a dedicated memory object.
pub(super) struct DedicatedSlot {
    /// The next spare slot.
    link: u32,
    pub(super) live: Option<DedicatedRegion>,
}

/// An object and its region.
#[derive(Debug)]
pub(super) struct DedicatedRegion {
    pub(super) object: Object,
    /// The region's slot.
    pub(super) slot: u32,
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
                link: NONE,
                live: None,
            };
            return (place < limit && self.slots.push(slot).is_ok()).then_some(place);
        }
        let place = self.spare;
        self.spare = self.slots.get(place)?.link;
        Some(place)
    }

    /// Frees a slot.
    pub(super) fn unreserve(&mut self, place: u32) {
        if let Some(slot) = self.slots.get_mut(place) {
            slot.link = self.spare;
            self.spare = place;
        }
    }

    /// Installs an object.
    pub(super) fn install(&mut self, place: u32, region: DedicatedRegion) {
        let size = region.object.size;
        if let Some(slot) = self.slots.get_mut(place) {
            slot.live = Some(region);
            self.live = self.live.saturating_add(1);
            self.bytes = self.bytes.saturating_add(size);
        }
    }

    #[inline]
    pub(super) fn get(&self, at: RegionPlace) -> Result<&DedicatedRegion, GpuMisuse> {
        let region = self
            .slots
            .get(at.block())
            .and_then(|slot| slot.live.as_ref());
        region
            .filter(|region| region.slot == at.slot && !region.is_freed)
            .ok_or(GpuMisuse::Stale)
    }

    /// The object in a slot.
    pub(super) fn object_mut(&mut self, place: u32) -> Result<&mut Object, GpuMisuse> {
        let region = self
            .slots
            .get_mut(place)
            .and_then(|slot| slot.live.as_mut());
        region
            .map(|region| &mut region.object)
            .ok_or(GpuMisuse::Stale)
    }

    /// Frees a region. Returns its size, and its object if that is idle. The slot map has checked that the region is not mapped, so only a
    /// flush that began before may be under way: then the object is [detached](Self::detach_leftover) later.
    pub(super) fn remove(&mut self, at: RegionPlace) -> Result<(u64, Option<Object>), GpuMisuse> {
        let size = self.get(at)?.object.size;
        let region = self
            .slots
            .get_mut(at.block())
            .and_then(|slot| slot.live.as_mut())
            .ok_or(GpuMisuse::Stale)?;
        region.is_freed = true;
        Ok((size, self.detach_leftover(at.block())))
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
