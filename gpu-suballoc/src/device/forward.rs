/// Without `$live` a call of the first list is [`DeviceError::DeviceLost`](crate::device::DeviceError::DeviceLost).
macro_rules! forward_calls {
    (
        $this:ident, $live:expr;
        calls { $($call:ident($($name:ident: $type:ty),*) -> $ok:ty;)* }
        ends { $($end:ident($handle:ident: $of:ty);)* }
    ) => {
        $(
            unsafe fn $call(&$this, $($name: $type),*) -> Result<$ok, DeviceError> {
                // SAFETY: the call reaches the device that its contract is about.
                unsafe { $live.ok_or(DeviceError::DeviceLost)?.$call($($name),*) }
            }
        )*
        $(
            unsafe fn $end(&$this, $handle: $of) {
                if let Some(device) = $live {
                    // SAFETY: the call reaches the device that its contract is about.
                    unsafe { device.$end($handle) }
                }
            }
        )*
    };
}
pub(crate) use forward_calls;

/// `$live` is the device, or `None` after its loss.
macro_rules! forward_device_memory {
    ([$($bounds:tt)*] $type:ty, $this:ident => $device:expr, $live:expr) => {
        const _: () = {
            use $crate::device::*;
            use core::num::NonZeroU64;
            use core::ptr::NonNull;

        // SAFETY: every method is that of one device, the same at every call, or calls nothing.
        unsafe impl<$($bounds)*> DeviceMemory for $type {
            $crate::device::forward_calls! {
                $this, $live;
                calls {
                    allocate(request: &MemoryRequest) -> MemoryHandle;
                    map(memory: MemoryHandle, offset: u64, size: u64) -> NonNull<u8>;
                    flush(ranges: &[MappedRange]) -> ();
                    invalidate(ranges: &[MappedRange]) -> ();
                    create_buffer(info: &BufferInfo) -> BufferHandle;
                    bind_buffer(buffer: BufferHandle, memory: MemoryHandle, offset: u64) -> ();
                    create_image(info: &ImageInfo) -> ImageHandle;
                    bind_image(image: ImageHandle, memory: MemoryHandle, offset: u64) -> ();
                }
                ends {
                    free(memory: MemoryHandle);
                    unmap(memory: MemoryHandle);
                    destroy_buffer(buffer: BufferHandle);
                    destroy_image(image: ImageHandle);
                }
            }
            fn properties(&$this) -> DeviceProperties<'_> {
                $device.properties()
            }
            // A resource whose device was lost since its creation cannot be bound.
            unsafe fn buffer_requirements(&$this, buffer: BufferHandle) -> ResourceRequirements {
                $live.map_or(ResourceRequirements::new(1, 1), |device| {
                    // SAFETY: the buffer is this device's.
                    unsafe { device.buffer_requirements(buffer) }
                })
            }
            unsafe fn image_requirements(&$this, image: ImageHandle) -> ResourceRequirements {
                $live.map_or(ResourceRequirements::new(1, 1), |device| {
                    // SAFETY: the image is this device's.
                    unsafe { device.image_requirements(image) }
                })
            }
            unsafe fn buffer_address(&$this, buffer: BufferHandle) -> Option<NonZeroU64> {
                // SAFETY: the buffer is this device's and has an address.
                unsafe { $live?.buffer_address(buffer) }
            }
            unsafe fn commitment(&$this, memory: MemoryHandle) -> Option<u64> {
                // SAFETY: the memory is this device's and lazily allocated.
                unsafe { $live?.commitment(memory) }
            }
            fn budget(&$this, heaps: &mut [HeapBudget]) -> bool {
                $live.is_some_and(|device| device.budget(heaps))
            }
            fn clock(&$this) -> Option<core::time::Duration> {
                $live?.clock()
            }
        }
        };
    };
}
#[cfg(feature = "cache")]
pub(crate) use forward_device_memory;

// Not for all of `Deref`: two calls of it may return two devices.
forward_device_memory!([D: DeviceMemory + ?Sized] &D, self => (**self), Some(&**self));

#[cfg(feature = "std")]
mod owning_pointers {
    #![expect(clippy::disallowed_types, reason = "the types are only named: nothing is allocated")]

    forward_device_memory!([D: DeviceMemory + ?Sized] std::boxed::Box<D>, self => (**self), Some(&**self));
    forward_device_memory!([D: DeviceMemory + ?Sized] std::sync::Arc<D>, self => (**self), Some(&**self));
}
