//! The device as gpu-suballoc knows it: every command in the workload's bracket, every object told of.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::ptr::{self, NonNull};

use ash::vk::{self, Handle as _};
use gpu_suballoc::device::{
    BufferHandle, DeviceError, DeviceFeatures, DeviceProperties, HeapBudget, ImageHandle,
    ImageTiling, MappedRange, MemoryHandle, MemoryRequest, ResourceHandle,
};
use gpu_suballoc::{BufferInfo, DeviceMemory, GpuError, ImageInfo, ResourceRequirements};

use crate::workload::device::Device;
use crate::workload::error::WorkloadError;
use crate::workload::object::{DeviceObject, Guard};
use vk_accounts::ObjectKind;

/// A device for a sub-allocator. What it made and nobody gave back goes with it.
pub(super) struct BracketedDevice<'d> {
    device: &'d Device<'d>,
    memories: RefCell<Vec<Guard<'d, vk::DeviceMemory>>>,
    buffers: RefCell<Vec<Guard<'d, vk::Buffer>>>,
    images: RefCell<Vec<Guard<'d, vk::Image>>>,
    /// What the driver refused last.
    refused: Cell<Option<WorkloadError>>,
}

// SAFETY: only this folder makes one, and keeps it, with the allocator around it, within a call of `round::run`: it is never sent
// to another thread.
unsafe impl Send for BracketedDevice<'_> {}
// SAFETY: as for `Send`; nor is it shared with one.
unsafe impl Sync for BracketedDevice<'_> {}

impl<'d> BracketedDevice<'d> {
    pub(super) fn new(device: &'d Device<'d>) -> Self {
        let (memories, buffers, images) = Default::default();
        Self {
            device,
            memories,
            buffers,
            images,
            refused: Cell::new(None),
        }
    }

    /// Why the sub-allocator refused `what`: with the driver's command, where the driver was the reason.
    pub(super) fn reason(&self, what: &'static str, reason: GpuError) -> WorkloadError {
        match (self.refused.take(), reason) {
            (Some(refused), GpuError::Device(_)) => refused,
            _ => WorkloadError::Suballocation { what, reason },
        }
    }

    fn device_result<T>(&self, result: Result<T, WorkloadError>) -> Result<T, DeviceError> {
        result.map_err(|error| {
            self.refused.set(Some(error));
            match error {
                WorkloadError::Command { result, .. } => DeviceError::from_raw(result.as_raw()),
                // `Device::create` and `Caller::check` have no other.
                _ => DeviceError::Other(vk::Result::ERROR_UNKNOWN.as_raw()),
            }
        })
    }

    /// # Safety
    /// `info` is valid, as [`Device::create`] demands.
    unsafe fn create<H: DeviceObject>(
        &self,
        kept: &RefCell<Vec<Guard<'d, H>>>,
        info: &H::Info<'_>,
    ) -> Result<NonZeroU64, DeviceError> {
        // SAFETY: forwarded.
        let guard = self.device_result(unsafe { self.device.create::<H>(info) })?;
        let handle = NonZeroU64::new(guard.as_raw())
            .ok_or(DeviceError::Other(vk::Result::ERROR_UNKNOWN.as_raw()))?;
        kept.borrow_mut().push(guard);
        Ok(handle)
    }

    /// Destroys an object with the callbacks that it was made with.
    fn destroy<H: DeviceObject>(kept: &RefCell<Vec<Guard<'d, H>>>, handle: u64) {
        let place = kept
            .borrow()
            .iter()
            .position(|guard| guard.as_raw() == handle);
        let gone = place.map(|place| kept.borrow_mut().swap_remove(place));
        debug_assert!(gone.is_some(), "the sub-allocator destroys what it made");
    }

    fn ranges(ranges: &[MappedRange]) -> Vec<vk::MappedMemoryRange<'static>> {
        let range = |range: &MappedRange| {
            let memory = vk::DeviceMemory::from_raw(range.memory.as_raw());
            vk::MappedMemoryRange::default()
                .memory(memory)
                .offset(range.offset)
                .size(range.size)
        };
        ranges.iter().map(range).collect()
    }
}

fn requirements(
    needs: &vk::MemoryRequirements,
    dedicated: &vk::MemoryDedicatedRequirements<'_>,
) -> ResourceRequirements {
    ResourceRequirements {
        size: needs.size,
        alignment: needs.alignment,
        memory_type_bits: needs.memory_type_bits,
        prefers_dedicated: dedicated.prefers_dedicated_allocation == vk::TRUE,
        requires_dedicated: dedicated.requires_dedicated_allocation == vk::TRUE,
    }
}

// SAFETY: handles, pointers and results are Vulkan's own; guards keep every object alive until it is given back; what the device
// says of itself was asked once. No call unwinds: the workload's hooks do not.
unsafe impl DeviceMemory for BracketedDevice<'_> {
    fn properties(&self) -> DeviceProperties<'_> {
        let physical = self.device.physical();
        // Vulkan 1.1, no extensions, and no feature of memory enabled.
        let features = DeviceFeatures {
            dedicated_allocation: true,
            ..DeviceFeatures::default()
        };
        DeviceProperties {
            types: physical.memory_types(),
            heaps: physical.heaps(),
            limits: physical.limits,
            features,
        }
    }

    unsafe fn allocate(&self, request: &MemoryRequest) -> Result<MemoryHandle, DeviceError> {
        let (buffer, image) = match request.dedicated {
            Some(ResourceHandle::Buffer(buffer)) => {
                (vk::Buffer::from_raw(buffer.as_raw()), vk::Image::null())
            }
            Some(ResourceHandle::Image(image)) => {
                (vk::Buffer::null(), vk::Image::from_raw(image.as_raw()))
            }
            None => (vk::Buffer::null(), vk::Image::null()),
        };
        let mut dedicated = vk::MemoryDedicatedAllocateInfo::default()
            .buffer(buffer)
            .image(image);
        let mut info = vk::MemoryAllocateInfo::default()
            .allocation_size(request.size)
            .memory_type_index(request.memory_type);
        if request.dedicated.is_some() {
            info = info.push_next(&mut dedicated);
        }
        // SAFETY: size, type and resource are valid, as the caller promises; the rest of the request needs features that
        // `properties` denies.
        let memory = unsafe { self.create(&self.memories, &info) }?;
        Ok(MemoryHandle::from_raw(memory.get()).unwrap_or_else(|| unreachable!("not 0")))
    }

    unsafe fn free(&self, memory: MemoryHandle) {
        Self::destroy(&self.memories, memory.as_raw());
    }

    unsafe fn map(
        &self,
        memory: MemoryHandle,
        offset: u64,
        size: u64,
    ) -> Result<NonNull<u8>, DeviceError> {
        let (device, memory) = (self.device, vk::DeviceMemory::from_raw(memory.as_raw()));
        let mut start = ptr::null_mut();
        let out = &raw mut start;
        self.device_result(
            device
                .caller()
                .check("vkMapMemory", ObjectKind::DeviceMemory, || {
                    // SAFETY: live, host-visible, not mapped, and the range lies in it, as the caller promises; one thread.
                    unsafe {
                        (device.v1_0().map_memory)(
                            device.handle(),
                            memory,
                            offset,
                            size,
                            vk::MemoryMapFlags::empty(),
                            out,
                        )
                    }
                }),
        )?;
        NonNull::new(start.cast()).ok_or(DeviceError::MapFailed)
    }

    unsafe fn unmap(&self, memory: MemoryHandle) {
        let (device, memory) = (self.device, vk::DeviceMemory::from_raw(memory.as_raw()));
        device
            .caller()
            .call("vkUnmapMemory", ObjectKind::DeviceMemory, || {
                // SAFETY: live and mapped, as the caller promises; one thread.
                unsafe { (device.v1_0().unmap_memory)(device.handle(), memory) }
            });
    }

    unsafe fn flush(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        let (device, ranges) = (self.device, Self::ranges(ranges));
        let (count, first) = (ranges.len() as u32, ranges.as_ptr());
        self.device_result(device.caller().check(
            "vkFlushMappedMemoryRanges",
            ObjectKind::DeviceMemory,
            || {
                // SAFETY: mapped ranges of whole atoms, as the caller promises; as many as there are.
                unsafe { (device.v1_0().flush_mapped_memory_ranges)(device.handle(), count, first) }
            },
        ))
    }

    unsafe fn invalidate(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        let (device, ranges) = (self.device, Self::ranges(ranges));
        let (count, first) = (ranges.len() as u32, ranges.as_ptr());
        self.device_result(device.caller().check(
            "vkInvalidateMappedMemoryRanges",
            ObjectKind::DeviceMemory,
            || {
                // SAFETY: as for `flush`.
                unsafe {
                    (device.v1_0().invalidate_mapped_memory_ranges)(device.handle(), count, first)
                }
            },
        ))
    }

    unsafe fn create_buffer(&self, info: &BufferInfo) -> Result<BufferHandle, DeviceError> {
        let families = families(info.sharing.bits());
        let info = vk::BufferCreateInfo::default()
            .flags(vk::BufferCreateFlags::from_raw(info.flags))
            .size(info.size)
            .usage(vk::BufferUsageFlags::from_raw(info.usage.as_raw()))
            .sharing_mode(sharing(&families))
            .queue_family_indices(&families);
        // SAFETY: valid, as the caller promises.
        let buffer = unsafe { self.create(&self.buffers, &info) }?;
        Ok(BufferHandle::from_raw(buffer.get()).unwrap_or_else(|| unreachable!("not 0")))
    }

    unsafe fn destroy_buffer(&self, buffer: BufferHandle) {
        Self::destroy(&self.buffers, buffer.as_raw());
    }

    unsafe fn buffer_requirements(&self, buffer: BufferHandle) -> ResourceRequirements {
        let device = self.device;
        let info = vk::BufferMemoryRequirementsInfo2::default()
            .buffer(vk::Buffer::from_raw(buffer.as_raw()));
        let mut dedicated = vk::MemoryDedicatedRequirements::default();
        let mut needs = vk::MemoryRequirements2::default().push_next(&mut dedicated);
        let out = &raw mut needs;
        device
            .caller()
            .call("vkGetBufferMemoryRequirements2", ObjectKind::Buffer, || {
                // SAFETY: the buffer is live, as the caller promises; the answers are locals.
                unsafe {
                    (device.v1_1().get_buffer_memory_requirements2)(
                        device.handle(),
                        &raw const info,
                        out,
                    )
                }
            });
        let needs = needs.memory_requirements;
        requirements(&needs, &dedicated)
    }

    unsafe fn bind_buffer(
        &self,
        buffer: BufferHandle,
        memory: MemoryHandle,
        offset: u64,
    ) -> Result<(), DeviceError> {
        let (device, memory) = (self.device, vk::DeviceMemory::from_raw(memory.as_raw()));
        let buffer = vk::Buffer::from_raw(buffer.as_raw());
        self.device_result(
            device
                .caller()
                .check("vkBindBufferMemory", ObjectKind::Buffer, || {
                    // SAFETY: live, not bound, and the place is what it asks for, as the caller promises.
                    unsafe {
                        (device.v1_0().bind_buffer_memory)(device.handle(), buffer, memory, offset)
                    }
                }),
        )
    }

    unsafe fn create_image(&self, info: &ImageInfo) -> Result<ImageHandle, DeviceError> {
        let families = families(info.sharing.bits());
        let [width, height, depth] = info.extent;
        let info = vk::ImageCreateInfo::default()
            .flags(vk::ImageCreateFlags::from_raw(info.flags))
            .image_type(vk::ImageType::from_raw(info.image_type as i32))
            .format(vk::Format::from_raw(info.format as i32))
            .extent(vk::Extent3D {
                width,
                height,
                depth,
            })
            .mip_levels(info.mip_levels)
            .array_layers(info.array_layers)
            .samples(vk::SampleCountFlags::from_raw(info.samples))
            .tiling(if info.tiling == ImageTiling::Optimal {
                vk::ImageTiling::OPTIMAL
            } else {
                vk::ImageTiling::LINEAR
            })
            .usage(vk::ImageUsageFlags::from_raw(info.usage.as_raw()))
            .initial_layout(vk::ImageLayout::from_raw(info.initial_layout as i32))
            .sharing_mode(sharing(&families))
            .queue_family_indices(&families);
        // SAFETY: valid, as the caller promises.
        let image = unsafe { self.create(&self.images, &info) }?;
        Ok(ImageHandle::from_raw(image.get()).unwrap_or_else(|| unreachable!("not 0")))
    }

    unsafe fn destroy_image(&self, image: ImageHandle) {
        Self::destroy(&self.images, image.as_raw());
    }

    unsafe fn image_requirements(&self, image: ImageHandle) -> ResourceRequirements {
        let device = self.device;
        let info =
            vk::ImageMemoryRequirementsInfo2::default().image(vk::Image::from_raw(image.as_raw()));
        let mut dedicated = vk::MemoryDedicatedRequirements::default();
        let mut needs = vk::MemoryRequirements2::default().push_next(&mut dedicated);
        let out = &raw mut needs;
        device
            .caller()
            .call("vkGetImageMemoryRequirements2", ObjectKind::Image, || {
                // SAFETY: the image is live, as the caller promises; the answers are locals.
                unsafe {
                    (device.v1_1().get_image_memory_requirements2)(
                        device.handle(),
                        &raw const info,
                        out,
                    )
                }
            });
        let needs = needs.memory_requirements;
        requirements(&needs, &dedicated)
    }

    unsafe fn bind_image(
        &self,
        image: ImageHandle,
        memory: MemoryHandle,
        offset: u64,
    ) -> Result<(), DeviceError> {
        let (device, memory) = (self.device, vk::DeviceMemory::from_raw(memory.as_raw()));
        let image = vk::Image::from_raw(image.as_raw());
        self.device_result(
            device
                .caller()
                .check("vkBindImageMemory", ObjectKind::Image, || {
                    // SAFETY: live, not bound, and the place is what it asks for, as the caller promises.
                    unsafe {
                        (device.v1_0().bind_image_memory)(device.handle(), image, memory, offset)
                    }
                }),
        )
    }

    unsafe fn buffer_address(&self, _: BufferHandle) -> Option<NonZeroU64> {
        // The feature is not enabled.
        None
    }

    fn budget(&self, _: &mut [HeapBudget]) -> bool {
        // The extension is not enabled.
        false
    }
}

/// The queue families whose bits are set.
fn families(bits: u64) -> Vec<u32> {
    (0..u64::BITS)
        .filter(|family| bits >> family & 1 == 1)
        .collect()
}

fn sharing(families: &[u32]) -> vk::SharingMode {
    if families.is_empty() {
        vk::SharingMode::EXCLUSIVE
    } else {
        vk::SharingMode::CONCURRENT
    }
}
