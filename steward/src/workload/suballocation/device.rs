//! The device for gpu-suballoc: every command runs in the workload's bracket, every object is reported.

use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};

use ash::vk::{self, Handle as _};
use gpu_suballoc::device::{
    BufferHandle, DeviceError, DeviceFeatures, DeviceProperties, MappedRange, MemoryHandle,
    MemoryRequest, ResourceHandle,
};
use gpu_suballoc::{BufferInfo, DeviceMemory, GpuError, ResourceRequirements};

use crate::workload::device::Device;
use crate::workload::error::WorkloadError;
use crate::workload::object::{DeviceObject, Guard};
use vk_accounts::ObjectKind;

const UNKNOWN: DeviceError = DeviceError::Other(vk::Result::ERROR_UNKNOWN.as_raw());

/// A device for a sub-allocator of buffers. Objects that are still alive are destroyed when it is dropped.
pub(super) struct BracketedDevice<'d> {
    device: &'d Device<'d>,
    memories: RefCell<Vec<Guard<'d, vk::DeviceMemory>>>,
    buffers: RefCell<Vec<Guard<'d, vk::Buffer>>>,
    /// The last refusal of the driver.
    refused: Cell<Option<WorkloadError>>,
}

// SAFETY: only this folder creates one, and uses it within one call of `round::run` or `defragmentation::run`: it is never sent to another
// thread.
unsafe impl Send for BracketedDevice<'_> {}
// SAFETY: as for `Send`: it is never shared with another thread.
unsafe impl Sync for BracketedDevice<'_> {}

impl<'d> BracketedDevice<'d> {
    pub(super) fn new(device: &'d Device<'d>) -> Self {
        Self {
            device,
            memories: RefCell::default(),
            buffers: RefCell::default(),
            refused: Cell::new(None),
        }
    }

    /// Why the sub-allocator refused `what`: the driver's command, if the driver refused.
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
                _ => UNKNOWN,
            }
        })
    }

    /// # Safety
    /// `info` is valid, as [`Device::create`] demands.
    unsafe fn create<H: DeviceObject>(
        &self,
        kept: &RefCell<Vec<Guard<'d, H>>>,
        info: &H::Info<'_>,
    ) -> Result<u64, DeviceError> {
        // SAFETY: forwarded.
        let guard = self.device_result(unsafe { self.device.create::<H>(info) })?;
        let handle = guard.as_raw();
        kept.borrow_mut().push(guard);
        Ok(handle)
    }

    /// Destroys an object with the callbacks of its creation.
    fn destroy<H: DeviceObject>(kept: &RefCell<Vec<Guard<'d, H>>>, handle: u64) {
        let place = kept
            .borrow()
            .iter()
            .position(|guard| guard.as_raw() == handle);
        let gone = place.map(|place| kept.borrow_mut().swap_remove(place));
        debug_assert!(gone.is_some(), "the sub-allocator destroys its own objects");
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

// SAFETY: handles, pointers and results are Vulkan's own; guards keep every object alive until it is destroyed; the properties do not change.
// No call unwinds: the workload's hooks do not.
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
        let mut dedicated = vk::MemoryDedicatedAllocateInfo::default();
        let mut info = vk::MemoryAllocateInfo::default()
            .allocation_size(request.size)
            .memory_type_index(request.memory_type);
        if let Some(ResourceHandle::Buffer(buffer)) = request.dedicated {
            dedicated.buffer = vk::Buffer::from_raw(buffer.as_raw());
            info = info.push_next(&mut dedicated);
        }
        // SAFETY: size, type and resource are valid, as the caller promises; the rest of the request needs features that
        // `properties` denies.
        let memory = unsafe { self.create(&self.memories, &info) }?;
        MemoryHandle::from_raw(memory).ok_or(UNKNOWN)
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
            device.check("vkMapMemory", ObjectKind::DeviceMemory, |vk, this| {
                // SAFETY: live, host-visible, not mapped, and the range lies in it, as the caller promises; one thread.
                unsafe {
                    (vk.map_memory)(this, memory, offset, size, vk::MemoryMapFlags::empty(), out)
                }
            }),
        )?;
        NonNull::new(start.cast()).ok_or(DeviceError::MapFailed)
    }

    unsafe fn unmap(&self, memory: MemoryHandle) {
        let (device, memory) = (self.device, vk::DeviceMemory::from_raw(memory.as_raw()));
        device.call("vkUnmapMemory", ObjectKind::DeviceMemory, |vk, this| {
            // SAFETY: live and mapped, as the caller promises; one thread.
            unsafe { (vk.unmap_memory)(this, memory) }
        });
    }

    unsafe fn flush(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        let (device, ranges) = (self.device, Self::ranges(ranges));
        let (count, first) = (ranges.len() as u32, ranges.as_ptr());
        self.device_result(device.check(
            "vkFlushMappedMemoryRanges",
            ObjectKind::DeviceMemory,
            |vk, this| {
                // SAFETY: mapped ranges of whole atoms, as the caller promises; as many as there are.
                unsafe { (vk.flush_mapped_memory_ranges)(this, count, first) }
            },
        ))
    }

    unsafe fn invalidate(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        let (device, ranges) = (self.device, Self::ranges(ranges));
        let (count, first) = (ranges.len() as u32, ranges.as_ptr());
        self.device_result(device.check(
            "vkInvalidateMappedMemoryRanges",
            ObjectKind::DeviceMemory,
            |vk, this| {
                // SAFETY: as for `flush`.
                unsafe { (vk.invalidate_mapped_memory_ranges)(this, count, first) }
            },
        ))
    }

    unsafe fn create_buffer(&self, info: &BufferInfo) -> Result<BufferHandle, DeviceError> {
        debug_assert_eq!(
            info.sharing.bits(),
            0,
            "one queue family uses the workload's buffers"
        );
        let info = vk::BufferCreateInfo::default()
            .flags(vk::BufferCreateFlags::from_raw(info.flags))
            .size(info.size)
            .usage(vk::BufferUsageFlags::from_raw(info.usage.as_raw()));
        // SAFETY: valid, as the caller promises.
        let buffer = unsafe { self.create(&self.buffers, &info) }?;
        BufferHandle::from_raw(buffer).ok_or(UNKNOWN)
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
        device.call(
            "vkGetBufferMemoryRequirements2",
            ObjectKind::Buffer,
            |_, this| {
                // SAFETY: the buffer is live, as the caller promises; the answers are locals.
                unsafe {
                    (device.v1_1().get_buffer_memory_requirements2)(this, &raw const info, out)
                }
            },
        );
        let needs = needs.memory_requirements;
        ResourceRequirements {
            size: needs.size,
            alignment: needs.alignment,
            memory_type_bits: needs.memory_type_bits,
            prefers_dedicated: dedicated.prefers_dedicated_allocation == vk::TRUE,
            requires_dedicated: dedicated.requires_dedicated_allocation == vk::TRUE,
        }
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
            device.check("vkBindBufferMemory", ObjectKind::Buffer, |vk, this| {
                // SAFETY: live, not bound, and placed as its requirements say (the caller's promise).
                unsafe { (vk.bind_buffer_memory)(this, buffer, memory, offset) }
            }),
        )
    }
}
