//! Crops: parts of regions, at any offset and depth.

#![forbid(unsafe_code)]

use crate::region::{Ownership, Region, RegionContent};
use alloc_core::HostAllocator;

use super::GpuAllocator;
use crate::device::DeviceMemory;
use crate::error::{GpuError, GpuMisuse};
use crate::id::RegionId;

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
        let slot = self.records.prepare_crop(self.host())?;
        let key = match self.records.insert_crop(slot, of.id.key(), (offset, size)) {
            Ok(key) => key,
            Err(error) => {
                self.records.unreserve(slot);
                return Err(error);
            }
        };
        Ok(Region {
            id: RegionId::new(self.tag, key),
            memory: of.memory,
            offset: if of.memory.is_some() {
                of.offset + offset
            } else {
                0
            },
            size,
            resource: of.resource,
            buffer_offset: of.buffer_offset + offset,
            memory_type: of.memory_type,
            content: of.content,
            ownership: Ownership::CropAlias,
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
