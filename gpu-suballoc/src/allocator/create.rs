//! Buffers and images with their memory: make, ask, place, bind; and on any refusal everything back, in reverse.

use super::GpuAllocator;
use crate::device::{
    BufferInfo, BufferUsage, DeviceError, DeviceMemory, ImageInfo, ImageTiling, MemoryHandle,
    ResourceHandle, ResourceRequirements,
};
use crate::error::{GpuError, GpuMisuse};
use crate::pool::AllocationRequest;
use crate::region::Region;
use crate::region_metadata::{NewRoot, ResourceDescription, RootView};
use crate::request::{RegionOptions, ResourceKind};
use alloc_core::HostAllocator;
use core::sync::atomic::Ordering;

/// `VK_BUFFER_CREATE_SPARSE_*`: such a buffer has no one memory.
const SPARSE_BUFFER: u32 = 0b111;
/// `VK_IMAGE_CREATE_SPARSE_*` and `VK_IMAGE_CREATE_DISJOINT_BIT`.
const SPARSE_OR_DISJOINT_IMAGE: u32 = 0b111 | 0x200;

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Makes a buffer and binds it to memory of its own, or takes one that was [kept](GpuAllocator::release) and fits exactly.
    ///
    /// `options.kind` is not read: a buffer is [`Linear`](ResourceKind::Linear).
    ///
    /// # Errors
    /// [`GpuMisuse::ZeroSize`], [`GpuMisuse::NoUsage`], [`GpuMisuse::Unbindable`] for sparse buffers, [`GpuMisuse::NotEnabled`] for a
    /// device address without `bufferDeviceAddress`, [`GpuError::TooLarge`] above `maxBufferSize`;
    /// otherwise as [`allocate`](GpuAllocator::allocate), and what the driver refuses. No buffer is left then.
    pub fn create_buffer(
        &self,
        info: &BufferInfo,
        options: &RegionOptions<'_>,
    ) -> Result<Region, GpuError> {
        self.check_buffer(info)?;
        let options = &RegionOptions {
            device_address: options.device_address
                || info.usage.contains(BufferUsage::SHADER_DEVICE_ADDRESS),
            ..*options
        };
        self.check_options(options)?;
        let kind = ResourceDescription::of_buffer(info, options);
        if self.reuse.load(Ordering::Relaxed)
            && let Some(region) = self.records.reuse(self.host(), &kind, info.size, options)?
        {
            return Ok(region);
        }
        let new = self
            .records
            .prepare_root(self.host(), Some(&kind), options)?;
        // SAFETY: that the info is valid was promised at `new`.
        let make = || unsafe { self.device.create_buffer(info) }.map(ResourceHandle::Buffer);
        self.create(new, make, info.size, ResourceKind::Linear, options)
    }

    /// Makes an image and binds it to memory of its own. Images are not kept for reuse.
    ///
    /// `options.kind` is not read: the tiling says it.
    ///
    /// # Errors
    /// [`GpuMisuse::ZeroSize`] for an extent, [`GpuMisuse::NoUsage`], [`GpuMisuse::Unbindable`] for sparse and disjoint images; otherwise as
    /// [`allocate`](GpuAllocator::allocate), and what the driver refuses. No image is left then.
    pub fn create_image(
        &self,
        info: &ImageInfo,
        options: &RegionOptions<'_>,
    ) -> Result<Region, GpuError> {
        if info.extent.contains(&0) || info.mip_levels == 0 || info.array_layers == 0 {
            return Err(GpuMisuse::ZeroSize.into());
        }
        if info.usage.as_raw() == 0 {
            return Err(GpuMisuse::NoUsage.into());
        }
        if info.flags & SPARSE_OR_DISJOINT_IMAGE != 0 {
            return Err(GpuMisuse::Unbindable.into());
        }
        self.check_options(options)?;
        let resource = match info.tiling {
            ImageTiling::Optimal => ResourceKind::Optimal,
            ImageTiling::Linear => ResourceKind::Linear,
        };
        let new = self.records.prepare_root(
            self.host(),
            Some(&ResourceDescription::of_image(info, resource, options)),
            options,
        )?;
        // SAFETY: that the info is valid was promised at `new`.
        let make = || unsafe { self.device.create_image(info) }.map(ResourceHandle::Image);
        self.create(new, make, 0, resource, options)
    }

    fn check_buffer(&self, info: &BufferInfo) -> Result<(), GpuError> {
        if info.size == 0 {
            return Err(GpuMisuse::ZeroSize.into());
        }
        if info.size > self.limits.max_buffer_size {
            return Err(GpuError::TooLarge {
                bytes: info.size,
                limit: self.limits.max_buffer_size,
            });
        }
        if info.usage == BufferUsage::default() {
            return Err(GpuMisuse::NoUsage.into());
        }
        if info.flags & SPARSE_BUFFER != 0 {
            return Err(GpuMisuse::Unbindable.into());
        }
        Ok(())
    }

    /// `asked` bytes, or as many as the resource turns out to need where that is 0.
    fn create(
        &self,
        new: NewRoot,
        make: impl Fn() -> Result<ResourceHandle, DeviceError>,
        asked: u64,
        kind: ResourceKind,
        options: &RegionOptions<'_>,
    ) -> Result<Region, GpuError> {
        let number = new.number();
        let made = match self.retry_after_evicting(|| make().map_err(GpuError::Device)) {
            Ok(made) => made,
            Err(error) => {
                self.records.cancel_root(self.host(), new);
                return Err(error);
            }
        };
        match self.bind_new(made, number, asked, kind, options) {
            Ok(region) => {
                // The buffer's own bytes are what can be used; the memory behind may be more.
                let view = RootView {
                    resource: region.resource,
                    content: region.content,
                    asked: region.size,
                };
                self.records.insert_root(new, region.id.at(), view);
                Ok(region)
            }
            Err(error) => {
                self.destroy_resource(made.content(), made.as_raw());
                self.records.cancel_root(self.host(), new);
                Err(error)
            }
        }
    }

    /// Requirements, place, bind. On refusal the place goes back; the resource is the caller's still.
    fn bind_new(
        &self,
        made: ResourceHandle,
        number: u32,
        asked: u64,
        kind: ResourceKind,
        options: &RegionOptions<'_>,
    ) -> Result<Region, GpuError> {
        let requirements = self.requirements(made);
        let ask = self.allocation_request(&requirements, options);
        let placed = self.place(&AllocationRequest {
            kind,
            user_data: number,
            resource: Some(made),
            ..ask
        })?;
        let region = self.region(&placed, number);
        if let Err(error) = self.bind(made, placed.memory, placed.offset) {
            let given = self
                .pools
                .free_recorded(self.device_and_host(), region.id.at(), number);
            debug_assert!(given.is_ok(), "placed a moment ago: {given:?}");
            return Err(error.into());
        }
        let size = if asked > 0 { asked } else { requirements.size };
        Ok(Region {
            size,
            resource: made.as_raw(),
            content: made.content(),
            ..region
        })
    }

    pub(super) fn requirements(&self, made: ResourceHandle) -> ResourceRequirements {
        match made {
            // SAFETY: made a moment ago.
            ResourceHandle::Buffer(buffer) => unsafe { self.device.buffer_requirements(buffer) },
            // SAFETY: made a moment ago.
            ResourceHandle::Image(image) => unsafe { self.device.image_requirements(image) },
        }
    }

    pub(super) fn bind(
        &self,
        made: ResourceHandle,
        memory: MemoryHandle,
        offset: u64,
    ) -> Result<(), DeviceError> {
        match made {
            // SAFETY: made a moment ago, nobody else's, not bound; the place is what its requirements ask for.
            ResourceHandle::Buffer(buffer) => unsafe {
                self.device.bind_buffer(buffer, memory, offset)
            },
            // SAFETY: as for buffers.
            ResourceHandle::Image(image) => unsafe {
                self.device.bind_image(image, memory, offset)
            },
        }
    }
}
