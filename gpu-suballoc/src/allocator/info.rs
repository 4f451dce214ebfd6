//! Lookup of regions by id.

#![forbid(unsafe_code)]

use crate::pool::Suballocation;
use crate::region::{Ownership, Region, RegionContent};
use alloc_core::HostAllocator;

use super::GpuAllocator;
use crate::device::{BufferHandle, DeviceMemory, ImageHandle, MemoryHandle};
use crate::error::{GpuError, GpuMisuse};
use crate::id::{NO_RECORD, RegionId, RegionPlaceKind};
use crate::region_metadata::{CropRecordView, NewName, RecordInfo, RecordView, RootView};
use crate::request::RegionOptions;

/// A region at one moment, looked up by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionInfo {
    /// The owner of its memory.
    pub ownership: Ownership,
    /// The root of a crop; otherwise the region itself.
    pub root: RegionId,
    /// As [`Region::memory`].
    pub memory: Option<MemoryHandle>,
    /// As [`Region::offset`].
    pub offset: u64,
    /// As [`Region::size`].
    pub size: u64,
    /// As [`Region::buffer`].
    pub buffer: Option<BufferHandle>,
    /// As [`Region::image`].
    pub image: Option<ImageHandle>,
    /// As [`Region::copy_offset`].
    pub copy_offset: u64,
    /// As [`Region::memory_type`].
    pub memory_type: Option<u32>,
    record: Option<RecordInfo>,
}

impl RegionInfo {
    /// Its name, or an empty text.
    #[must_use]
    pub fn name(&self) -> &str {
        self.record.as_ref().map_or("", RecordInfo::name)
    }

    /// The user's tag, or 0.
    #[must_use]
    pub fn tag(&self) -> u64 {
        self.record.map_or(0, |record| record.tag)
    }

    /// The call site of its request, or 0.
    #[must_use]
    pub fn site(&self) -> u64 {
        self.record.map_or(0, |record| record.site)
    }

    /// Its crops; crops of crops count at the root.
    #[must_use]
    pub fn crops(&self) -> u32 {
        self.record.map_or(0, |record| record.crops)
    }

    /// Its mappings.
    #[must_use]
    pub fn maps(&self) -> u32 {
        self.record.map_or(0, |record| u32::from(record.maps))
    }
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Looks up a region.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`] for a freed region, [`GpuMisuse::OtherAllocator`].
    pub fn info(&self, id: RegionId) -> Result<RegionInfo, GpuMisuse> {
        let region = self.region_of(id)?;
        let root = if region.ownership() == Ownership::CropAlias {
            RegionId::new(self.tag, self.crop_record(id)?.root_key)
        } else {
            id
        };
        Ok(RegionInfo {
            ownership: region.ownership(),
            root,
            memory: region.memory(),
            offset: region.offset(),
            size: region.size(),
            buffer: region.buffer(),
            image: region.image(),
            copy_offset: region.copy_offset(),
            memory_type: region.memory_type(),
            record: match region.record {
                NO_RECORD => None,
                number => self.records.info(number, id.at()),
            },
        })
    }

    /// Replaces name, tag and site of a region by those of `options`, of which nothing else is read.
    ///
    /// # Errors
    /// As [`crop`](GpuAllocator::crop); the region keeps its name.
    pub fn set_name(&self, region: &Region, options: &RegionOptions<'_>) -> Result<(), GpuError> {
        self.check_tag(region.id)?;
        let key = region.id.at();
        // The name before the record, so that a refusal leaves neither.
        let name = NewName::new(self.host(), options)?;
        let number = match key.kind() {
            RegionPlaceKind::Wrapped | RegionPlaceKind::Crop => Ok(key.slot),
            _ => self.attach_record(region),
        };
        match number {
            Ok(number) => Ok(self.records.set_name(self.host(), number, key, name)?),
            Err(error) => {
                name.free(self.host());
                Err(error)
            }
        }
    }

    /// Calls `then` with the region of an id, again if another thread moves the region between lookup and call: an id stays valid, so only a
    /// value is refused with [`GpuMisuse::Moved`].
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

    /// The region of an id, a copy of its owner's value, which must not be freed.
    pub(crate) fn region_of(&self, id: RegionId) -> Result<Region, GpuMisuse> {
        self.check_tag(id)?;
        let key = id.at();
        match key.kind() {
            RegionPlaceKind::Wrapped => match self.records.view(key.slot, key)? {
                RecordView::Wrapped(wrap) => Ok(wrap.region(key, self.tag)),
                RecordView::Root(_) => Err(GpuMisuse::Stale),
            },
            RegionPlaceKind::Crop => {
                let (crop, place) =
                    self.records
                        .view_crop_with(key.slot, key, |root| match root.kind() {
                            RegionPlaceKind::Wrapped => None,
                            _ => Some(self.pools.find(root)),
                        })?;
                let CropRecordView {
                    number,
                    root_key,
                    root,
                    offset,
                    size,
                } = crop;
                let root = match root {
                    RecordView::Wrapped(wrap) => wrap.region(root_key, self.tag),
                    view => {
                        let (found, _) = place.ok_or(GpuMisuse::Stale)??;
                        self.region_from_record(number, &view, &found)
                    }
                };
                let (start, buffer_offset) = (root.offset + offset, root.buffer_offset + offset);
                let start = if root.memory.is_some() { start } else { 0 };
                Ok(Region {
                    id,
                    offset: start,
                    size,
                    buffer_offset,
                    record: key.slot,
                    ..root
                })
            }
            _ => {
                let (found, record) = self.pools.find(id.at())?;
                let (view, found) = match record {
                    NO_RECORD => (RecordView::Root(RootView::BARE), found),
                    number => {
                        let place = || self.pools.find(key);
                        let (view, found) = self.records.view_with(number, key, place)?;
                        (view, found?.0)
                    }
                };
                let region = self.region_from_record(record, &view, &found);
                Ok(Region { id, ..region })
            }
        }
    }

    /// The value of a root with this record at this place.
    pub(super) fn region_from_record(
        &self,
        record: u32,
        view: &RecordView,
        found: &Suballocation,
    ) -> Region {
        let region = self.region(found, record);
        match *view {
            RecordView::Root(root) if root.content != RegionContent::Bare => Region {
                size: root.asked,
                resource: root.resource,
                content: root.content,
                ..region
            },
            _ => region,
        }
    }
}
