//! Forwarding of all calls to another device: for pointers at a device, and for a device that may be lost.

use super::*;

/// Implements [`DeviceMemory`] for a type. `$live` is the device, or `None` after its loss: then allocating and creating are
/// [`DeviceError::DeviceLost`], and freeing and destroying do nothing.
macro_rules! forward_device_memory {
    ([$($bounds:tt)*] $type:ty, $this:ident => $device:expr, $live:expr) => {
        // SAFETY: every method is that of one device, which is the same at every call, or calls nothing and allocates nothing.
        unsafe impl<$($bounds)*> DeviceMemory for $type {
            fn properties(&$this) -> DeviceProperties<'_> {
                $device.properties()
            }
            unsafe fn allocate(&$this, request: &MemoryRequest) -> Result<MemoryHandle, DeviceError> {
                // SAFETY: the caller's promise, here and below.
                unsafe { $live.ok_or(DeviceError::DeviceLost)?.allocate(request) }
            }
            unsafe fn free(&$this, memory: MemoryHandle) {
                if let Some(device) = $live {
                    // SAFETY: as above.
                    unsafe { device.free(memory) }
                }
            }
            unsafe fn map(
                &$this,
                memory: MemoryHandle,
                offset: u64,
                size: u64,
            ) -> Result<NonNull<u8>, DeviceError> {
                // SAFETY: as above.
                unsafe { $live.ok_or(DeviceError::DeviceLost)?.map(memory, offset, size) }
            }
            unsafe fn unmap(&$this, memory: MemoryHandle) {
                if let Some(device) = $live {
                    // SAFETY: as above.
                    unsafe { device.unmap(memory) }
                }
            }
            unsafe fn flush(&$this, ranges: &[MappedRange]) -> Result<(), DeviceError> {
                // SAFETY: as above.
                unsafe { $live.ok_or(DeviceError::DeviceLost)?.flush(ranges) }
            }
            unsafe fn invalidate(&$this, ranges: &[MappedRange]) -> Result<(), DeviceError> {
                // SAFETY: as above.
                unsafe { $live.ok_or(DeviceError::DeviceLost)?.invalidate(ranges) }
            }
            unsafe fn create_buffer(&$this, info: &BufferInfo) -> Result<BufferHandle, DeviceError> {
                // SAFETY: as above.
                unsafe { $live.ok_or(DeviceError::DeviceLost)?.create_buffer(info) }
            }
            unsafe fn destroy_buffer(&$this, buffer: BufferHandle) {
                if let Some(device) = $live {
                    // SAFETY: as above.
                    unsafe { device.destroy_buffer(buffer) }
                }
            }
            unsafe fn buffer_requirements(&$this, buffer: BufferHandle) -> ResourceRequirements {
                // A resource whose device was lost since its creation cannot be bound.
                $live.map_or(ResourceRequirements::new(1, 1), |device| {
                    // SAFETY: as above.
                    unsafe { device.buffer_requirements(buffer) }
                })
            }
            unsafe fn bind_buffer(
                &$this,
                buffer: BufferHandle,
                memory: MemoryHandle,
                offset: u64,
            ) -> Result<(), DeviceError> {
                // SAFETY: as above.
                unsafe { $live.ok_or(DeviceError::DeviceLost)?.bind_buffer(buffer, memory, offset) }
            }
            unsafe fn create_image(&$this, info: &ImageInfo) -> Result<ImageHandle, DeviceError> {
                // SAFETY: as above.
                unsafe { $live.ok_or(DeviceError::DeviceLost)?.create_image(info) }
            }
            unsafe fn destroy_image(&$this, image: ImageHandle) {
                if let Some(device) = $live {
                    // SAFETY: as above.
                    unsafe { device.destroy_image(image) }
                }
            }
            unsafe fn image_requirements(&$this, image: ImageHandle) -> ResourceRequirements {
                $live.map_or(ResourceRequirements::new(1, 1), |device| {
                    // SAFETY: as above.
                    unsafe { device.image_requirements(image) }
                })
            }
            unsafe fn bind_image(
                &$this,
                image: ImageHandle,
                memory: MemoryHandle,
                offset: u64,
            ) -> Result<(), DeviceError> {
                // SAFETY: as above.
                unsafe { $live.ok_or(DeviceError::DeviceLost)?.bind_image(image, memory, offset) }
            }
            unsafe fn buffer_address(&$this, buffer: BufferHandle) -> Option<NonZeroU64> {
                // SAFETY: as above.
                unsafe { $live?.buffer_address(buffer) }
            }
            fn budget(&$this, heaps: &mut [HeapBudget]) -> bool {
                $live.is_some_and(|device| device.budget(heaps))
            }
        }
    };
}
pub(crate) use forward_device_memory;

// Not for all of `Deref`: two calls of it may return two devices, and the trait promises one.
forward_device_memory!([D: DeviceMemory + ?Sized] &D, self => (**self), Some(&**self));

#[cfg(feature = "std")]
mod owning_pointers {
    #![expect(
        clippy::disallowed_types,
        reason = "the types are only named: nothing is allocated"
    )]

    use super::*;

    forward_device_memory!([D: DeviceMemory + ?Sized] std::boxed::Box<D>, self => (**self), Some(&**self));
    forward_device_memory!([D: DeviceMemory + ?Sized] std::sync::Arc<D>, self => (**self), Some(&**self));
}
