//! Crops: parts of regions, at any offset and depth.

#![forbid(unsafe_code)]

use crate::region::{Region, RegionContent};
use alloc_core::HostAllocator;

use super::GpuAllocator;
use crate::device::DeviceMemory;
use crate::error::{GpuError, GpuMisuse};
use crate::id::{NO_RECORD, RegionId, RegionPlaceKind};
use crate::region_metadata::{CropRecordView, ReservedSlots};

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Creates a crop of a region: `size` bytes from `offset`, both multiples of `element_bytes`. A crop of a crop is a crop of the same
    /// root, with the sum of the offsets. A crop is freed like any region; its root lives at least as long.
    ///
    /// # Errors
    /// [`GpuMisuse::ZeroSize`], [`GpuMisuse::ZeroElement`], [`GpuMisuse::Misaligned`], [`GpuMisuse::Outside`]; [`GpuMisuse::NoBuffer`] for an image, whose
    /// bytes have no order; [`GpuMisuse::OtherAllocator`], [`GpuMisuse::Stale`], [`GpuMisuse::Moved`]; a refusal of the host allocator. The region is unchanged then.
    pub fn crop(
        &self,
        of: &Region,
        offset: u64,
        size: u64,
        element_bytes: u64,
    ) -> Result<Region, GpuError> {
        self.check_tag(of.id)?;
        check(of, offset, size, element_bytes)?;
        self.check_place(of)?;
        let place = of.id.kind();
        let (known, key, base) = match place {
            RegionPlaceKind::Wrapped => (of.id.at().slot, of.id.at(), 0),
            RegionPlaceKind::Crop => {
                let CropRecordView {
                    number,
                    root_key,
                    offset,
                    ..
                } = self.crop_record(of.id)?;
                (number, root_key, offset)
            }
            _ => (self.record_of(of)?, of.id.at(), 0),
        };
        let mut new = self
            .records
            .prepare_alias(self.host(), true, known == NO_RECORD)?;
        let number = new.record;
        let inserted = self
            .attach_prepared_record(of, known, &mut new)
            .and_then(|root| {
                self.records.insert_crop(
                    number,
                    root,
                    key,
                    place == RegionPlaceKind::Crop,
                    base + offset,
                    size,
                )
            });
        let at = match inserted {
            Ok(at) => at,
            Err(error) => {
                self.records.unreserve(self.host(), new);
                return Err(error);
            }
        };
        Ok(Region {
            id: RegionId::new(self.tag, at),
            memory: of.memory,
            offset: if of.memory.is_some() {
                of.offset + offset
            } else {
                0
            },
            size,
            resource: of.resource,
            buffer_offset: of.buffer_offset + offset,
            record: number,
            memory_type: of.memory_type,
            content: of.content,
        })
    }

    /// As [`crop`](GpuAllocator::crop), for callers with signed offsets (`HalideBuffer`, C).
    ///
    /// # Errors
    /// [`GpuMisuse::Negative`]; otherwise as [`crop`](GpuAllocator::crop).
    pub fn crop_signed(
        &self,
        of: &Region,
        offset: i64,
        size: i64,
        element_bytes: u64,
    ) -> Result<Region, GpuError> {
        match (u64::try_from(offset), u64::try_from(size)) {
            (Ok(offset), Ok(size)) => self.crop(of, offset, size, element_bytes),
            _ => Err(GpuMisuse::Negative.into()),
        }
    }

    /// As [`crop`](GpuAllocator::crop), by id.
    ///
    /// # Errors
    /// As [`crop`](GpuAllocator::crop).
    pub fn crop_id(
        &self,
        of: RegionId,
        offset: u64,
        size: u64,
        element_bytes: u64,
    ) -> Result<Region, GpuError> {
        self.at_its_place(of, |region| self.crop(region, offset, size, element_bytes))
    }

    pub(super) fn crop_record(&self, crop: RegionId) -> Result<CropRecordView, GpuMisuse> {
        self.records.view_crop(crop.at().slot, crop.at())
    }

    /// The record of a region of the allocator's own, or `NO_RECORD`.
    pub(super) fn record_of(&self, region: &Region) -> Result<u32, GpuMisuse> {
        if region.record != NO_RECORD {
            return Ok(region.record);
        }
        Ok(self.pools.find(region.id.at())?.1)
    }

    /// Attaches the prepared record to a region, if `known` is `NO_RECORD`. The record lives as long as the region.
    pub(super) fn attach_prepared_record(
        &self,
        region: &Region,
        known: u32,
        new: &mut ReservedSlots,
    ) -> Result<u32, GpuError> {
        if known != NO_RECORD {
            return Ok(known);
        }
        let key = region.id.at();
        let number = core::mem::replace(&mut new.root, NO_RECORD);
        self.records.insert_bare(number, key);
        match self.pools.set_user_data(region.id.at(), NO_RECORD, number) {
            Ok(NO_RECORD) => Ok(number),
            // Another thread was faster: its record counts.
            Ok(first) => {
                self.records.cancel_bare(number);
                Ok(first)
            }
            Err(rule) => {
                self.records.cancel_bare(number);
                Err(rule.into())
            }
        }
    }

    /// The record of a region, a new one if it has none.
    pub(super) fn attach_record(&self, region: &Region) -> Result<u32, GpuError> {
        let known = self.record_of(region)?;
        if known != NO_RECORD {
            return Ok(known);
        }
        let mut new = self.records.prepare_alias(self.host(), false, true)?;
        let attached = self.attach_prepared_record(region, known, &mut new);
        if attached.is_err() {
            self.records.unreserve(self.host(), new);
        }
        attached
    }
}

fn check(of: &Region, offset: u64, size: u64, element: u64) -> Result<(), GpuMisuse> {
    if of.content == RegionContent::Image {
        return Err(GpuMisuse::NoBuffer);
    }
    if element == 0 {
        return Err(GpuMisuse::ZeroElement);
    }
    if size == 0 {
        return Err(GpuMisuse::ZeroSize);
    }
    if !offset.is_multiple_of(element) || !size.is_multiple_of(element) {
        return Err(GpuMisuse::Misaligned);
    }
    match offset.checked_add(size) {
        Some(end) if end <= of.size => Ok(()),
        _ => Err(GpuMisuse::Outside),
    }
}
