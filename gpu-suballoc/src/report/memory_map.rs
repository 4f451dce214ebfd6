//! The memory map: blocks, ranges, crops and names.

#![forbid(unsafe_code)]

use crate::id::{RegionId, RegionPlace};
use alloc_core::{HostAllocator, HostError, Scope, Scoped, TryVec};

/// All device memory of an allocator at one moment, copied by [`GpuAllocator::memory_map`](crate::GpuAllocator::memory_map).
///
/// Each block is copied within one lock of its pool, so its ranges are consistent; pools are copied one after the other. Reading the map
/// locks nothing.
pub struct MemoryMap<'a> {
    pub(super) blocks: MapList<'a, BlockView>,
    pub(super) ranges: MapList<'a, RangeView>,
    pub(super) crops: MapList<'a, RangeView>,
    pub(super) names: TryVec<u8, Memory<'a>>,
}

/// The allocator's host memory.
type Memory<'a> = Scoped<&'a dyn HostAllocator>;

/// A list that is filled under a lock, so that it must not allocate: what has no room is counted.
pub(super) struct MapList<'a, T> {
    pub(super) items: TryVec<T, Memory<'a>>,
    missing: usize,
}

impl<T> MapList<'_, T> {
    pub(super) fn put(&mut self, item: T) {
        let has_room = self.items.len() < self.items.capacity();
        if !(has_room && self.items.try_push(item).is_ok()) {
            self.missing += 1;
        }
    }

    /// Empties it, with room for what it held, what was missing, and `more`.
    fn grow(&mut self, more: usize) -> Result<(), HostError> {
        let room = self.items.len().saturating_add(self.missing);
        self.missing = 0;
        self.items.clear();
        self.items.try_reserve_exact(room.saturating_add(more))
    }
}

impl<'a> MemoryMap<'a> {
    pub(super) fn new_in(host: &'a dyn HostAllocator) -> Self {
        let memory = Scoped::new(host, Scope::Object);
        Self {
            blocks: MapList {
                items: TryVec::new_in(memory),
                missing: 0,
            },
            ranges: MapList {
                items: TryVec::new_in(memory),
                missing: 0,
            },
            crops: MapList {
                items: TryVec::new_in(memory),
                missing: 0,
            },
            names: TryVec::new_in(memory),
        }
    }
}

impl MemoryMap<'_> {
    /// The blocks, pool by pool; wrapped buffers last.
    #[must_use]
    pub fn blocks(&self) -> &[BlockView] {
        &self.blocks.items
    }

    /// Each block with its ranges, in order of offset: they tile it.
    pub fn blocks_with_ranges(&self) -> impl Iterator<Item = (&BlockView, &[RangeView])> {
        self.blocks().iter().map(|block| {
            let (first, count) = (block.ranges.0 as usize, block.ranges.1 as usize);
            let ranges = self.ranges.items.get(first..first.saturating_add(count));
            (block, ranges.unwrap_or_default())
        })
    }

    /// All crops.
    #[must_use]
    pub fn crops(&self) -> &[RangeView] {
        &self.crops.items
    }

    /// The crops of one region.
    pub fn crops_of(&self, root: RegionId) -> impl Iterator<Item = &RangeView> {
        self.crops()
            .iter()
            .filter(move |crop| crop.root == Some(root))
    }

    /// The name of a region or crop, if it has one.
    #[must_use]
    pub fn name(&self, range: &RangeView) -> Option<&str> {
        let (first, count) = (range.name.0 as usize, range.name.1 as usize);
        let bytes = self.names.get(first..first.saturating_add(count))?;
        core::str::from_utf8(bytes)
            .ok()
            .filter(|name| !name.is_empty())
    }

    /// Whether everything that was put had room.
    pub(super) fn is_whole(&self) -> bool {
        self.blocks.missing + self.ranges.missing + self.crops.missing == 0
    }

    /// Empties it, with room for all that was put, and `more` of each kind.
    pub(super) fn grow(&mut self, more: usize) -> Result<(), HostError> {
        self.blocks.grow(more)?;
        self.ranges.grow(more)?;
        self.crops.grow(more)
    }

    /// Appends a block, whose ranges follow.
    pub(super) fn put_block(&mut self, block: BlockView) {
        let ranges = (self.ranges.items.len() as u32, 0);
        self.blocks.put(BlockView { ranges, ..block });
    }

    /// Appends a range of the last block.
    pub(super) fn put_range(&mut self, range: RangeView) {
        self.ranges.put(range);
        if let Some(block) = self.blocks.items.last_mut() {
            block.ranges.1 += 1;
        }
    }

    /// Appends a name. Allocates.
    pub(super) fn put_name(&mut self, name: &str) -> Result<(u32, u32), HostError> {
        let first = self.names.len();
        self.names.try_extend_from_slice(name.as_bytes())?;
        Ok((first as u32, name.len() as u32))
    }
}

// The values of a memory map: all device memory at one moment.
//
// ```text
//  block 0   |region|pad|  free   |region        |pad|spent|free      |     ranges: they tile the block, in order of offset
//                |..crop..|                                                 crops: parts of a region, beside the ranges
//  block 1   |wrapped, the application's own                          |
// ```

pub use crate::region::RangePlacement;

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockContent {
    /// Buffers and linear images.
    Linear,
    /// Optimally tiled images.
    Optimal,
    /// Both: the device does not require to keep them apart (`bufferImageGranularity`), or the content is not known.
    Mixed,
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
    /// Free, but not for any request: in the range of a linear pool, or less than a granule at a block's end.
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
    /// A range without a region.
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
