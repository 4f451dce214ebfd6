//! Pointers at devices are devices.

use core::num::NonZeroU64;
use core::ptr::NonNull;

use super::{
    BufferHandle, BufferInfo, DeviceError, DeviceMemory, DeviceProperties, HeapBudget, ImageHandle,
    ImageInfo, MappedRange, MemoryHandle, MemoryRequest, ResourceRequirements,
};

// Not for all of `Deref`: two calls of it may give two devices, and the trait promises one.
macro_rules! forward_device_memory {
    ($($pointer:ty),+) => {
        $(
        // SAFETY: every method is the pointee's own, which is the same at every call.
        unsafe impl<D: DeviceMemory + ?Sized> DeviceMemory for $pointer {
            fn properties(&self) -> DeviceProperties<'_> {
                (**self).properties()
            }
            unsafe fn allocate(&self, request: &MemoryRequest) -> Result<MemoryHandle, DeviceError> {
                // SAFETY: forwarded.
                unsafe { (**self).allocate(request) }
            }
            unsafe fn free(&self, memory: MemoryHandle) {
                // SAFETY: forwarded.
                unsafe { (**self).free(memory) }
            }
            unsafe fn map(
                &self,
                memory: MemoryHandle,
                offset: u64,
                size: u64,
            ) -> Result<NonNull<u8>, DeviceError> {
                // SAFETY: forwarded.
                unsafe { (**self).map(memory, offset, size) }
            }
            unsafe fn unmap(&self, memory: MemoryHandle) {
                // SAFETY: forwarded.
                unsafe { (**self).unmap(memory) }
            }
            unsafe fn flush(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
                // SAFETY: forwarded.
                unsafe { (**self).flush(ranges) }
            }
            unsafe fn invalidate(&self, ranges: &[MappedRange]) -> Result<(), DeviceError> {
                // SAFETY: forwarded.
                unsafe { (**self).invalidate(ranges) }
            }
            unsafe fn create_buffer(&self, info: &BufferInfo) -> Result<BufferHandle, DeviceError> {
                // SAFETY: forwarded.
                unsafe { (**self).create_buffer(info) }
            }
            unsafe fn destroy_buffer(&self, buffer: BufferHandle) {
                // SAFETY: forwarded.
                unsafe { (**self).destroy_buffer(buffer) }
            }
            unsafe fn buffer_requirements(&self, buffer: BufferHandle) -> ResourceRequirements {
                // SAFETY: forwarded.
                unsafe { (**self).buffer_requirements(buffer) }
            }
            unsafe fn bind_buffer(
                &self,
                buffer: BufferHandle,
                memory: MemoryHandle,
                offset: u64,
            ) -> Result<(), DeviceError> {
                // SAFETY: forwarded.
                unsafe { (**self).bind_buffer(buffer, memory, offset) }
            }
            unsafe fn create_image(&self, info: &ImageInfo) -> Result<ImageHandle, DeviceError> {
                // SAFETY: forwarded.
                unsafe { (**self).create_image(info) }
            }
            unsafe fn destroy_image(&self, image: ImageHandle) {
                // SAFETY: forwarded.
                unsafe { (**self).destroy_image(image) }
            }
            unsafe fn image_requirements(&self, image: ImageHandle) -> ResourceRequirements {
                // SAFETY: forwarded.
                unsafe { (**self).image_requirements(image) }
            }
            unsafe fn bind_image(
                &self,
                image: ImageHandle,
                memory: MemoryHandle,
                offset: u64,
            ) -> Result<(), DeviceError> {
                // SAFETY: forwarded.
                unsafe { (**self).bind_image(image, memory, offset) }
            }
            unsafe fn buffer_address(&self, buffer: BufferHandle) -> Option<NonZeroU64> {
                // SAFETY: forwarded.
                unsafe { (**self).buffer_address(buffer) }
            }
            fn budget(&self, heaps: &mut [HeapBudget]) -> bool {
                (**self).budget(heaps)
            }
        }
        )+
    };
}

forward_device_memory!(&D);

#[cfg(feature = "std")]
mod owning_pointers {
    #![expect(
        clippy::disallowed_types,
        reason = "named here, and made by whoever has a device: nothing is allocated"
    )]

    use super::*;

    forward_device_memory!(std::boxed::Box<D>, std::sync::Arc<D>);
}
