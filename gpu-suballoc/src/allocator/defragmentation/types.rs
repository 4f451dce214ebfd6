//! Options and results of a defragmentation.

#![forbid(unsafe_code)]

use core::fmt;

use crate::device::{BufferHandle, ImageHandle, MemoryHandle};
use crate::flags::setters;
use crate::id::{PoolId, RegionId};
use crate::pool::Suballocation;
use crate::region::RegionContent;
use crate::region_metadata::MovingRoot;

/// Selects the regions that may move, and limits each pass: [`GpuAllocator::defragment`](crate::GpuAllocator::defragment).
#[doc(alias("VmaDefragmentationInfo"))]
#[derive(Clone, Copy)]
pub struct DefragmentationOptions<'f> {
    /// One custom pool only.
    pub pool: Option<PoolId>,
    /// Limits the bytes of a pass. Even beyond the limit, a pass contains at least one region.
    pub max_bytes_per_pass: u64,
    /// Limits the moves of a pass. Even beyond the limit, a pass contains at least one move.
    pub max_moves_per_pass: usize,
    /// Also moves regions of [`allocate`](crate::GpuAllocator::allocate): the user must bind a second resource at the new place. By default
    /// they stay, because the allocator does not know their resources.
    pub move_bare_regions: bool,
    /// Moves only regions for which `filter(id, tag)` is true; the tag is that of [`RegionOptions::tag`](crate::RegionOptions::tag). It
    /// is called without a lock, at least once for each region. One excluded region prevents its whole block from being drained.
    pub filter: Option<&'f (dyn Fn(RegionId, u64) -> bool + Sync)>,
}

impl<'f> DefragmentationOptions<'f> {
    /// All pools, no limits, only buffers and images that the allocator created.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            pool: None,
            max_bytes_per_pass: u64::MAX,
            max_moves_per_pass: usize::MAX,
            move_bare_regions: false,
            filter: None,
        }
    }

    setters! {
        set {
            max_bytes_per_pass: u64,
            max_moves_per_pass: usize,
        }
        some {
            pool: PoolId,
            filter: &'f (dyn Fn(RegionId, u64) -> bool + Sync),
        }
        on {
            move_bare_regions,
        }
    }
}

impl Default for DefragmentationOptions<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for DefragmentationOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefragmentationOptions")
            .field("pool", &self.pool)
            .field("max_bytes_per_pass", &self.max_bytes_per_pass)
            .field("max_moves_per_pass", &self.max_moves_per_pass)
            .field("move_bare_regions", &self.move_bare_regions)
            .finish_non_exhaustive()
    }
}

/// A place in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovePlace {
    /// The memory object.
    pub memory: MemoryHandle,
    /// Bytes from the start of the memory object.
    pub offset: u64,
}

/// The user's decision about a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveOutcome {
    /// The contents are at the new place, and the device has finished with the old place.
    Copied,
    /// The region stays.
    Ignored,
    /// The region is no longer needed and is freed. If it has crops or mappings, it stays.
    Destroyed,
}

/// The result of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveResult {
    /// The region is at the new place; the old resource was destroyed and the old place freed.
    Moved,
    /// The region is at the old place: by its outcome, because it was mapped or cropped during the pass, or because it has a resource and
    /// no second resource was created.
    Stayed,
    /// The region was freed by its outcome.
    Destroyed,
    /// The region was freed by another call during the pass.
    Freed,
}

/// The move of one region.
#[doc(alias("VmaDefragmentationMove"))]
#[derive(Clone, Copy, Debug)]
pub struct RegionMove {
    pub(super) region: RegionId,
    /// The region before the move.
    pub(super) root: MovingRoot,
    /// Where it lies before the move, and the reserved place.
    pub(super) from: Suballocation,
    pub(super) to: Suballocation,
    /// 0 until it is created.
    pub(super) new_resource: u64,
    pub(super) outcome: MoveOutcome,
    /// The index of its block in the order of draining.
    pub(super) order: usize,
}

impl RegionMove {
    /// The region's id.
    #[must_use]
    pub const fn region(&self) -> RegionId {
        self.region
    }

    /// The tag that the user set for the region.
    #[must_use]
    pub const fn tag(&self) -> u64 {
        self.root.tag
    }

    /// Bytes to copy: those of the region.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.root.asked
    }

    /// The place of the region before the move.
    #[must_use]
    pub const fn from(&self) -> MovePlace {
        place(&self.from)
    }

    /// The reserved place: of the same memory type, and aligned for the region.
    #[must_use]
    pub const fn to(&self) -> MovePlace {
        place(&self.to)
    }

    /// The buffer that is bound to the region.
    #[must_use]
    pub const fn old_buffer(&self) -> Option<BufferHandle> {
        self.buffer(self.root.resource)
    }

    /// The image that is bound to the region.
    #[must_use]
    pub const fn old_image(&self) -> Option<ImageHandle> {
        self.image(self.root.resource)
    }

    /// The buffer that [`make_buffer`](crate::allocator::DefragmentationPass::make_buffer) created.
    #[must_use]
    pub const fn new_buffer(&self) -> Option<BufferHandle> {
        self.buffer(self.new_resource)
    }

    /// The image that [`make_image`](crate::allocator::DefragmentationPass::make_image) created.
    #[must_use]
    pub const fn new_image(&self) -> Option<ImageHandle> {
        self.image(self.new_resource)
    }

    const fn buffer(&self, raw: u64) -> Option<BufferHandle> {
        match self.root.content {
            RegionContent::Buffer => BufferHandle::from_raw(raw),
            RegionContent::Bare | RegionContent::Image => None,
        }
    }

    const fn image(&self, raw: u64) -> Option<ImageHandle> {
        match self.root.content {
            RegionContent::Image => ImageHandle::from_raw(raw),
            RegionContent::Bare | RegionContent::Buffer => None,
        }
    }
}

const fn place(of: &Suballocation) -> MovePlace {
    MovePlace {
        memory: of.memory,
        offset: of.offset,
    }
}

/// Numbers of regions that prevented a block from being drained, by reason. Of each such block only the first is counted. Regions outside
/// of blocks that could be drained are all counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedRegions {
    /// Mapped regions, and mapped blocks.
    pub mapped: u32,
    /// Allocated by [`allocate`](crate::GpuAllocator::allocate): their resources are not known.
    pub bare: u32,
    /// Buffers and images without both transfer usages.
    pub no_transfer: u32,
    /// Buffers whose device address may have been queried.
    pub device_address: u32,
    /// Exported, imported, or created with a `pNext` chain of the user.
    pub external: u32,
    /// Excluded by the filter.
    pub filter: u32,
    /// Being freed, or without a stored description.
    pub busy: u32,
    /// The remaining blocks have no place for them.
    pub no_room: u32,
    /// Dedicated regions.
    pub dedicated: u32,
    /// Wrapped buffers of the application. Counted only if no single pool is selected.
    pub wrapped: u32,
    /// [Pinned](crate::RegionOptions::pinned) regions, and all other regions of their pools.
    pub pinned: u32,
    /// In linear pools.
    pub linear: u32,
    /// With [margins](crate::pool::MemoryOptions::margin).
    pub margin: u32,
}

/// Why a region does not move: its number among the skipped ones.
pub(super) type SkipReason = fn(&mut SkippedRegions) -> &mut u32;

impl SkippedRegions {
    pub(super) fn add(&mut self, reason: SkipReason, regions: u64) {
        let number = reason(self);
        *number = number.saturating_add(u32::try_from(regions).unwrap_or(u32::MAX));
    }
}

/// The plan of a defragmentation and the work done so far.
#[doc(alias("VmaDefragmentationStats"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefragmentationTotals {
    /// Number of blocks to drain.
    pub planned_blocks: u32,
    /// Bytes of these blocks.
    pub planned_bytes: u64,
    /// Passes with moves.
    pub passes: u32,
    /// Number of moved regions.
    pub moves: u64,
    /// Bytes of the moved regions, padding included.
    pub moved_bytes: u64,
    /// Number of blocks that were freed.
    pub freed_blocks: u32,
    /// Bytes of these blocks.
    pub freed_bytes: u64,
}
