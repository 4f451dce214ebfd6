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
    pub(crate) const fn buffer(resource: Option<Self>) -> Option<BufferHandle> {
        match resource {
            Some(Self::Buffer(buffer)) => Some(buffer),
            _ => None,
        }
    }

    pub(crate) const fn image(resource: Option<Self>) -> Option<ImageHandle> {
        match resource {
            Some(Self::Image(image)) => Some(image),
            _ => None,
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
    /// A chain of structures that may follow `VkMemoryAllocateInfo` on this device, other than
    /// `VkMemoryDedicatedAllocateInfo`, `VkMemoryPriorityAllocateInfoEXT`, `VkExportMemoryAllocateInfo` and
    /// `VkMemoryAllocateFlagsInfo`, for which a request has fields. It is unchanged and readable from any thread while
    /// a request or a pool with it may allocate. An import whose handle Vulkan consumes is used once.
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

// SAFETY: a plain address; any thread may read the chain (`new`).
unsafe impl Send for NextChain {}
// SAFETY: a plain address; any thread may read the chain (`new`), which nothing writes.
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

// 64 bits on every target, never `VK_NULL_HANDLE`.

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
        assert_eq!(std::format!("{:?}", BufferHandle::from_raw(0x680_0000)), "Some(BufferHandle(0x6800000))");
    }
}

/// `VkMemoryRequirements`, with what `VkMemoryDedicatedRequirements` adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceRequirements {
    /// Bytes to bind.
    pub size: u64,
    /// Alignment of the offset; a power of two.
    pub alignment: u64,
    /// One bit for each memory type that fits.
    pub memory_type_bits: u32,
    /// A memory object of its own may be faster.
    pub prefers_dedicated: bool,
    /// It must have a memory object of its own. Implies `prefers_dedicated`.
    pub requires_dedicated: bool,
}

/// `VkBufferCreateInfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BufferInfo {
    /// Bytes, above 0.
    pub size: u64,
    /// Usage, at least one bit.
    pub usage: BufferUsage,
    /// `VkBufferCreateFlags`, without sparse bits.
    pub flags: u32,
    /// The queue families that use it at once.
    pub sharing: QueueFamilies,
    /// Handle types of external memory that it may be bound to (`VkExternalMemoryBufferCreateInfo`).
    pub external: ExternalHandleTypes,
}

impl BufferInfo {
    /// A buffer for one queue family at a time.
    #[must_use]
    pub const fn new(size: u64, usage: BufferUsage) -> Self {
        Self { size, usage, flags: 0, sharing: QueueFamilies::EXCLUSIVE, external: ExternalHandleTypes::NONE }
    }
}

/// `VkImageCreateInfo`. Numbers without a type of their own are Vulkan's (`VkFormat`, `VkImageLayout`, ..).
///
/// An image that needs structures behind its create info is created by the application, which
/// [allocates](crate::GpuAllocator::allocate) memory [for it](crate::RegionOptions::dedicated_for), and binds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImageInfo {
    /// `VkImageCreateFlags`; neither sparse nor disjoint.
    pub flags: u32,
    /// `VkImageType`: 0, 1, 2 for one, two, three dimensions.
    pub image_type: u32,
    /// `VkFormat`: of ash's, `format.as_raw() as u32`.
    pub format: u32,
    /// Width, height, depth; each above 0.
    pub extent: [u32; 3],
    /// At least 1.
    pub mip_levels: u32,
    /// At least 1.
    pub array_layers: u32,
    /// `VkSampleCountFlagBits`: 1, 2, 4, ..
    pub samples: u32,
    /// Its layout of texels.
    pub tiling: ImageTiling,
    /// Usage, at least one bit.
    pub usage: ImageUsage,
    /// `VkImageLayout`: 0 (undefined) or 8 (preinitialised).
    pub initial_layout: u32,
    /// The queue families that use it at once.
    pub sharing: QueueFamilies,
    /// Handle types of external memory that it may be bound to (`VkExternalMemoryImageCreateInfo`).
    pub external: ExternalHandleTypes,
}

impl ImageInfo {
    /// One level, one layer, one sample of a two-dimensional image in the device's own order.
    #[must_use]
    pub const fn new_2d(format: u32, width: u32, height: u32, usage: ImageUsage) -> Self {
        Self {
            flags: 0,
            image_type: 1,
            format,
            extent: [width, height, 1],
            mip_levels: 1,
            array_layers: 1,
            samples: 1,
            tiling: ImageTiling::Optimal,
            usage,
            initial_layout: 0,
            sharing: QueueFamilies::EXCLUSIVE,
            external: ExternalHandleTypes::NONE,
        }
    }
}

/// `VkImageTiling`: how texels lie in memory. Linear images share granularity pages with buffers, optimal ones do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ImageTiling {
    /// In the device's own order.
    #[default]
    Optimal = 0,
    /// Row by row.
    Linear = 1,
}

/// Queue families that use a resource at the same time (`VK_SHARING_MODE_CONCURRENT`), one bit each, or none for
/// `VK_SHARING_MODE_EXCLUSIVE`. There is no bit for families from 64 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct QueueFamilies(u64);

impl QueueFamilies {
    /// One family at a time.
    pub const EXCLUSIVE: Self = Self(0);

    /// The families whose bits are set; fewer than two are the same as [`EXCLUSIVE`](QueueFamilies::EXCLUSIVE).
    #[must_use]
    pub const fn concurrent(bits: u64) -> Self {
        if bits.count_ones() < 2 { Self::EXCLUSIVE } else { Self(bits) }
    }

    /// One bit a family; 0 for exclusive use.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

flags! {
    /// `VkBufferUsageFlags`; unknown bits are kept.
    BufferUsage(u32) {
        /// Copied from.
        TRANSFER_SRC = 0;
        /// Copied to.
        TRANSFER_DST = 1;
        /// Read through a uniform texel buffer view.
        UNIFORM_TEXEL_BUFFER = 2;
        /// Used through a storage texel buffer view.
        STORAGE_TEXEL_BUFFER = 3;
        /// Read as a uniform buffer.
        UNIFORM_BUFFER = 4;
        /// Used as a storage buffer.
        STORAGE_BUFFER = 5;
        /// Holds indices.
        INDEX_BUFFER = 6;
        /// Holds vertices.
        VERTEX_BUFFER = 7;
        /// Holds parameters of indirect commands.
        INDIRECT_BUFFER = 8;
        /// Has an address that shaders may use.
        SHADER_DEVICE_ADDRESS = 17;
    }
    /// `VkImageUsageFlags`; unknown bits are kept.
    ImageUsage(u32) {
        /// Copied from.
        TRANSFER_SRC = 0;
        /// Copied to.
        TRANSFER_DST = 1;
        /// Sampled by shaders.
        SAMPLED = 2;
        /// Loaded and stored by shaders.
        STORAGE = 3;
        /// Drawn to.
        COLOR_ATTACHMENT = 4;
        /// Depth or stencil.
        DEPTH_STENCIL_ATTACHMENT = 5;
        /// Lives on the tile alone, if memory is lazily allocated.
        TRANSIENT_ATTACHMENT = 6;
        /// Read by the fragment that wrote it.
        INPUT_ATTACHMENT = 7;
    }
}
vulkan_masks!(BufferUsage ImageUsage);
