//! Second resources, bound where a region is to lie.

use alloc_core::HostAllocator;

use super::{DefragmentationPass, RegionMove};
use crate::device::{
    BufferHandle, DeviceError, DeviceMemory, ImageHandle, ImageInfo, ResourceHandle,
    ResourceRequirements,
};
use crate::error::{GpuError, GpuMisuse};
use crate::region::RegionContent;
use crate::region_metadata::ResourceDescription;

impl<D: DeviceMemory, A: HostAllocator> DefragmentationPass<'_, '_, D, A> {
    /// Makes a buffer like the one of the region, bound to the new place.
    ///
    /// # Errors
    /// [`GpuMisuse::Outside`] where there is no such move, [`GpuMisuse::NoBuffer`] where the region has none, [`GpuMisuse::Held`] where it was made already;
    /// [`GpuMisuse::WrongPlace`] where the driver wants another place for it; what the driver refuses. No buffer is left then.
    pub fn make_buffer(&mut self, index: usize) -> Result<BufferHandle, GpuError> {
        let one = *self.get(index)?;
        let info = self
            .description(&one)
            .filter(|_| one.content == RegionContent::Buffer)
            .map(|description| description.buffer_info(one.asked))
            .ok_or(GpuMisuse::NoBuffer)?;
        let device = self.run.allocator.device();
        self.make(index, &one, || {
            // SAFETY: the info is that of the buffer that the region has, whose validity was promised at `new`.
            unsafe { device.create_buffer(&info) }.map(ResourceHandle::Buffer)
        })?;
        Ok(self.get(index)?.new_buffer().ok_or(GpuMisuse::NoBuffer)?)
    }

    /// Makes an image, bound to the new place; `info` is that of the image that the region has: the allocator does not keep it, and finds
    /// another one only by its usage, flags, sharing, tiling, and by what the driver says of its size, alignment, memory types and dedication. Layouts, views and
    /// descriptors are the user's.
    ///
    /// # Errors
    /// [`GpuMisuse::Outside`] where there is no such move, [`GpuMisuse::NoImage`] where the region has none, [`GpuMisuse::Held`] where it was made already;
    /// [`GpuMisuse::WrongPlace`] where an image of that info is another one, or needs another place; what the driver refuses. No image is left then.
    pub fn make_image(&mut self, index: usize, info: &ImageInfo) -> Result<ImageHandle, GpuError> {
        let one = *self.get(index)?;
        if one.content != RegionContent::Image {
            return Err(GpuMisuse::NoImage.into());
        }
        if !self
            .description(&one)
            .is_some_and(|description| description.is_like_image(info))
        {
            return Err(GpuMisuse::WrongPlace.into());
        }
        let device = self.run.allocator.device();
        self.make(index, &one, || {
            // SAFETY: that infos are valid for the device was promised at `new`.
            unsafe { device.create_image(info) }.map(ResourceHandle::Image)
        })?;
        Ok(self.get(index)?.new_image().ok_or(GpuMisuse::NoImage)?)
    }

    /// How the region's resource was made; also of one that was freed during the pass.
    fn description(&self, one: &RegionMove) -> Option<ResourceDescription> {
        let records = &self.run.allocator.records;
        records.description(one.record, one.region.at())
    }

    fn make(
        &mut self,
        index: usize,
        one: &RegionMove,
        make: impl FnOnce() -> Result<ResourceHandle, DeviceError>,
    ) -> Result<(), GpuError> {
        if one.new_resource != 0 {
            return Err(GpuMisuse::Held.into());
        }
        let allocator = self.run.allocator;
        let made = make()?;
        let needs = allocator.requirements(made);
        // The same info has the same needs. The info of the first image is not known in full, but what it needs is.
        let is_alike = match made {
            ResourceHandle::Image(_) => {
                ImageHandle::from_raw(one.old_resource).is_some_and(|old| {
                    let of_old = allocator.requirements(ResourceHandle::Image(old));
                    is_alike(&of_old, &needs)
                })
            }
            ResourceHandle::Buffer(_) => true,
        };
        let fits = is_alike
            && needs.size <= one.target_size
            && one.to.offset.is_multiple_of(needs.alignment.max(1))
            && needs.memory_type_bits >> (one.memory_type & 31) & 1 == 1
            && !needs.requires_dedicated;
        let bound = if fits {
            allocator
                .bind(made, one.to.memory, one.to.offset)
                .map_err(GpuError::Device)
        } else {
            Err(GpuMisuse::WrongPlace.into())
        };
        if let Err(error) = bound {
            allocator.destroy_resource(made.content(), made.as_raw());
            return Err(error);
        }
        self.get_mut(index)?.new_resource = made.as_raw();
        Ok(())
    }
}

/// Whether images with these needs may have one info. What a driver prefers is left out: it may prefer otherwise at another time.
fn is_alike(one: &ResourceRequirements, other: &ResourceRequirements) -> bool {
    let needs = |of: &ResourceRequirements| {
        (
            of.size,
            of.alignment,
            of.memory_type_bits,
            of.requires_dedicated,
        )
    };
    needs(one) == needs(other)
}
