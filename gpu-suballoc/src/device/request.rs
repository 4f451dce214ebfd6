//! Requests of `vkAllocateMemory`, and the ranges of flushes.

use crate::flags::{flags, vulkan_masks};
use core::ffi::c_void;
use core::fmt;
use core::num::NonZeroU64;
use core::ptr::NonNull;

/// One memory object: `VkMemoryAllocateInfo` and the structures that may follow it.
#[derive(Clone, Copy, Debug)]
pub struct MemoryRequest {
    /// Bytes, above 0.
    pub size: u64,
    /// Index into [`DeviceProperties::types`](crate::device::DeviceProperties).
    pub memory_type: u32,
    /// The resource that will be bound at offset 0, alone (`VkMemoryDedicatedAllocateInfo`).
    pub dedicated: Option<ResourceHandle>,
    /// 0 (first to be moved out) to 1 (`VkMemoryPriorityAllocateInfoEXT`); Vulkan's default is 0.5.
    pub priority: Option<f32>,
    /// Handle types for its export (`VkExportMemoryAllocateInfo`).
    pub export: ExternalHandleTypes,
    /// Buffers with device addresses will be bound to it (`VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT`).
    pub device_address: bool,
    /// The caller's own structures, an import for instance, chained behind those above.
    pub next: Option<NextChain>,
}

impl MemoryRequest {
    /// `size` bytes of a memory type.
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

/// A buffer or an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceHandle {
    /// A buffer.
    Buffer(BufferHandle),
    /// An image.
    Image(ImageHandle),
}

impl ResourceHandle {
    pub(crate) const fn as_raw(self) -> u64 {
        match self {
            Self::Buffer(buffer) => buffer.as_raw(),
            Self::Image(image) => image.as_raw(),
        }
    }
}

flags! {
    /// `VkExternalMemoryHandleTypeFlags`. An object without any stays in its device.
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

/// The caller's `pNext` chain for `VkMemoryAllocateInfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct NextChain(NonNull<c_void>);

impl NextChain {
    /// From the chain's first structure.
    ///
    /// # Safety
    /// It is a chain of structures that may follow `VkMemoryAllocateInfo` on this device, other than
    /// `VkMemoryDedicatedAllocateInfo`, `VkMemoryPriorityAllocateInfoEXT`, `VkExportMemoryAllocateInfo` and
    /// `VkMemoryAllocateFlagsInfo`, for which a request has fields. It is unchanged and readable from any thread while a request
    /// or a pool with it may allocate. An import whose handle Vulkan consumes is used for one allocation only.
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

// SAFETY: a plain address; by the promise of `new` any thread may read the chain.
unsafe impl Send for NextChain {}
// SAFETY: as for `Send`; nothing is written through it.
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

// Vulkan's handles as numbers: 64 bits on every target, never `VK_NULL_HANDLE`.

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(NonZeroU64);

        impl $name {
            /// From Vulkan's number; `None` for `VK_NULL_HANDLE`.
            #[inline]
            #[must_use]
            pub const fn from_raw(raw: u64) -> Option<Self> {
                match NonZeroU64::new(raw) {
                    Some(raw) => Some(Self(raw)),
                    None => None,
                }
            }

            /// Vulkan's number, never 0.
            #[inline]
            #[must_use]
            pub const fn as_raw(self) -> u64 {
                self.0.get()
            }
        }

        // In the form of leak lists, memory maps and drivers.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:#x})", stringify!($name), self.0)
            }
        }
    )*};
}

handles! {
    /// A `VkDeviceMemory`.
    MemoryHandle;
    /// A `VkBuffer`.
    BufferHandle;
    /// A `VkImage`.
    ImageHandle;
}

#[cfg(test)]
mod handle_tests {
    use super::*;

    #[test]
    fn handles_are_written_as_leaks_write_them() {
        assert_eq!(
            std::format!("{:?}", BufferHandle::from_raw(0x680_0000)),
            "Some(BufferHandle(0x6800000))"
        );
    }
}
