use core::ffi::c_void;
use core::fmt;
use core::marker::PhantomData;
use core::num::NonZeroU64;
use core::ptr::NonNull;
use std::alloc::System;
use std::backtrace::Backtrace;

use alloc_core::{Context, ContextHandle, ContextOptions, FromGlobalAlloc, default_context};
use ash::vk::{self, Handle as _};
use gpu_suballoc::allocator::RegionInfo;
use gpu_suballoc::ash::{AshDevice, AshOptions};
use gpu_suballoc::device::{BufferHandle, DeviceError, ImageHandle, MemoryHandle, ResourceHandle};
use gpu_suballoc::report::RangeUse;
use gpu_suballoc::{
    AllocatorOptions, GpuAllocator, GpuError, GpuMisuse, MemoryPreference, PropertyFlags, Region, RegionOptions,
    ResourceKind, ResourceRequirements,
};
use log::{Level, debug, log};

use crate::{
    AllocationError, AllocationReport, AllocationSizes, AllocatorDebugSettings, AllocatorReport, MemoryBlockReport,
    MemoryLocation, Result,
};

/// Whether an allocation has a memory object of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationScheme {
    /// One that is dedicated to this buffer.
    DedicatedBuffer(vk::Buffer),
    /// One that is dedicated to this image.
    DedicatedImage(vk::Image),
    /// As the allocator decides.
    GpuAllocatorManaged,
}

/// A request.
#[derive(Clone, Debug)]
pub struct AllocationCreateDesc<'a> {
    /// For reports; up to 255 bytes of it are kept.
    pub name: &'a str,
    /// Of the buffer or image that will be bound.
    pub requirements: vk::MemoryRequirements,
    /// Where the memory should be.
    pub location: MemoryLocation,
    /// A buffer, or an image with linear tiling.
    pub linear: bool,
    /// Whether it has a memory object of its own.
    pub allocation_scheme: AllocationScheme,
}

/// What an allocator is made of. Instance and device outlive it.
pub struct AllocatorCreateDesc {
    /// Of the device.
    pub instance: ash::Instance,
    /// Whose memory is allocated.
    pub device: ash::Device,
    /// Of the device.
    pub physical_device: vk::PhysicalDevice,
    /// What is logged.
    pub debug_settings: AllocatorDebugSettings,
    /// The device was created with `bufferDeviceAddress`.
    pub buffer_device_address: bool,
    /// Sizes of shared blocks.
    pub allocation_sizes: AllocationSizes,
}

/// Memory, and where it lies. To be given to [`Allocator::free`].
#[derive(Debug, Default)]
pub struct Allocation {
    region: Option<Region>,
    /// A scheme named a resource.
    is_dedicated: bool,
}

impl Allocation {
    /// The allocation as bytes that the host may write, while nothing else uses them; `None` where it is not mapped.
    pub fn try_as_mapped_slab(&mut self) -> Option<MappedAllocationSlab<'_>> {
        let place = self.mapped_ptr()?;
        isize::try_from(self.size()).ok()?;
        Some(MappedAllocationSlab { place, size: self.size() as usize, _allocation: PhantomData })
    }

    /// A number that no other live allocation of the allocator has.
    pub fn chunk_id(&self) -> Option<NonZeroU64> {
        Some(self.region.as_ref()?.id().slot_key())
    }

    /// The properties of its memory type.
    pub fn memory_properties(&self) -> vk::MemoryPropertyFlags {
        let properties = self.region.as_ref().and_then(Region::memory_properties);
        vk::MemoryPropertyFlags::from_raw(properties.map_or(0, PropertyFlags::as_raw))
    }

    /// Its memory object, which others may share.
    ///
    /// # Safety
    /// The object is not freed, and this allocation is not freed while something is bound to it.
    pub unsafe fn memory(&self) -> vk::DeviceMemory {
        let memory = self.region.as_ref().and_then(Region::memory);
        vk::DeviceMemory::from_raw(memory.map_or(0, MemoryHandle::as_raw))
    }

    /// Whether the memory object is dedicated to the resource that its scheme named.
    pub fn is_dedicated(&self) -> bool {
        self.is_dedicated
    }

    /// Where it begins in its memory object.
    pub fn offset(&self) -> u64 {
        self.region.as_ref().map_or(0, Region::offset)
    }

    /// Bytes, as requested.
    pub fn size(&self) -> u64 {
        self.region.as_ref().map_or(0, Region::size)
    }

    /// Where the host sees it, if its memory is host-visible.
    pub fn mapped_ptr(&self) -> Option<NonNull<c_void>> {
        Some(self.region.as_ref()?.mapped()?.cast())
    }

    /// Its bytes, if its memory is host-visible.
    pub fn mapped_slice(&self) -> Option<&[u8]> {
        let place = self.mapped_ptr()?.cast();
        let size = usize::try_from(self.size()).ok()?;
        // SAFETY: mapped for as long as the region lives, which is freed by value alone. The device does not write
        // meanwhile: the original's rule.
        Some(unsafe { core::slice::from_raw_parts(place.as_ptr(), size) })
    }

    /// Its bytes, if its memory is host-visible.
    pub fn mapped_slice_mut(&mut self) -> Option<&mut [u8]> {
        let place = self.mapped_ptr()?.cast();
        let size = usize::try_from(self.size()).ok()?;
        // SAFETY: `mapped_slice` says why, and `self` is borrowed alone.
        Some(unsafe { core::slice::from_raw_parts_mut(place.as_ptr(), size) })
    }

    /// Whether it is [`Allocation::default`].
    pub fn is_null(&self) -> bool {
        self.region.is_none()
    }

    fn slab(&self) -> NonNull<u8> {
        self.mapped_ptr().expect("tried to use a non-mapped Allocation as a Slab").cast()
    }
}

/// A mapped allocation, for `presser`.
pub struct MappedAllocationSlab<'a> {
    place: NonNull<c_void>,
    size: usize,
    _allocation: PhantomData<&'a mut Allocation>,
}

// SAFETY: the allocation's bytes, mapped as long as it is borrowed.
unsafe impl presser::Slab for MappedAllocationSlab<'_> {
    fn base_ptr(&self) -> *const u8 {
        self.place.as_ptr().cast()
    }

    fn base_ptr_mut(&mut self) -> *mut u8 {
        self.place.as_ptr().cast()
    }

    fn size(&self) -> usize {
        self.size
    }
}

// SAFETY: the allocation's bytes, mapped as long as it lives; an unmapped one panics.
unsafe impl presser::Slab for Allocation {
    fn base_ptr(&self) -> *const u8 {
        self.slab().as_ptr()
    }

    fn base_ptr_mut(&mut self) -> *mut u8 {
        self.slab().as_ptr()
    }

    fn size(&self) -> usize {
        isize::try_from(Self::size(self)).expect("called `Slab::size` on an Allocation larger than isize::MAX") as usize
    }
}

/// Allocates memory of one device.
pub struct Allocator {
    /// `None` only while it is dropped.
    gpu: Option<GpuAllocator<AshDevice, ContextHandle>>,
    /// The root of its own, where the process has no default context.
    own: Option<Context>,
    settings: AllocatorDebugSettings,
}

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

impl Allocator {
    /// Its book-keeping comes from [`alloc_core::default_context`] if the process has one.
    pub fn new(desc: &AllocatorCreateDesc) -> Result<Self> {
        if desc.physical_device == vk::PhysicalDevice::null() {
            return Err(AllocationError::InvalidAllocatorCreateDesc(
                "AllocatorCreateDesc field `physical_device` is null.".into(),
            ));
        }
        if desc.debug_settings.log_memory_information {
            log_memory(desc);
        }
        let (memory, own) = match default_context() {
            Some(context) => (context, None),
            None => {
                let options = ContextOptions::new("gpu-allocator");
                let own = Context::root_static(&SYSTEM, options).map_err(|_| AllocationError::OutOfMemory)?;
                (own.handle(), Some(own))
            }
        };
        // The original uses dedicated memory wherever a scheme names it; the description has no version.
        let mut options = AshOptions::new(vk::API_VERSION_1_0);
        options.features.dedicated_allocation = true;
        options.features.buffer_device_address = desc.buffer_device_address;
        // SAFETY: the description's handles belong together and outlive the allocator, and it is right about addresses:
        // the original's rule.
        let device = unsafe { AshDevice::of_device(&desc.instance, desc.physical_device, &desc.device, options) };
        let AllocationSizes { device: of_device, host } = desc.allocation_sizes;
        let mut options = AllocatorOptions { reuse: false, ..AllocatorOptions::default() };
        (options.memory.first_block, options.memory.max_block) = (Some(of_device.0), Some(of_device.1));
        (options.memory.first_host_block, options.memory.max_host_block) = (Some(host.0), Some(host.1));
        // SAFETY: what callers bind and free keeps the original's rules, which are Vulkan's.
        let gpu = unsafe { GpuAllocator::new(device, memory, options) }.map_err(|refused| error_of(refused.error))?;
        Ok(Self { gpu: Some(gpu), own, settings: desc.debug_settings })
    }

    fn gpu(&self) -> Result<&GpuAllocator<AshDevice, ContextHandle>> {
        self.gpu.as_ref().ok_or_else(|| AllocationError::Internal("the allocator has ended".into()))
    }

    /// Memory for a buffer or image. Host-visible memory is mapped as long as it lives.
    pub fn allocate(&mut self, desc: &AllocationCreateDesc<'_>) -> Result<Allocation> {
        if self.settings.log_allocations {
            debug!(
                "Allocating `{}` of {} bytes with an alignment of {}.",
                desc.name, desc.requirements.size, desc.requirements.alignment
            );
            self.log_stack();
        }
        let vk::MemoryRequirements { size, alignment, memory_type_bits, .. } = desc.requirements;
        if size == 0 || !alignment.is_power_of_two() {
            return Err(AllocationError::InvalidAllocationCreateDesc);
        }
        let host = PropertyFlags::HOST_VISIBLE | PropertyFlags::HOST_COHERENT;
        let preference = match desc.location {
            MemoryLocation::Unknown => MemoryPreference::default(),
            MemoryLocation::GpuOnly => MemoryPreference::requiring(PropertyFlags::DEVICE_LOCAL),
            MemoryLocation::CpuToGpu => MemoryPreference::requiring(host).preferring(PropertyFlags::DEVICE_LOCAL),
            MemoryLocation::GpuToCpu => MemoryPreference::requiring(host).preferring(PropertyFlags::HOST_CACHED),
        };
        let options = RegionOptions {
            mapped: true,
            dedicated_for: match desc.allocation_scheme {
                AllocationScheme::DedicatedBuffer(buffer) => {
                    BufferHandle::from_raw(buffer.as_raw()).map(ResourceHandle::Buffer)
                }
                AllocationScheme::DedicatedImage(image) => {
                    ImageHandle::from_raw(image.as_raw()).map(ResourceHandle::Image)
                }
                AllocationScheme::GpuAllocatorManaged => None,
            },
            ..RegionOptions::new()
                .preference(preference)
                .kind(if desc.linear { ResourceKind::Linear } else { ResourceKind::Optimal })
                .name(desc.name)
        };
        let requirements = ResourceRequirements::new(size, alignment).memory_types(memory_type_bits);
        let region = (self.gpu()?).allocate(&requirements, &options).map_err(error_of)?;
        Ok(Allocation {
            region: Some(region),
            is_dedicated: desc.allocation_scheme != AllocationScheme::GpuAllocatorManaged,
        })
    }

    /// Frees an allocation that nothing is bound to any more.
    pub fn free(&mut self, allocation: Allocation) -> Result<()> {
        let gpu = self.gpu()?;
        if self.settings.log_frees {
            let region = allocation.region.as_ref();
            let info = region.and_then(|region| gpu.info(region.id()).ok());
            debug!("Freeing `{}`.", info.as_ref().map_or("", RegionInfo::name));
            self.log_stack();
        }
        let Some(region) = allocation.region else {
            return Ok(());
        };
        gpu.free(region).map_err(|refused| error_of(refused.error))
    }

    /// Gives an allocation another name.
    pub fn rename_allocation(&mut self, allocation: &mut Allocation, name: &str) -> Result<()> {
        let Some(region) = &allocation.region else {
            return Ok(());
        };
        self.gpu()?.set_name(region, &RegionOptions::new().name(name)).map_err(error_of)
    }

    /// Logs what lives.
    pub fn report_memory_leaks(&self, log_level: Level) {
        let Ok(Ok(map)) = self.gpu().map(GpuAllocator::memory_map) else {
            return;
        };
        for leak in map.leaks() {
            log!(log_level, "leak detected: {leak}");
        }
    }

    /// All memory objects and what lies in them. Empty if the host has no memory for it.
    pub fn generate_report(&self) -> AllocatorReport {
        let mut report = AllocatorReport {
            allocations: Vec::new(),
            blocks: Vec::new(),
            total_allocated_bytes: 0,
            total_capacity_bytes: 0,
        };
        let Ok(Ok(map)) = self.gpu().map(GpuAllocator::memory_map) else {
            return report;
        };
        for (block, ranges) in map.blocks_with_ranges().filter(|(block, _)| block.memory != 0) {
            let first = report.allocations.len();
            let live = ranges.iter().filter(|range| range.range_use == RangeUse::Region);
            report.allocations.extend(live.map(|range| AllocationReport {
                name: map.name(range).unwrap_or_default().to_owned(),
                offset: range.offset,
                size: range.size.saturating_sub(range.padding),
            }));
            report.blocks.push(MemoryBlockReport { size: block.size, allocations: first..report.allocations.len() });
            report.total_capacity_bytes += block.size;
        }
        report.total_allocated_bytes = report.allocations.iter().map(|one| one.size).sum();
        report
    }

    /// Bytes of all memory objects.
    pub fn capacity(&self) -> u64 {
        self.gpu().map_or(0, |gpu| gpu.stats().total.block_bytes)
    }

    fn log_stack(&self) {
        if self.settings.log_stack_traces {
            debug!("{}", Backtrace::force_capture());
        }
    }
}

impl fmt::Debug for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.generate_report().fmt(f)
    }
}

impl Drop for Allocator {
    /// Frees all memory objects, whatever lives.
    fn drop(&mut self) {
        if self.settings.log_leaks_on_shutdown {
            self.report_memory_leaks(Level::Warn);
        }
        if let Some(gpu) = self.gpu.take() {
            drop(gpu.free_all());
        }
        drop(self.own.take());
    }
}

fn log_memory(desc: &AllocatorCreateDesc) {
    // SAFETY: the description's handles belong together.
    let properties = unsafe { (desc.instance).get_physical_device_memory_properties(desc.physical_device) };
    for (index, of) in properties.memory_types_as_slice().iter().enumerate() {
        debug!("memory type {index}: {:?}, heap {}", of.property_flags, of.heap_index);
    }
    for (index, heap) in properties.memory_heaps_as_slice().iter().enumerate() {
        debug!("heap {index}: {:?}, {} MiB", heap.flags, heap.size >> 20);
    }
}

fn error_of(error: GpuError) -> AllocationError {
    match error {
        GpuError::MemoryType(_) => AllocationError::NoCompatibleMemoryTypeFound,
        GpuError::MapUnsupported { .. } | GpuError::Device(DeviceError::MapFailed) => {
            AllocationError::FailedToMap(error.to_string())
        }
        _ if error.is_device_lost() => AllocationError::Internal(error.to_string()),
        GpuError::Misuse(GpuMisuse::ZeroSize | GpuMisuse::BadAlignment | GpuMisuse::AlignmentTooLarge) => {
            AllocationError::InvalidAllocationCreateDesc
        }
        GpuError::Misuse(_) => AllocationError::Internal(error.to_string()),
        _ => AllocationError::OutOfMemory,
    }
}
