//! Creates the second resource of a region and binds it at the new place.

use alloc_core::HostAllocator;

use super::{DefragmentationPass, RegionMove};
use crate::device::{
    BufferHandle, DeviceError, DeviceMemory, ImageHandle, ImageInfo, ResourceHandle,
    ResourceRequirements,
};
use crate::error::{GpuError, GpuMisuse};
use crate::region::RegionContent;

impl<D: DeviceMemory, A: HostAllocator> DefragmentationPass<'_, '_, D, A> {
    /// Creates a buffer like the region's buffer, bound at the new place.
    ///
    /// # Errors
    /// [`GpuMisuse::Outside`] if there is no such move, [`GpuMisuse::NoBuffer`] if the region has no buffer, [`GpuMisuse::Held`] if the
    /// second buffer exists already, [`GpuMisuse::WrongPlace`] if the new place does not meet the buffer's requirements; the driver's
    /// error. After an error the call has left no buffer.
    pub fn make_buffer(&mut self, index: usize) -> Result<BufferHandle, GpuError> {
        let one = *self.get(index)?;
        let info = (one.root.description)
            .filter(|_| one.root.content == RegionContent::Buffer)
            .map(|description| description.buffer_info(one.root.asked))
            .ok_or(GpuMisuse::NoBuffer)?;
        let device = self.run.allocator.device();
        self.make(index, &one, || {
            // SAFETY: `info` describes the region's own buffer; the caller of `new` promised that such infos are valid.
            unsafe { device.create_buffer(&info) }.map(ResourceHandle::Buffer)
        })?;
        Ok(self.get(index)?.new_buffer().ok_or(GpuMisuse::NoBuffer)?)
    }

    /// Creates an image, bound at the new place. `info` must be the info of the region's image. The allocator does not store it: it detects
    /// a different info only by its usage, flags, sharing and tiling, and by the size, alignment, memory types and dedication that the
    /// driver requires. Layouts, views and descriptors are the user's responsibility.
    ///
    /// # Errors
    /// [`GpuMisuse::Outside`] if there is no such move, [`GpuMisuse::NoImage`] if the region has no image, [`GpuMisuse::Held`] if the
    /// second image exists already, [`GpuMisuse::WrongPlace`] if `info` is not that of the region's image or the new place does not meet
    /// the image's requirements; the driver's error. After an error the call has left no image.
    pub fn make_image(&mut self, index: usize, info: &ImageInfo) -> Result<ImageHandle, GpuError> {
        let one = *self.get(index)?;
        if one.root.content != RegionContent::Image {
            return Err(GpuMisuse::NoImage.into());
        }
        if !one
            .root
            .description
            .is_some_and(|description| description.is_like_image(info))
        {
            return Err(GpuMisuse::WrongPlace.into());
        }
        let device = self.run.allocator.device();
        self.make(index, &one, || {
            // SAFETY: the caller of `new` promised that infos are valid for the device.
            unsafe { device.create_image(info) }.map(ResourceHandle::Image)
        })?;
        Ok(self.get(index)?.new_image().ok_or(GpuMisuse::NoImage)?)
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
        // Equal infos have equal requirements. The first image's info is not known completely, but its requirements are.
        let is_alike = match made {
            ResourceHandle::Image(_) => {
                ImageHandle::from_raw(one.root.resource).is_some_and(|old| {
                    let of_old = allocator.requirements(ResourceHandle::Image(old));
                    is_alike(&of_old, &needs)
                })
            }
            ResourceHandle::Buffer(_) => true,
        };
        let fits = is_alike
            && needs.size <= one.to.size
            && one.to.offset.is_multiple_of(needs.alignment.max(1))
            && needs.memory_type_bits >> (one.from.memory_type & 31) & 1 == 1
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

/// Whether images with these requirements may have the same info. Ignores the driver's preference, which may vary over time.
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
