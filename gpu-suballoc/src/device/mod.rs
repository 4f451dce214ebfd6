//! The interface of a Vulkan device to the sub-allocator.
//!
//! ```text
//!   pools, facade ---> DeviceMemory <--- ash::AshDevice   a real device (feature `ash`)
//!                                   <--- MockDevice       six profiles, failures, a log (testkit/mock-device, for tests)
//! ```

mod error;
mod forward;
mod properties;
mod request;

pub use self::request::{
    BufferHandle, BufferInfo, BufferUsage, ExternalHandleTypes, ImageHandle, ImageInfo, ImageTiling, ImageUsage,
    MappedRange, MemoryHandle, MemoryRequest, NextChain, QueueFamilies, ResourceHandle, ResourceRequirements,
};
pub use error::DeviceError;
pub(crate) use forward::forward_calls;
#[cfg(feature = "cache")]
pub(crate) use forward::forward_device_memory;
pub use properties::{
    DeviceFeatures, DeviceLimits, DeviceProperties, HeapBudget, HeapFlags, MAX_MEMORY_HEAPS, MemoryHeap,
};

use core::num::NonZeroU64;
use core::ptr::NonNull;
use core::time::Duration;

const NO_RESOURCES: DeviceError = DeviceError::Other(-8);

/// The memory of a Vulkan device.
///
/// Where Vulkan demands external synchronisation, the caller provides it. No method is called under a lock of this
/// crate, so an implementation may call the allocator.
///
/// A device with memory alone needs no other method: creating is refused with `VK_ERROR_FEATURE_NOT_PRESENT`, and there
/// is no address and no budget. An implementation with a `create` method must have its siblings. After an error nothing
/// was allocated, mapped or created.
///
/// # Safety
///
/// The results are those of Vulkan: a handle differs from every other live handle of its kind; a mapped
/// pointer is valid for the requested bytes, aligned to `min_memory_map_alignment` less the offset, until the memory is
/// unmapped or freed; [`properties`](DeviceMemory::properties) never change. No method unwinds.
pub unsafe trait DeviceMemory: Send + Sync {
    /// Memory types, heaps, limits and enabled features. The same at every call.
    fn properties(&self) -> DeviceProperties<'_>;

    /// `vkAllocateMemory`.
    ///
    /// # Safety
    /// A resource that `request` names is live, of this device, and not bound; a chain is as [`NextChain::new`]
    /// requires; what is requested beside is in [`properties`](DeviceMemory::properties).
    unsafe fn allocate(&self, request: &MemoryRequest) -> Result<MemoryHandle, DeviceError>;

    /// `vkFreeMemory`, which unmaps mapped memory.
    ///
    /// # Safety
    /// `memory` is live, of this device, and not used again by host or device. No other thread maps, unmaps or frees it
    /// during the call.
    unsafe fn free(&self, memory: MemoryHandle);

    /// `vkMapMemory` of `size` bytes from `offset`.
    ///
    /// # Safety
    /// `memory` is live, of this device and of a host-visible type, and not mapped; `0 < size`, `offset + size` is
    /// within it. No other thread maps, unmaps or frees it during the call.
    unsafe fn map(&self, memory: MemoryHandle, offset: u64, size: u64) -> Result<NonNull<u8>, DeviceError>;

    /// `vkUnmapMemory`.
    ///
    /// # Safety
    /// `memory` is live, of this device, and mapped; its pointer is not used again. No other thread maps, unmaps or
    /// frees it during the call.
    unsafe fn unmap(&self, memory: MemoryHandle);

    /// `vkFlushMappedMemoryRanges`: what the host wrote becomes available to the device.
    ///
    /// # Safety
    /// Each range lies within what is mapped; offset and size are multiples of `non_coherent_atom_size`, or the range
    /// ends where the memory object does.
    unsafe fn flush(&self, ranges: &[MappedRange]) -> Result<(), DeviceError>;

    /// `vkInvalidateMappedMemoryRanges`: what the device wrote becomes visible to the host.
    ///
    /// # Safety
    /// As [`flush`](DeviceMemory::flush).
    unsafe fn invalidate(&self, ranges: &[MappedRange]) -> Result<(), DeviceError>;

    /// `vkCreateBuffer`.
    ///
    /// # Safety
    /// `info` is valid for this device and its enabled features (`VkBufferCreateInfo`).
    unsafe fn create_buffer(&self, info: &BufferInfo) -> Result<BufferHandle, DeviceError> {
        let _ = info;
        Err(NO_RESOURCES)
    }

    /// `vkDestroyBuffer`.
    ///
    /// # Safety
    /// `buffer` is live, of this device, and not used again by host or device.
    unsafe fn destroy_buffer(&self, buffer: BufferHandle) {
        let _ = buffer;
    }

    /// `vkGetBufferMemoryRequirements2`, or `vkGetBufferMemoryRequirements` on a device without it.
    ///
    /// # Safety
    /// `buffer` is live and of this device.
    unsafe fn buffer_requirements(&self, buffer: BufferHandle) -> ResourceRequirements {
        let _ = buffer;
        ResourceRequirements::new(1, 1)
    }

    /// `vkBindBufferMemory`.
    ///
    /// # Errors
    /// The driver's error; the buffer must be destroyed then, since its state is unknown (`vkBindBufferMemory2`).
    ///
    /// # Safety
    /// Both are live, of this device; the buffer is not bound, and no other thread uses it during the call; type,
    /// alignment and size meet its requirements, and a dedicated memory object is the buffer's own.
    unsafe fn bind_buffer(&self, buffer: BufferHandle, memory: MemoryHandle, offset: u64) -> Result<(), DeviceError> {
        let _ = (buffer, memory, offset);
        Err(NO_RESOURCES)
    }

    /// `vkCreateImage`.
    ///
    /// # Safety
    /// `info` is valid for this device and its enabled features (`VkImageCreateInfo`).
    unsafe fn create_image(&self, info: &ImageInfo) -> Result<ImageHandle, DeviceError> {
        let _ = info;
        Err(NO_RESOURCES)
    }

    /// `vkDestroyImage`.
    ///
    /// # Safety
    /// `image` is live, of this device, and not used again by host or device.
    unsafe fn destroy_image(&self, image: ImageHandle) {
        let _ = image;
    }

    /// `vkGetImageMemoryRequirements2`, or `vkGetImageMemoryRequirements` on a device without it.
    ///
    /// # Safety
    /// `image` is live, of this device, and neither sparse nor disjoint.
    unsafe fn image_requirements(&self, image: ImageHandle) -> ResourceRequirements {
        let _ = image;
        ResourceRequirements::new(1, 1)
    }

    /// `vkBindImageMemory`.
    ///
    /// # Errors
    /// As [`bind_buffer`](DeviceMemory::bind_buffer).
    ///
    /// # Safety
    /// As [`bind_buffer`](DeviceMemory::bind_buffer), for an image.
    unsafe fn bind_image(&self, image: ImageHandle, memory: MemoryHandle, offset: u64) -> Result<(), DeviceError> {
        let _ = (image, memory, offset);
        Err(NO_RESOURCES)
    }

    /// `vkGetBufferDeviceAddress`; `None` if device addresses are not enabled.
    ///
    /// # Safety
    /// `buffer` is live, of this device, bound, and was created with `SHADER_DEVICE_ADDRESS`.
    unsafe fn buffer_address(&self, buffer: BufferHandle) -> Option<NonZeroU64> {
        let _ = buffer;
        None
    }

    /// `vkGetDeviceMemoryCommitment`: the bytes that the driver has backed so far; `None` if the device does not report
    /// it.
    ///
    /// # Safety
    /// `memory` is live, of this device and of a lazily allocated type.
    unsafe fn commitment(&self, memory: MemoryHandle) -> Option<u64> {
        let _ = memory;
        None
    }

    /// Writes the budget of each heap (`VK_EXT_memory_budget`). False if that is not enabled.
    fn budget(&self, heaps: &mut [HeapBudget]) -> bool {
        let _ = heaps;
        false
    }

    /// The time since some fixed moment, by which budgets grow old. `None` is std's clock, or without feature `std` no
    /// clock. It must not call the allocator.
    fn clock(&self) -> Option<Duration> {
        None
    }
}
