//! Memory objects, and those with one region each.

#![forbid(unsafe_code)]

use crate::device::MemoryHandle;
use crate::error::GpuMisuse;
use crate::id::RegionPlace;
use crate::map_count::MapCount;
use crate::slots::Slots;

/// A `VkDeviceMemory`: a shared block or a dedicated one.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) memory: MemoryHandle,
    /// Bytes.
    pub(super) size: u64,
    pub(super) map: MapCount,
}

impl Object {
    pub(super) const fn new(memory: MemoryHandle, size: u64) -> Self {
        Self {
            memory,
            size,
            map: MapCount::NONE,
        }
    }
}

/// A dedicated memory object and its region.
#[derive(Debug)]
pub(super) struct DedicatedRegion {
    pub(super) object: Object,
    /// The region's slot.
    pub(super) slot: u32,
    /// Freed while a flush was under way: no lookup finds it, and the object is freed when the flush ends.
    pub(super) is_freed: bool,
}

impl Slots<DedicatedRegion> {
    #[inline]
    pub(super) fn region(&self, at: RegionPlace) -> Result<&DedicatedRegion, GpuMisuse> {
        self.get(at.block())
            .filter(|region| region.slot == at.slot && !region.is_freed)
            .ok_or(GpuMisuse::Stale)
    }

    /// Frees a region. Returns its size, and its object if that is idle. The slot map has checked that the region is not mapped, so only a
    /// flush that began before may be under way: then the object is [detached](Self::detach_leftover) later.
    pub(super) fn free(&mut self, at: RegionPlace) -> Result<(u64, Option<Object>), GpuMisuse> {
        let size = self.region(at)?.object.size;
        if let Some(region) = self.get_mut(at.block()) {
            region.is_freed = true;
        }
        Ok((size, self.detach_leftover(at.block())))
    }

    /// Removes the object of a freed region, once it is idle.
    pub(super) fn detach_leftover(&mut self, place: u32) -> Option<Object> {
        let is_idle = |region: &mut DedicatedRegion| region.is_freed && region.object.map.is_idle();
        Some(self.remove_if(place, is_idle)?.object)
    }
}
