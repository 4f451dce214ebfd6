#![forbid(unsafe_code)]

use core::num::NonZeroU64;
use core::ptr::NonNull;

use crate::map_count::Address;
use crate::memory_type::PropertyFlags;
use crate::pool::Suballocation;
use crate::region::{Ownership, RangePlacement, Region};
use alloc_core::HostAllocator;

use super::GpuAllocator;
use crate::device::{BufferHandle, DeviceMemory, ImageHandle, MemoryHandle};
use crate::error::{GpuError, GpuMisuse};
use crate::id::RegionId;
use crate::region_metadata::{FoundRegion, RecordInfo, RecordView};
use crate::request::RegionOptions;

/// A region at one moment, looked up by id.
#[doc(alias("VmaAllocationInfo", "VmaAllocationInfo2"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionInfo {
    /// The owner of its memory.
    pub ownership: Ownership,
    /// The root of a crop; otherwise the region itself.
    pub root: RegionId,
    /// How its root was placed.
    pub placement: RangePlacement,
    /// As [`Region::memory`].
    pub memory: Option<MemoryHandle>,
    /// As [`Region::offset`].
    pub offset: u64,
    /// As [`Region::size`].
    pub size: u64,
    /// Bytes that its root occupies, in whole granules and with its [margin](crate::pool::MemoryOptions::margin).
    pub reserved: u64,
    /// Bytes of the whole memory object; `None` where `memory` is.
    pub memory_size: Option<u64>,
    /// As [`Region::buffer`].
    pub buffer: Option<BufferHandle>,
    /// As [`Region::image`].
    pub image: Option<ImageHandle>,
    /// As [`Region::copy_offset`].
    pub copy_offset: u64,
    /// As [`Region::memory_type`].
    pub memory_type: Option<u32>,
    /// As [`Region::memory_properties`].
    pub memory_properties: Option<PropertyFlags>,
    mapped: Option<Address>,
    record: RecordInfo,
}

impl RegionInfo {
    /// As [`Region::mapped`].
    #[must_use]
    pub fn mapped(&self) -> Option<NonNull<u8>> {
        self.mapped.map(|first| first.0)
    }

    /// Its name, or an empty text.
    #[must_use]
    pub fn name(&self) -> &str {
        self.record.name()
    }

    /// The user's tag, or 0.
    #[must_use]
    pub fn tag(&self) -> u64 {
        self.record.tag
    }

    /// The call site of its request, or 0.
    #[must_use]
    pub fn site(&self) -> u64 {
        self.record.site
    }

    /// Its crops; crops of crops count at the root.
    #[must_use]
    pub fn crops(&self) -> u32 {
        self.record.crops
    }

    /// Its mappings.
    #[must_use]
    pub fn maps(&self) -> u32 {
        self.record.maps.into()
    }
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Looks up a region.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`] for a freed region, [`GpuMisuse::OtherAllocator`].
    #[doc(alias("vmaGetAllocationInfo", "vmaGetAllocationInfo2"))]
    pub fn info(&self, id: RegionId) -> Result<RegionInfo, GpuMisuse> {
        let (region, found, placed) = self.region_and_root(id)?;
        let (reserved, memory_size) = match (placed, found.root) {
            (Some(placed), _) => (placed.reserved, Some(placed.memory_size)),
            (None, RecordView::Wrapped(wrap)) => (wrap.size, wrap.backing.map(|backing| backing.memory_size)),
            (None, RecordView::Root(..)) => return Err(GpuMisuse::Stale),
        };
        Ok(RegionInfo {
            ownership: region.ownership(),
            root: RegionId::new(self.tag, found.root_key),
            placement: match found.root {
                RecordView::Wrapped(_) => RangePlacement::Wrapped,
                RecordView::Root(_, place) => place.kind(),
            },
            memory: region.memory(),
            offset: region.offset(),
            size: region.size(),
            reserved,
            memory_size,
            buffer: region.buffer(),
            image: region.image(),
            copy_offset: region.copy_offset(),
            memory_type: region.memory_type(),
            memory_properties: region.memory_properties(),
            mapped: region.mapped,
            record: self.records.info(id.key()).ok_or(GpuMisuse::Stale)?,
        })
    }

    /// The bytes of a region's memory object that the driver has backed so far (`vkGetDeviceMemoryCommitment`); `None`
    /// if its memory is not lazily allocated, or the device does not report it.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`], [`GpuMisuse::OtherAllocator`]; [`GpuMisuse::NestedMap`] from a device that is in this
    /// query.
    pub fn commitment(&self, id: RegionId) -> Result<Option<u64>, GpuMisuse> {
        match self.region_and_root(id)?.1.root {
            RecordView::Wrapped(_) => Ok(None),
            RecordView::Root(_, place) => self.pools().commitment(place),
        }
    }

    /// Replaces name, tag and site of a region by those of `options`.
    ///
    /// # Errors
    /// [`GpuMisuse::OtherAllocator`], [`GpuMisuse::Stale`]; a refusal of the host allocator, after which the region
    /// keeps its name.
    #[doc(alias("vmaSetAllocationName", "rename_allocation"))]
    pub fn set_name(&self, region: &Region, options: &RegionOptions<'_>) -> Result<(), GpuError> {
        self.check_tag(region.id)?;
        (self.records).set_name(self.host(), region.id.key(), options)
    }

    /// It calls `then` again if another thread moves the region meanwhile.
    pub(super) fn at_its_place<T>(
        &self,
        id: RegionId,
        mut then: impl FnMut(&Region) -> Result<T, GpuError>,
    ) -> Result<T, GpuError> {
        loop {
            match then(&self.region_of(id)?) {
                Err(error) if error == GpuMisuse::Moved.into() => {}
                done => return done,
            }
        }
    }

    /// A copy of the owner's value, which must not be freed.
    pub(crate) fn region_of(&self, id: RegionId) -> Result<Region, GpuMisuse> {
        self.region_and_root(id).map(|(region, ..)| region)
    }

    /// The id of a [`slot_key`](RegionId::slot_key) of this allocator. Any number is safe.
    #[doc(alias("chunk_id"))]
    #[must_use]
    pub fn id_of_key(&self, key: NonZeroU64) -> RegionId {
        RegionId::from_slot_key(key, self.tag)
    }

    fn region_and_root(&self, id: RegionId) -> Result<(Region, FoundRegion, Option<Suballocation>), GpuMisuse> {
        self.check_tag(id)?;
        let (found, place) = self.records.look_up(id.key(), |place| self.pools().find(place))?;
        let placed = place.transpose()?;
        let FoundRegion { root_key, root, crop } = found;
        let root = match root {
            RecordView::Wrapped(wrap) => wrap.region(root_key, self.tag),
            RecordView::Root(view, _) => self.region(&view, &placed.ok_or(GpuMisuse::Stale)?, root_key),
        };
        let region = match crop {
            None => root,
            Some((offset, size)) => root.part(id, offset, size),
        };
        Ok((region, found, placed))
    }
}
