use super::GpuAllocator;
use crate::device::{
    BufferInfo, BufferUsage, DeviceError, DeviceMemory, ExternalHandleTypes, ImageInfo, ImageTiling, MemoryHandle,
    ResourceHandle, ResourceRequirements,
};
use crate::error::{GpuError, GpuMisuse};
use crate::id::RegionId;
use crate::pool::{AllocationRequest, Suballocation};
use crate::region::Region;
use crate::region_metadata::{NewRegion, ResourceDescription, RootView};
use crate::request::{RegionOptions, ResourceKind};
use alloc_core::HostAllocator;
use core::sync::atomic::Ordering;

const SPARSE_BUFFER: u32 = 0b111;
const SPARSE_OR_DISJOINT_IMAGE: u32 = 0b111 | 0x200;

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Creates a buffer and binds it to a new region, or reuses a [kept](GpuAllocator::release) buffer that fits
    /// exactly.
    ///
    /// `options.kind` is not read.
    ///
    /// # Errors
    /// [`GpuMisuse::ZeroSize`], [`GpuMisuse::NoUsage`], [`GpuMisuse::Unbindable`] for sparse buffers,
    /// [`GpuMisuse::NotEnabled`], [`GpuError::TooLarge`] above `maxBufferSize`; [`GpuMisuse::BadOptions`] if options
    /// name [another resource](RegionOptions::dedicated_for), [`GpuError::AfterAllocation`] for a refused bind;
    /// otherwise as [`allocate`](GpuAllocator::allocate), and the driver's.
    #[doc(alias("vmaCreateBuffer", "vkCreateBuffer", "vkBindBufferMemory"))]
    pub fn create_buffer(&self, info: &BufferInfo, options: &RegionOptions<'_>) -> Result<Region, GpuError> {
        // All fields by name: one that reuse does not compare would hand out buffers of another kind.
        let BufferInfo { size, usage, flags, sharing, external } = *info;
        if size == 0 {
            return Err(GpuMisuse::ZeroSize.into());
        }
        if size > self.limits.max_buffer_size {
            return Err(GpuError::TooLarge { bytes: size, limit: self.limits.max_buffer_size });
        }
        if usage == BufferUsage::default() {
            return Err(GpuMisuse::NoUsage.into());
        }
        if flags & SPARSE_BUFFER != 0 {
            return Err(GpuMisuse::Unbindable.into());
        }
        self.check_external(external)?;
        let options = &RegionOptions {
            device_address: options.device_address || usage.contains(BufferUsage::SHADER_DEVICE_ADDRESS),
            ..*options
        };
        self.check_creation(options)?;
        let kind =
            ResourceDescription::new((usage.as_raw(), flags), (sharing, external), ResourceKind::Linear, options);
        if self.reuse.load(Ordering::Relaxed)
            && let Some(key) = self.records.reuse(self.host(), &kind, size, options)?
        {
            return Ok(self.region_of(RegionId::new(self.tag, key))?);
        }
        let new = self.records.prepare(self.host(), Some(&kind), options)?;
        // SAFETY: the info is valid (`new`).
        let create = || unsafe { self.device.create_buffer(info) }.map(ResourceHandle::Buffer);
        self.create(new, create, size, ResourceKind::Linear, options)
    }

    /// Creates an image and binds it to a new region.
    ///
    /// `options.kind` is not read: the tiling determines it.
    ///
    /// # Errors
    /// [`GpuMisuse::ZeroSize`] for an extent, [`GpuMisuse::NoUsage`], [`GpuMisuse::Unbindable`] for sparse and disjoint
    /// images; otherwise as [`create_buffer`](GpuAllocator::create_buffer).
    #[doc(alias("vmaCreateImage", "vkCreateImage", "vkBindImageMemory"))]
    pub fn create_image(&self, info: &ImageInfo, options: &RegionOptions<'_>) -> Result<Region, GpuError> {
        if info.extent.contains(&0) || info.mip_levels == 0 || info.array_layers == 0 {
            return Err(GpuMisuse::ZeroSize.into());
        }
        if info.usage.as_raw() == 0 {
            return Err(GpuMisuse::NoUsage.into());
        }
        if info.flags & SPARSE_OR_DISJOINT_IMAGE != 0 {
            return Err(GpuMisuse::Unbindable.into());
        }
        self.check_external(info.external)?;
        self.check_creation(options)?;
        let resource = match info.tiling {
            ImageTiling::Optimal => ResourceKind::Optimal,
            ImageTiling::Linear => ResourceKind::Linear,
        };
        let kind = ResourceDescription::new(
            (info.usage.as_raw(), info.flags),
            (info.sharing, info.external),
            resource,
            options,
        );
        let new = self.records.prepare(self.host(), Some(&kind), options)?;
        // SAFETY: the info is valid (`new`).
        let create = || unsafe { self.device.create_image(info) }.map(ResourceHandle::Image);
        self.create(new, create, 0, resource, options)
    }

    fn check_creation(&self, options: &RegionOptions<'_>) -> Result<(), GpuMisuse> {
        if options.dedicated_for.is_some() {
            return Err(GpuMisuse::BadOptions);
        }
        self.check_options(options)
    }

    fn check_external(&self, types: ExternalHandleTypes) -> Result<(), GpuMisuse> {
        if types.is_empty() || self.pools.features().external_memory { Ok(()) } else { Err(GpuMisuse::NotEnabled) }
    }

    /// The region has `asked` bytes, or if that is 0 those of the resource's requirements.
    fn create(
        &self,
        new: NewRegion,
        create: impl Fn() -> Result<ResourceHandle, DeviceError>,
        asked: u64,
        kind: ResourceKind,
        options: &RegionOptions<'_>,
    ) -> Result<Region, GpuError> {
        let resource = match self.retry_after_evicting(|| create().map_err(GpuError::Device)) {
            Ok(resource) => resource,
            Err(error) => {
                self.records.cancel(self.host(), new);
                return Err(error);
            }
        };
        match self.bind_new(resource, new.slot, asked, kind, options) {
            Ok((placed, asked)) => {
                // The usable bytes are the buffer's, although its memory may be larger.
                let view = RootView { resource: Some(resource), asked };
                let key = self.records.insert_root(new, placed.at, view);
                Ok(self.region(&view, &placed, key))
            }
            Err(error) => {
                self.destroy_resource(Some(resource));
                self.records.cancel(self.host(), new);
                Err(error)
            }
        }
    }

    /// A refusal frees the place; the resource stays the caller's.
    fn bind_new(
        &self,
        resource: ResourceHandle,
        slot: u32,
        asked: u64,
        kind: ResourceKind,
        options: &RegionOptions<'_>,
    ) -> Result<(Suballocation, u64), GpuError> {
        let requirements = self.requirements(resource);
        let request = self.allocation_request(&requirements, options);
        // VUID-VkMemoryDedicatedAllocateInfo-buffer-01879, image-01878.
        let is_named = options.next.is_none() || requirements.requires_dedicated;
        let request = AllocationRequest { kind, slot, resource: is_named.then_some(resource), ..request };
        let placed = self.with_margin(|| self.place_or_evict(&request))?;
        if let Err(error) = self.bind(resource, placed.memory, placed.offset) {
            let freed = self.pools().free(placed.at);
            debug_assert!(freed.is_ok(), "{freed:?}");
            return Err(GpuError::AfterAllocation(error));
        }
        let asked = if asked > 0 { asked } else { requirements.size };
        Ok((placed, asked))
    }

    pub(super) fn requirements(&self, resource: ResourceHandle) -> ResourceRequirements {
        match resource {
            // SAFETY: the buffer is live.
            ResourceHandle::Buffer(buffer) => unsafe { self.device.buffer_requirements(buffer) },
            // SAFETY: the image is live.
            ResourceHandle::Image(image) => unsafe { self.device.image_requirements(image) },
        }
    }

    pub(super) fn bind(&self, resource: ResourceHandle, memory: MemoryHandle, offset: u64) -> Result<(), DeviceError> {
        match resource {
            // SAFETY: the buffer is live, this thread's alone and not bound; the place meets its requirements.
            ResourceHandle::Buffer(buffer) => unsafe { self.device.bind_buffer(buffer, memory, offset) },
            // SAFETY: the image is live, this thread's alone and not bound; the place meets its requirements.
            ResourceHandle::Image(image) => unsafe { self.device.bind_image(image, memory, offset) },
        }
    }
}
