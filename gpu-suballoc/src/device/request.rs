//! What is asked of `vkAllocateMemory`, and the ranges of flushes.

use core::ffi::c_void;
use core::ptr::NonNull;

use super::handle::{BufferHandle, ImageHandle, MemoryHandle};
use crate::flags::{flags, vulkan_masks};

/// One memory object: `VkMemoryAllocateInfo` and the structures that may follow it.
#[derive(Clone, Copy, Debug)]
pub struct MemoryRequest {
    /// Bytes, above 0.
    pub size: u64,
    /// Index into [`DeviceProperties::types`](crate::device::DeviceProperties).
    pub memory_type: u32,
    /// For one resource alone (`VkMemoryDedicatedAllocateInfo`).
    pub dedicated: Option<DedicatedResource>,
    /// 0 (first to be moved out) to 1 (`VkMemoryPriorityAllocateInfoEXT`); Vulkan's default is 0.5.
    pub priority: Option<f32>,
    /// Handle types that it will be exported as (`VkExportMemoryAllocateInfo`).
    pub export: ExternalHandleTypes,
    /// Buffers with device addresses will be bound to it (`VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT`).
    pub device_address: bool,
    /// Structures of the caller's own, imports for instance, put behind the ones above.
    pub next: Option<NextChain>,
}

impl MemoryRequest {
    /// So many bytes of a type, and nothing special.
    #[must_use]
    pub const fn new(size: u64, memory_type: u32) -> Self {
        Self {
            size,
            memory_type,
            dedicated: None,
            priority: None,
            export: ExternalHandleTypes::NONE,
            device_address: false,
            next: None,
        }
    }
}

/// The one resource that a memory object is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DedicatedResource {
    /// A buffer, bound at offset 0.
    Buffer(BufferHandle),
    /// An image, bound at offset 0.
    Image(ImageHandle),
}

flags! {
    /// `VkExternalMemoryHandleTypeFlags`. With none an object stays in its device.
    ExternalHandleTypes(u32) {
        /// A POSIX file descriptor that only Vulkan and OpenGL understand.
        OPAQUE_FD = 0;
        /// An NT handle that only Vulkan and OpenGL understand.
        OPAQUE_WIN32 = 1;
        /// Memory of the host (`VK_EXT_external_memory_host`).
        HOST_ALLOCATION = 7;
        /// A Linux dma-buf.
        DMA_BUF = 9;
    }
}
vulkan_masks!(ExternalHandleTypes);

/// A `pNext` chain of the caller's for `VkMemoryAllocateInfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct NextChain(NonNull<c_void>);

impl NextChain {
    /// From the chain's first structure.
    ///
    /// # Safety
    /// It is a chain of structures that may follow `VkMemoryAllocateInfo` on this device, other than
    /// `VkMemoryDedicatedAllocateInfo`, `VkMemoryPriorityAllocateInfoEXT`, `VkExportMemoryAllocateInfo` and
    /// `VkMemoryAllocateFlagsInfo`, for which a request has fields; it stays as it is, readable from any thread, while a request
    /// or a pool that was given it may still allocate. An import whose handle Vulkan consumes is used for one allocation only.
    #[must_use]
    pub const unsafe fn new(first: NonNull<c_void>) -> Self {
        Self(first)
    }

    /// The chain's first structure.
    #[must_use]
    pub const fn as_ptr(self) -> *const c_void {
        self.0.as_ptr()
    }
}

// SAFETY: a plain address; whoever made it promised that the chain may be read from any thread.
unsafe impl Send for NextChain {}
// SAFETY: as for `Send`; nothing is changed through it.
unsafe impl Sync for NextChain {}

/// `VkMappedMemoryRange`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedRange {
    /// The mapped memory.
    pub memory: MemoryHandle,
    /// From the start of the memory object, bytes.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}
