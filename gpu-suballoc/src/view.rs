//! ```text
//!  block 0   |region|pad|  free   |region        |pad|spent|free      |     ranges: they tile the block, in order of offset
//!                |..crop..|                                                 crops: parts of a region, beside the ranges
//!  block 1   |wrapped, the application's own                          |
//! ```

#![forbid(unsafe_code)]

use crate::id::{RegionId, RegionPlace};
use crate::region::RangePlacement;

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockContent {
    /// Regions of all kinds.
    Shared,
    /// One region, which the memory was allocated for.
    Dedicated,
    /// A wrapped buffer of the application.
    Wrapped,
}

/// One `VkDeviceMemory`, or one wrapped resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockView {
    /// The pool's number; 0 for wrapped ones.
    pub pool: u32,
    /// The block's number within its pool.
    pub block: u32,
    /// Whether the pool is a custom pool.
    pub is_custom: bool,
    /// The `VkDeviceMemory`; 0 for wrapped ones.
    pub memory: u64,
    /// Its memory type; `None` for wrapped ones.
    pub memory_type: Option<u32>,
    /// Its content.
    pub content: BlockContent,
    /// Bytes.
    pub size: u64,
    /// How often regions map it; 0 also if it only stays mapped.
    pub maps: u32,
    /// The first of its ranges, and how many there are.
    pub(crate) ranges: (u32, u32),
}

/// The use of a range of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RangeUse {
    /// Free.
    Free,
    /// Free, but not for any request: beside the regions of a stack or a ring, or less than a granule at a block's end.
    Spent,
    /// In the reuse cache, with its buffer.
    Reusable,
    /// A region, a wrapped buffer or a crop.
    Region,
}

/// The resource in a region, in the terms of [`vkBindBufferMemory`] and `VkImageTiling`.
///
/// [`vkBindBufferMemory`]: https://registry.khronos.org/vulkan/specs/latest/man/html/vkBindBufferMemory.html
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionResource {
    /// Not known.
    #[default]
    Unknown,
    /// A buffer.
    Buffer,
    /// An image of linear tiling.
    ImageLinear,
    /// An image of optimal tiling.
    ImageOptimal,
}

/// A range of a block, or a crop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeView {
    /// Its start, in bytes from the block's start; of a crop from the start of its root.
    pub offset: u64,
    /// Bytes, padding included.
    pub size: u64,
    /// Bytes at the end that rounding added.
    pub padding: u64,
    /// Its use.
    pub range_use: RangeUse,
    /// How it was placed; for a free range, the structure that it is in.
    pub placement: RangePlacement,
    /// The resource in it.
    pub resource: RegionResource,
    /// The region, if it is one.
    pub id: Option<RegionId>,
    /// The root of a crop.
    pub root: Option<RegionId>,
    /// The required alignment in bytes; 0 if it is not known.
    pub alignment: u64,
    /// The `Vk..UsageFlags` of its resource; 0 if they are not known.
    pub usage: u64,
    /// The user's tag.
    pub tag: u64,
    /// The call site of the request, or 0.
    pub site: u64,
    /// Living crops of it.
    pub crops: u32,
    /// How often the region is mapped.
    pub maps: u32,
    /// The place of its name in the map.
    pub(crate) name: (u32, u32),
    /// The place of a region, until its slot was read.
    pub(crate) at: Option<RegionPlace>,
}

impl RangeView {
    pub(crate) const fn unowned(offset: u64, size: u64, what: RangeUse, placement: RangePlacement) -> Self {
        Self {
            offset,
            size,
            padding: 0,
            range_use: what,
            placement,
            resource: RegionResource::Unknown,
            id: None,
            root: None,
            alignment: 0,
            usage: 0,
            tag: 0,
            site: 0,
            crops: 0,
            maps: 0,
            name: (0, 0),
            at: None,
        }
    }
}

/// Counts and bytes of a pool, a memory type, a heap, or all. Exact whenever no thread is inside a call.
///
/// ```text
///  block_bytes = region_bytes               + free_bytes()        a block is one VkDeviceMemory
///                in granules of shared      holes
///                blocks
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryTotals {
    /// `VkDeviceMemory` objects, dedicated ones among them.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Of these, bytes of blocks without a region.
    pub empty_bytes: u64,
    /// Upper bound of the holes of shared blocks: exact below 64 granules, otherwise up to 1/32 too high. Blocks that a
    /// defragmentation empties, and those of stacks and rings with regions do not count.
    pub largest_free_bound: u64,
    /// Of the blocks, those for one region (`VK_KHR_dedicated_allocation`, or a large one).
    pub dedicated: u64,
    /// Owned regions, [kept](crate::GpuAllocator::release) buffers included.
    pub regions: u64,
    /// The requested bytes, in shared blocks rounded up to whole granules.
    pub region_bytes: u64,
    /// Wrapped buffers of the application, in none of the bytes above.
    pub wrapped: u64,
    /// Their bytes.
    pub wrapped_bytes: u64,
    /// Places that are reserved for regions which a [pass](crate::allocator::DefragmentationPass) moves.
    pub moving: u64,
    /// Their bytes, in no region yet.
    pub moving_bytes: u64,
    /// Live crops; their bytes are those of their roots.
    pub crops: u64,
}

impl MemoryTotals {
    /// Bytes of blocks in no region.
    #[must_use]
    pub const fn free_bytes(&self) -> u64 {
        self.block_bytes.saturating_sub(self.region_bytes)
    }

    /// Free bytes of blocks with regions, which a defragmentation can gather.
    #[must_use]
    pub const fn free_bytes_in_use(&self) -> u64 {
        self.free_bytes().saturating_sub(self.empty_bytes)
    }

    /// Bytes of blocks for each hundred bytes of regions, rounded up; `None` without a region.
    #[must_use]
    pub const fn reserved_percent(&self) -> Option<u64> {
        let (reserved, live) = (self.block_bytes as u128 * 100, self.region_bytes as u128);
        if live == 0 {
            return None;
        }
        let percent = reserved.div_ceil(live);
        Some(if percent > u64::MAX as u128 { u64::MAX } else { percent as u64 })
    }

    pub(crate) fn add(&mut self, pool: &Self) {
        self.blocks += pool.blocks;
        self.block_bytes += pool.block_bytes;
        self.empty_bytes += pool.empty_bytes;
        self.largest_free_bound = self.largest_free_bound.max(pool.largest_free_bound);
        self.dedicated += pool.dedicated;
        self.regions += pool.regions;
        self.region_bytes += pool.region_bytes;
        self.moving += pool.moving;
        self.moving_bytes += pool.moving_bytes;
    }
}
