//! A device wrapper that makes no call after device loss.

use core::num::NonZeroU64;
use core::ptr::NonNull;

use super::contexts::DeviceState;
use crate::device::{
    BufferHandle, BufferInfo, DeviceError, DeviceMemory, DeviceProperties, HeapBudget, ImageHandle,
    ImageInfo, MappedRange, MemoryHandle, MemoryRequest, ResourceRequirements,
};

/// What a context is made of: a device's memory, and what else its driver is asked.
pub trait ContextDevice: Send + Sync {
    /// The device, as far as memory goes.
    type Memory: DeviceMemory;

    /// The device, as far as memory goes. The same at every call.
    fn memory(&self) -> &Self::Memory;
}

impl<D: DeviceMemory> ContextDevice for D {
    type Memory = D;

    fn memory(&self) -> &D {
        self
    }
}

/// A device whose driver is not called any more once the device was said to be lost: what would take is
/// [`DeviceError::DeviceLost`], what would give back does nothing.
pub struct LossAwareDevice<D: ContextDevice> {
    device: D,
    state: DeviceState,
}

impl<D: ContextDevice> LossAwareDevice<D> {
    pub(super) const fn new(device: D, state: DeviceState) -> Self {
        Self { device, state }
    }

    /// The device.
    #[must_use]
    pub const fn device(&self) -> &D {
        &self.device
    }

    fn memory_if_live(&self) -> Option<&D::Memory> {
        (!self.state.is_lost()).then(|| self.device.memory())
    }

    fn live_memory(&self) -> Result<&D::Memory, DeviceError> {
        self.memory_if_live().ok_or(DeviceError::DeviceLost)
    }
}

// SAFETY: what the device answers is passed on, the same one's at every call as `Contexts::acquire` was promised; what is answered in its
// place takes and gives nothing.
unsafe impl<D: ContextDevice> DeviceMemory for LossAwareDevice<D> {
    fn properties(&self) -> DeviceProperties<'_> {
        self.device.memory().properties()
    }
    unsafe fn allocate(&self, request: &MemoryRequest) -> Result<MemoryHandle, DeviceError> {
        // SAFETY: forwarded, here and below.
        unsafe { self.live_memory()?.allocate(request) }
    }
    unsafe fn free(&self, memory: MemoryHandle) {
        if let Some(device) = self.memory_if_live() {
            // SAFETY: forwarded.
            unsafe { device.free(memory) }
        }
    }
    unsafe fn map(
        &self,
        memory: MemoryHandle,
        offset: u64,
        size: u64,
    ) -> Result<NonNull<u8>, DeviceError> {
        // SAFETY: forwarded.
        unsafe { self.live_memory()?.map(memory, offset, size) }
    }
    unsafe fn unmap(&self, memory: MemoryHandle) {
        if let Some(device) = self.memory_if_live() {
            // SAFETY: forwarded.
            unsafe { device.unmap(memory) }
        }
    }
    unsafe fn flush(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        // SAFETY: forwarded.
        unsafe { self.live_memory()?.flush(ranges) }
    }
    unsafe fn invalidate(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
        // SAFETY: forwarded.
        unsafe { self.live_memory()?.invalidate(ranges) }
    }
    unsafe fn create_buffer(&self, info: &BufferInfo) -> Result<BufferHandle, DeviceError> {
        // SAFETY: forwarded.
        unsafe { self.live_memory()?.create_buffer(info) }
    }
    unsafe fn destroy_buffer(&self, buffer: BufferHandle) {
        if let Some(device) = self.memory_if_live() {
            // SAFETY: forwarded.
            unsafe { device.destroy_buffer(buffer) }
        }
    }
    unsafe fn buffer_requirements(&self, buffer: BufferHandle) -> ResourceRequirements {
        // Asked of a buffer that was just made: where the device was lost in between, what cannot be bound needs nothing.
        // SAFETY: forwarded.
        self.memory_if_live()
            .map_or(ResourceRequirements::new(1, 1), |device| unsafe {
                device.buffer_requirements(buffer)
            })
    }
    unsafe fn bind_buffer(
        &self,
        buffer: BufferHandle,
        memory: MemoryHandle,
        offset: u64,
    ) -> Result<(), DeviceError> {
        // SAFETY: forwarded.
        unsafe { self.live_memory()?.bind_buffer(buffer, memory, offset) }
    }
    unsafe fn create_image(&self, info: &ImageInfo) -> Result<ImageHandle, DeviceError> {
        // SAFETY: forwarded.
        unsafe { self.live_memory()?.create_image(info) }
    }
    unsafe fn destroy_image(&self, image: ImageHandle) {
        if let Some(device) = self.memory_if_live() {
            // SAFETY: forwarded.
            unsafe { device.destroy_image(image) }
        }
    }
    unsafe fn image_requirements(&self, image: ImageHandle) -> ResourceRequirements {
        // SAFETY: forwarded; as for buffers.
        self.memory_if_live()
            .map_or(ResourceRequirements::new(1, 1), |device| unsafe {
                device.image_requirements(image)
            })
    }
    unsafe fn bind_image(
        &self,
        image: ImageHandle,
        memory: MemoryHandle,
        offset: u64,
    ) -> Result<(), DeviceError> {
        // SAFETY: forwarded.
        unsafe { self.live_memory()?.bind_image(image, memory, offset) }
    }
    unsafe fn buffer_address(&self, buffer: BufferHandle) -> Option<NonZeroU64> {
        // SAFETY: forwarded.
        unsafe { self.memory_if_live()?.buffer_address(buffer) }
    }
    fn budget(&self, heaps: &mut [HeapBudget]) -> bool {
        self.memory_if_live()
            .is_some_and(|device| device.budget(heaps))
    }
}
