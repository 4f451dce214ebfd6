//! A picture of all device memory at one moment, as plain values.
//!
//! ```text
//!  block 0   |region|pad|  free   |region        |pad|spent|free      |     ranges: they tile the block, in order of offset
//!                |..crop..|                                                 crops: parts of a region, beside the ranges
//!  block 1   |wrapped, the application's own                          |
//! ```

#![forbid(unsafe_code)]

use crate::id::RegionId;

/// What a block is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockContent {
    /// Buffers and linear images.
    Linear,
    /// Optimally tiled images.
    Optimal,
    /// Both: the device does not ask to keep them apart (`bufferImageGranularity`), or nobody knows what the regions hold.
    Mixed,
    /// One region, which the memory was made for.
    Dedicated,
    /// A buffer or an image of the application's, which was wrapped. No memory of the allocator's.
    Wrapped,
}

/// One `VkDeviceMemory`, or one wrapped resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockView {
    /// The pool's number; 0 for wrapped ones.
    pub pool: u32,
    /// The block's number within its pool.
    pub block: u32,
    /// Whether the pool is one of the user's.
    pub is_custom: bool,
    /// The `VkDeviceMemory`; 0 for what is wrapped.
    pub memory: u64,
    /// Its memory type; `None` for what is wrapped.
    pub memory_type: Option<u32>,
    /// What it is there for.
    pub content: BlockContent,
    /// Bytes.
    pub size: u64,
    /// How often it is mapped by regions: 0 where it is not, or where it only stays mapped.
    pub maps: u32,
    /// The first of its ranges, and how many there are.
    pub(crate) ranges: (u32, u32),
}

/// What a range of a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RangeUse {
    /// Nobody's.
    Free,
    /// Nobody's, and not to be had for just anything: in a slab, in a transient page, or less than a granule at a block's end.
    Spent,
    /// Nobody's, but kept with its buffer for the next request that it fits exactly.
    Reusable,
    /// A region.
    Region,
}

/// How a region was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RangePlacement {
    /// In the block's free space.
    General,
    /// In a transient page.
    Transient,
    /// In a slab of regions of one size.
    Slab,
    /// At the end of a stack or ring.
    Linear,
    /// In memory of its own.
    Dedicated,
    /// It is the application's.
    Wrapped,
}

/// What lies in a region, in the words of [`vkBindBufferMemory`] and `VkImageTiling`.
///
/// [`vkBindBufferMemory`]: https://registry.khronos.org/vulkan/specs/latest/man/html/vkBindBufferMemory.html
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionResource {
    /// Nobody said.
    #[default]
    Unknown,
    /// A buffer.
    Buffer,
    /// An image of linear tiling.
    ImageLinear,
    /// An image of optimal tiling.
    ImageOptimal,
}

/// A range of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeView {
    /// Where it begins, in bytes from the block's start.
    pub offset: u64,
    /// Bytes, padding included.
    pub size: u64,
    /// Of those, at the end: what rounding added and nobody asked for.
    pub padding: u64,
    /// What it is.
    pub range_use: RangeUse,
    /// How it was placed; of one that is nobody's, what it lies in.
    pub placement: RangePlacement,
    /// What lies in it.
    pub resource: RegionResource,
    /// The region, where it is one.
    pub id: Option<RegionId>,
    /// The alignment that it needs, in bytes; 0 where that is not known.
    pub alignment: u64,
    /// The `Vk..UsageFlags` it was made with; 0 where nobody said.
    pub usage: u64,
    /// The user's word.
    pub tag: u64,
    /// Where it was taken, as the user's request said; 0 where it did not.
    pub site: u64,
    /// Living crops of it.
    pub crops: u32,
    /// How often the region is mapped.
    pub maps: u32,
    /// Its name's bytes in the picture.
    pub(crate) name: (u32, u32),
    /// Its record's number, until that was read.
    pub(crate) user_data: u32,
}

impl RangeView {
    /// A range that is nobody's.
    pub(crate) const fn unowned(
        offset: u64,
        size: u64,
        what: RangeUse,
        placement: RangePlacement,
    ) -> Self {
        Self {
            offset,
            size,
            padding: 0,
            range_use: what,
            placement,
            resource: RegionResource::Unknown,
            id: None,
            alignment: 0,
            usage: 0,
            tag: 0,
            site: 0,
            crops: 0,
            maps: 0,
            name: (0, 0),
            user_data: u32::MAX,
        }
    }
}

/// A crop: a part of a region, which lies in the region's root whatever it was cropped from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CropView {
    /// The crop.
    pub id: RegionId,
    /// The region that it is a part of: never a crop itself.
    pub root: RegionId,
    /// Where it begins, in bytes from the root's start.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// The user's word.
    pub tag: u64,
    /// Where it was taken; 0 where the request did not say.
    pub site: u64,
    pub(crate) name: (u32, u32),
}
