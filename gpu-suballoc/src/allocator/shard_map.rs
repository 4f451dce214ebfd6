//! Mapping a shard's region by its id, on the thread that has the shard.

use core::ptr::NonNull;

use alloc_core::HostAllocator;

use super::Shard;
use super::thread_shard::region_in;
use crate::classes::SubAllocator;
use crate::device::DeviceMemory;
use crate::error::{GpuError, GpuMisuse};
use crate::id::{RegionId, RegionPlaceKind};
use crate::region::Region;
use crate::shard::SLAB_GROUP;

impl<D: DeviceMemory, A: HostAllocator> Shard<'_, D, A> {
    /// As [`GpuAllocator::map_id`](crate::GpuAllocator::map_id), and for this shard's own regions, which only the shard can look up.
    /// Mapped until [`GpuAllocator::unmap_id`](crate::GpuAllocator::unmap_id) is called as often, by any thread.
    ///
    /// # Errors
    /// As [`GpuAllocator::map`](crate::GpuAllocator::map), and [`GpuMisuse::OtherShard`] for a region of another shard.
    pub fn map_id(&mut self, id: RegionId) -> Result<NonNull<u8>, GpuError> {
        if id.at().kind() != RegionPlaceKind::Shard {
            return self.allocator.map_id(id);
        }
        let region = self.region_of(id)?;
        let mapping = self.allocator.map(&region)?;
        Ok(mapping.keep_by_id(&self.allocator.records))
    }

    /// The region of an id of this shard.
    fn region_of(&mut self, id: RegionId) -> Result<Region, GpuMisuse> {
        self.allocator.check_tag(id)?;
        let at = id.at();
        let shard_pages = self
            .pages_of(at.place.pool())
            .ok_or(GpuMisuse::OtherShard)?;
        // SAFETY: the pages are this shard's, and there is no other reference to the owner's state, for this is `&mut self`.
        let own = unsafe { shard_pages.owner_state() };
        let (groups, group) = shard_pages.groups_of(at.place.block());
        let (found, backing) = if at.place.block() >= SLAB_GROUP {
            (
                own.slabs.find(groups, group, at.slot, at.generation),
                own.slabs.range_ref(groups, group),
            )
        } else {
            (
                own.pages.find(groups, group, at.slot, at.generation),
                own.pages.range_ref(groups, group),
            )
        };
        let backing = backing.copied();
        if own.is_empty() {
            self.park(shard_pages);
        }
        let found = found.map_err(|_| GpuMisuse::Stale)?;
        let backing = backing.ok_or(GpuMisuse::Stale)?;
        Ok(region_in(&backing, id, found.offset, found.size))
    }
}
