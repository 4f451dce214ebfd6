use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use alloc_core::HostAllocator;

use super::GpuAllocator;
use crate::device::{DeviceMemory, MappedRange};
use crate::error::{GpuError, GpuMisuse, MapRefusal};
use crate::flags::debug_fields;
use crate::id::{RegionId, RegionKey};
use crate::map_count::Address;
use crate::memory_type::PropertyFlags;
use crate::pool::{HostAccess, whole_atoms};
use crate::region::Region;
use crate::region_metadata::{Backing, RecordView, WrappedBuffer};

const WHOLE_SIZE: u64 = u64::MAX;

/// A mapping of a region, until dropped. The region cannot be freed meanwhile.
///
/// Memory that is not coherent needs a [`flush`](GpuAllocator::flush) after writes of the host, and an
/// [`invalidate`](GpuAllocator::invalidate) before reads. The device and other mappings may use the same bytes.
#[must_use = "dropping it unmaps"]
pub struct Mapping<'a, D: DeviceMemory, A: HostAllocator> {
    start: Address,
    size: usize,
    key: RegionKey,
    allocator: &'a GpuAllocator<D, A>,
}

impl<D: DeviceMemory, A: HostAllocator> Mapping<'_, D, A> {
    /// The first byte, valid for [`len`](Mapping::len) bytes until the mapping is dropped.
    #[must_use]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.start.0.as_ptr()
    }

    /// Bytes, never 0.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub const fn len(&self) -> usize {
        self.size
    }
}

debug_fields!(
    [D: DeviceMemory, A: HostAllocator] Mapping<'_, D, A>, "Mapping",
    |this| start = this.start.0, size = this.size
);

impl<D: DeviceMemory, A: HostAllocator> Drop for Mapping<'_, D, A> {
    fn drop(&mut self) {
        let unmapped = self.allocator.unmap(self.key, false);
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Maps a region. Any number of regions of one block may be mapped at once, and one region up to 65 535 times.
    ///
    /// # Errors
    /// [`GpuError::MapUnsupported`] with the reason; [`Limit::Aliases`](crate::error::Limit::Aliases) for one mapping
    /// too many; [`GpuMisuse::OtherAllocator`], [`GpuMisuse::Stale`]; refusals of host allocator and driver.
    #[doc(alias("vmaMapMemory", "vkMapMemory", "mapped_ptr"))]
    pub fn map(&self, region: &Region) -> Result<Mapping<'_, D, A>, GpuError> {
        self.check_place(region)?;
        let size =
            usize::try_from(region.size).map_err(|_| GpuError::MapUnsupported { reason: MapRefusal::AddressSpace })?;
        let key = region.id.key();
        let is_own = region.memory_type().is_some();
        if is_own && !region.properties.contains(PropertyFlags::HOST_VISIBLE) {
            return Err(GpuError::MapUnsupported { reason: MapRefusal::NotHostVisible });
        }
        // While the mapping is counted, the region does not move, and a wrapped buffer keeps its memory.
        let (root, offset) = self.records.count_map(key)?;
        match self.map_root(&root, offset) {
            Ok(start) => Ok(Mapping { start, size, key, allocator: self }),
            Err(error) => {
                if let Ok(rest) = self.records.end_map(key) {
                    self.free_leftovers(rest);
                }
                Err(error)
            }
        }
    }

    fn map_root(&self, root: &RecordView, offset: u64) -> Result<Address, GpuError> {
        let wrap = match root {
            RecordView::Root(_, place) => {
                return Ok(Address(self.pools().map(*place)?).offset(offset));
            }
            RecordView::Wrapped(wrap) => wrap,
        };
        let backing = visible(wrap)?;
        let start = match (backing.mapped, wrap.foreign) {
            (Some(start), _) => start,
            (None, Some(foreign)) => self.records.map_foreign(foreign, &*self.device)?,
            (None, None) => {
                return Err(GpuError::MapUnsupported { reason: MapRefusal::BackingUnknown });
            }
        };
        Ok(Address(start).offset(backing.offset + wrap.offset + offset))
    }

    /// As [`map`](GpuAllocator::map), by id: until [`unmap_id`](GpuAllocator::unmap_id) is called as often.
    pub fn map_id(&self, id: RegionId) -> Result<NonNull<u8>, GpuError> {
        let mapping = self.at_its_place(id, |region| self.map(region))?;
        self.records.mark_mapped_by_id(mapping.key);
        Ok(ManuallyDrop::new(mapping).start.0)
    }

    /// Undoes one [`map_id`](GpuAllocator::map_id), also of a region that waits for its last mapping.
    ///
    /// # Errors
    /// [`GpuMisuse::NotMapped`]; [`GpuMisuse::Stale`], [`GpuMisuse::OtherAllocator`].
    #[doc(alias("vmaUnmapMemory", "vkUnmapMemory"))]
    pub fn unmap_id(&self, id: RegionId) -> Result<(), GpuError> {
        self.check_tag(id)?;
        Ok(self.unmap(id.key(), true)?)
    }

    fn unmap(&self, key: RegionKey, by_id: bool) -> Result<(), GpuMisuse> {
        let (root, seen, rest) = self.records.begin_unmap(key, by_id)?;
        self.free_leftovers(rest);
        match seen {
            RecordView::Wrapped(wrap) => {
                if let Some(foreign) = wrap.foreign {
                    self.records.unmap_foreign(foreign, &*self.device);
                }
            }
            RecordView::Root(_, place) => {
                let unmapped = self.pools().unmap(place.block);
                debug_assert!(unmapped.is_ok(), "mapped when it was counted: {unmapped:?}");
            }
        }
        self.free_leftovers(self.records.end_unmap(root));
        Ok(())
    }

    /// Makes the host's writes to `size` bytes from `offset` of a mapped region visible to the device; `u64::MAX` bytes
    /// (`VK_WHOLE_SIZE`) reach to its end, and 0 bytes need nothing mapped. Of an owned region no other region's bytes
    /// are affected; of a wrapped region the range grows to multiples of `nonCoherentAtomSize`.
    ///
    /// The memory object of an owned region must be mapped, by a mapping of any region of it. A wrapped region must be
    /// mapped itself, unless its [`Backing`] has a pointer.
    ///
    /// # Errors
    /// [`GpuMisuse::Outside`]; [`GpuMisuse::NotMapped`]; otherwise as [`map`](GpuAllocator::map).
    #[doc(alias("vmaFlushAllocation", "vkFlushMappedMemoryRanges"))]
    pub fn flush(&self, region: &Region, offset: u64, size: u64) -> Result<(), GpuError> {
        self.sync(region, offset, size, HostAccess::Wrote)
    }

    /// Makes the device's writes to `size` bytes from `offset` of a mapped region visible to the host. As
    /// [`flush`](GpuAllocator::flush).
    #[doc(alias("vmaInvalidateAllocation", "vkInvalidateMappedMemoryRanges"))]
    pub fn invalidate(&self, region: &Region, offset: u64, size: u64) -> Result<(), GpuError> {
        self.sync(region, offset, size, HostAccess::Reads)
    }

    /// As [`flush`](GpuAllocator::flush), by id.
    pub fn flush_id(&self, id: RegionId, offset: u64, size: u64) -> Result<(), GpuError> {
        self.at_its_place(id, |region| self.flush(region, offset, size))
    }

    /// As [`invalidate`](GpuAllocator::invalidate), by id.
    pub fn invalidate_id(&self, id: RegionId, offset: u64, size: u64) -> Result<(), GpuError> {
        self.at_its_place(id, |region| self.invalidate(region, offset, size))
    }

    fn sync(&self, region: &Region, offset: u64, size: u64, access: HostAccess) -> Result<(), GpuError> {
        self.check_tag(region.id)?;
        let room = region.size.checked_sub(offset).ok_or(GpuMisuse::Outside)?;
        let size = if size == WHOLE_SIZE { room } else { size };
        if size > room {
            return Err(GpuMisuse::Outside.into());
        }
        self.check_place(region)?;
        let key = region.id.key();
        let (found, _) = self.records.look_up(key, |_| ())?;
        let base = found.crop.map_or(0, |(offset, _)| offset);
        if size == 0 {
            return Ok(());
        }
        match found.root {
            RecordView::Wrapped(wrap) => {
                let backing = visible(&wrap)?;
                if backing.mapped.is_none() && !self.records.is_mapped(key)? {
                    return Err(GpuMisuse::NotMapped.into());
                }
                // Keeps the wrapped buffer and its mapping during the call.
                let _mapped = self.map(region)?;
                let range =
                    MappedRange { memory: backing.memory, offset: backing.offset + wrap.offset + base + offset, size };
                self.sync_range(backing.properties, backing.memory_size, range, access)
            }
            RecordView::Root(_, place) => {
                let range = (base + offset, size);
                self.pools().sync(place, range, access)
            }
        }
    }

    pub(super) fn sync_range(
        &self,
        properties: PropertyFlags,
        memory_size: u64,
        range: MappedRange,
        access: HostAccess,
    ) -> Result<(), GpuError> {
        if properties.contains(PropertyFlags::HOST_COHERENT) {
            return Ok(());
        }
        let atom = self.limits.non_coherent_atom_size.max(1);
        let whole = whole_atoms(range.offset, range.size, atom, memory_size);
        let (offset, size) = whole.ok_or(GpuMisuse::Outside)?;
        let range = MappedRange { memory: range.memory, offset, size };
        // SAFETY: within the memory object, all of which is mapped; in whole atoms, or to its end.
        Ok(unsafe { access.sync(&*self.device, range) }?)
    }
}

fn visible(wrap: &WrappedBuffer) -> Result<Backing, GpuError> {
    let refused = |reason| Err(GpuError::MapUnsupported { reason });
    match wrap.backing {
        None => refused(MapRefusal::BackingUnknown),
        Some(backing) if !backing.properties.contains(PropertyFlags::HOST_VISIBLE) => {
            refused(MapRefusal::BackingNotHostVisible)
        }
        Some(backing) => Ok(backing),
    }
}
