#![forbid(unsafe_code)]

use crate::device::{BufferHandle, ImageHandle, MemoryHandle, ResourceHandle};
use crate::flags::{debug_fields, setters};
use crate::id::{PoolId, RegionId};
use crate::pool::Suballocation;
use crate::region_metadata::{MoveOutcome, MovingRoot};

/// Which regions may move, and how much a pass contains: [`GpuAllocator::defragment`](crate::GpuAllocator::defragment).
#[doc(alias("VmaDefragmentationInfo"))]
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct DefragmentationOptions<'f> {
    /// One custom pool only.
    pub pool: Option<PoolId>,
    /// Limits the bytes of a pass, which contains at least one region.
    pub max_bytes_per_pass: u64,
    /// Limits the moves of a pass, which contains at least one.
    pub max_moves_per_pass: usize,
    /// Also moves regions of [`allocate`](crate::GpuAllocator::allocate): the user must bind a second resource at the
    /// new place.
    pub move_bare_regions: bool,
    /// Moves only regions for which `filter(id, tag)` is true. It is called without a lock, at least once for each
    /// region. One excluded region keeps its whole block.
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

debug_fields!(
    [] DefragmentationOptions<'_>, "DefragmentationOptions",
    |this| pool = this.pool,
        max_bytes_per_pass = this.max_bytes_per_pass,
        max_moves_per_pass = this.max_moves_per_pass,
        move_bare_regions = this.move_bare_regions
);

/// A place in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MovePlace {
    /// The memory object.
    pub memory: MemoryHandle,
    /// Bytes from the start of the memory object.
    pub offset: u64,
}

/// The move of one region.
#[doc(alias("VmaDefragmentationMove"))]
#[derive(Clone, Copy, Debug)]
pub struct RegionMove {
    pub(super) region: RegionId,
    pub(super) root: MovingRoot,
    pub(super) from: Suballocation,
    pub(super) to: Suballocation,
    pub(super) new_resource: Option<ResourceHandle>,
    pub(super) outcome: MoveOutcome,
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
        self.root.view.asked
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
        ResourceHandle::buffer(self.root.view.resource)
    }

    /// The image that is bound to the region.
    #[must_use]
    pub const fn old_image(&self) -> Option<ImageHandle> {
        ResourceHandle::image(self.root.view.resource)
    }

    /// The buffer that [`make_buffer`](crate::allocator::DefragmentationPass::make_buffer) created.
    #[must_use]
    pub const fn new_buffer(&self) -> Option<BufferHandle> {
        ResourceHandle::buffer(self.new_resource)
    }

    /// The image that [`make_image`](crate::allocator::DefragmentationPass::make_image) created.
    #[must_use]
    pub const fn new_image(&self) -> Option<ImageHandle> {
        ResourceHandle::image(self.new_resource)
    }
}

const fn place(of: &Suballocation) -> MovePlace {
    MovePlace { memory: of.memory, offset: of.offset }
}

/// The plan of a defragmentation and the work done so far.
#[doc(alias("VmaDefragmentationStats"))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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
