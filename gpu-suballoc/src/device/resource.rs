//! Buffers and images: their create infos and memory requirements.

#![forbid(unsafe_code)]

use crate::flags::{flags, vulkan_masks};

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
    pub external: super::ExternalHandleTypes,
}

impl BufferInfo {
    /// A buffer for one queue family at a time.
    #[must_use]
    pub const fn new(size: u64, usage: BufferUsage) -> Self {
        Self {
            size,
            usage,
            flags: 0,
            sharing: QueueFamilies::EXCLUSIVE,
            external: super::ExternalHandleTypes::NONE,
        }
    }
}

/// `VkImageCreateInfo`. Numbers without a type of their own are Vulkan's (`VkFormat`, `VkImageLayout`, ..).
///
/// An image that needs structures behind its create info (a DRM format modifier, a list of formats) is created by the application,
/// which then allocates a bare region and binds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImageInfo {
    /// `VkImageCreateFlags`; neither sparse nor disjoint.
    pub flags: u32,
    /// `VkImageType`: 0, 1, 2 for one, two, three dimensions.
    pub image_type: u32,
    /// `VkFormat`.
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
    pub external: super::ExternalHandleTypes,
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
            external: super::ExternalHandleTypes::NONE,
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
        if bits.count_ones() < 2 {
            Self::EXCLUSIVE
        } else {
            Self(bits)
        }
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
