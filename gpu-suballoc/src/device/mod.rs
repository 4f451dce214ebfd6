//! What the sub-allocator asks of a Vulkan device, and in what words.
//!
//! ```text
//!   pools, facade ---> DeviceMemory <--- ash::AshDevice   a real device (feature `ash`)
//!                                   <--- MockDevice       six profiles, failures, a log (feature `testing`)
//! ```

mod error;
mod forward;
mod handle;
#[cfg(feature = "testing")]
pub mod mock;
mod properties;
mod request;
mod resource;

pub use error::DeviceError;
pub(crate) use forward::forward_device_memory;
pub use handle::{BufferHandle, ImageHandle, MemoryHandle};
pub use properties::{
    DeviceFeatures, DeviceLimits, DeviceProperties, HeapBudget, HeapFlags, MAX_MEMORY_HEAPS,
    MemoryHeap,
};
pub use request::{ExternalHandleTypes, MappedRange, MemoryRequest, NextChain, ResourceHandle};
pub use resource::{
    BufferInfo, BufferUsage, ImageInfo, ImageTiling, ImageUsage, QueueFamilies,
    ResourceRequirements,
};

use core::num::NonZeroU64;
use core::ptr::NonNull;

/// `VK_ERROR_FEATURE_NOT_PRESENT`: what a device without resources answers.
const NO_RESOURCES: DeviceError = DeviceError::Other(-8);

/// A Vulkan device, as far as memory goes.
///
/// Every method may be called from any thread. Where Vulkan demands external synchronisation (`vkMapMemory`, `vkUnmapMemory`
/// and `vkFreeMemory` of one memory object, `vkBind*Memory` and `vkDestroy*` of one resource), whoever calls provides it.
/// No method is called while a lock that guards state of this crate is held, so an implementation may call back into the
/// allocator's host memory. Vulkan specification, *Memory Allocation* / *Device Memory* and *Resource Memory Association*.
///
/// Buffers, images, device addresses and budgets have defaults, of a device that serves memory alone: creating is refused with
/// `VK_ERROR_FEATURE_NOT_PRESENT`, there is no address and no budget. Whoever overrides a `create` overrides its siblings as well.
///
/// # Safety
///
/// What an implementation gives out is what Vulkan would: a handle differs from every other live one of its kind; a mapped
/// pointer is good for the bytes that were asked for, aligned to `min_memory_map_alignment` less the offset, until the memory is
/// unmapped or freed; [`properties`](DeviceMemory::properties) never change. No method unwinds.
pub unsafe trait DeviceMemory: Send + Sync {
    /// Memory types, heaps, limits, and what was enabled. The same at every call; not for the hot path.
    fn properties(&self) -> DeviceProperties<'_>;

    /// `vkAllocateMemory`.
    ///
    /// # Errors
    /// What the driver said; nothing was taken.
    ///
    /// # Safety
    /// A resource that `request` names is live, of this device, and not bound; a chain is what [`NextChain::new`] was promised;
    /// what the request needs (priority, export, device addresses) is enabled as [`properties`](DeviceMemory::properties) says.
    unsafe fn allocate(&self, request: &MemoryRequest) -> Result<MemoryHandle, DeviceError>;

    /// `vkFreeMemory`. Memory that is mapped is unmapped by it.
    ///
    /// # Safety
    /// `memory` is live, of this device, and not used again, by the device neither; nobody else maps, unmaps or frees it now.
    unsafe fn free(&self, memory: MemoryHandle);

    /// `vkMapMemory` of `size` bytes from `offset`.
    ///
    /// # Errors
    /// What the driver said; nothing was mapped.
    ///
    /// # Safety
    /// `memory` is live, of this device and of a host-visible type, and is not mapped; `0 < size`, `offset + size` is within
    /// it; nobody else maps, unmaps or frees it now.
    unsafe fn map(
        &self,
        memory: MemoryHandle,
        offset: u64,
        size: u64,
    ) -> Result<NonNull<u8>, DeviceError>;

    /// `vkUnmapMemory`.
    ///
    /// # Safety
    /// `memory` is live, of this device, and mapped; its pointer is not used again; nobody else maps, unmaps or frees it now.
    unsafe fn unmap(&self, memory: MemoryHandle);

    /// `vkFlushMappedMemoryRanges`: what the host wrote becomes available to the device.
    ///
    /// # Errors
    /// What the driver said.
    ///
    /// # Safety
    /// Each range lies within what is mapped; offset and size are multiples of `non_coherent_atom_size`, or the range ends
    /// where the memory object does.
    unsafe fn flush(&self, ranges: &[MappedRange]) -> Result<(), DeviceError>;

    /// `vkInvalidateMappedMemoryRanges`: what the device wrote becomes visible to the host.
    ///
    /// # Errors
    /// What the driver said.
    ///
    /// # Safety
    /// As [`flush`](DeviceMemory::flush).
    unsafe fn invalidate(&self, ranges: &[MappedRange]) -> Result<(), DeviceError>;

    /// `vkCreateBuffer`.
    ///
    /// # Errors
    /// What the driver said; nothing was made.
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
    /// `buffer` is live, of this device, and not used again, by the device neither.
    unsafe fn destroy_buffer(&self, buffer: BufferHandle) {
        let _ = buffer;
    }

    /// `vkGetBufferMemoryRequirements2`, or without the 2 where the device has only that.
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
    /// What the driver said; the buffer is to be destroyed then, since it may be in any state (`vkBindBufferMemory2`).
    ///
    /// # Safety
    /// Both are live, of this device; the buffer is not bound and nobody else uses it now; type, alignment and size are what
    /// its requirements ask for, and a dedicated memory object is the buffer's own.
    unsafe fn bind_buffer(
        &self,
        buffer: BufferHandle,
        memory: MemoryHandle,
        offset: u64,
    ) -> Result<(), DeviceError> {
        let _ = (buffer, memory, offset);
        Err(NO_RESOURCES)
    }

    /// `vkCreateImage`.
    ///
    /// # Errors
    /// What the driver said; nothing was made.
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
    /// `image` is live, of this device, and not used again, by the device neither.
    unsafe fn destroy_image(&self, image: ImageHandle) {
        let _ = image;
    }

    /// `vkGetImageMemoryRequirements2`, or without the 2 where the device has only that.
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
    unsafe fn bind_image(
        &self,
        image: ImageHandle,
        memory: MemoryHandle,
        offset: u64,
    ) -> Result<(), DeviceError> {
        let _ = (image, memory, offset);
        Err(NO_RESOURCES)
    }

    /// `vkGetBufferDeviceAddress`; `None` where device addresses are not enabled.
    ///
    /// # Safety
    /// `buffer` is live, of this device, bound, and was made with `SHADER_DEVICE_ADDRESS`.
    unsafe fn buffer_address(&self, buffer: BufferHandle) -> Option<NonZeroU64> {
        let _ = buffer;
        None
    }

    /// Fills in what `VK_EXT_memory_budget` says of each heap, in order; false, and nothing written, where it is not enabled.
    fn budget(&self, heaps: &mut [HeapBudget]) -> bool {
        let _ = heaps;
        false
    }
}
