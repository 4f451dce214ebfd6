//! What a defragmentation is asked for, and what it answers.

#![forbid(unsafe_code)]

use core::fmt;

use crate::device::{BufferHandle, ImageHandle, MemoryHandle};
use crate::id::{PoolId, RegionId, RegionSlot};
use crate::region::RegionContent;

/// What may move, and how much of it at a time: [`GpuAllocator::defragment`](crate::GpuAllocator::defragment).
#[derive(Clone, Copy)]
pub struct DefragmentationOptions<'f> {
    pub(super) pool: Option<PoolId>,
    pub(super) max_bytes: u64,
    pub(super) max_moves: usize,
    pub(super) moves_bare: bool,
    pub(super) may_move: Option<&'f dyn Fn(RegionId, u64) -> bool>,
}

impl<'f> DefragmentationOptions<'f> {
    /// Every pool, passes without limits, buffers and images of the allocator's own.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            pool: None,
            max_bytes: u64::MAX,
            max_moves: usize::MAX,
            moves_bare: false,
            may_move: None,
        }
    }

    /// One custom pool only.
    #[must_use]
    pub const fn pool(self, pool: PoolId) -> Self {
        Self {
            pool: Some(pool),
            ..self
        }
    }

    /// A pass moves at most so many bytes, but one region at least, or the regions of one slab.
    #[must_use]
    pub const fn max_bytes_per_pass(self, max_bytes: u64) -> Self {
        Self { max_bytes, ..self }
    }

    /// A pass has at most so many moves, but one at least, or those of one slab: up to 64.
    #[must_use]
    pub const fn max_moves_per_pass(self, max_moves: usize) -> Self {
        Self { max_moves, ..self }
    }

    /// Regions of [`allocate`](crate::GpuAllocator::allocate) move too: their user binds a second resource of its own at the new place.
    /// By default they stay, since what is bound to them is not known.
    #[must_use]
    pub const fn move_bare_regions(self) -> Self {
        Self {
            moves_bare: true,
            ..self
        }
    }

    /// Asks before a region moves; the number is its [`tag`](crate::RegionOptions::tag). It is called without a lock, once or more often
    /// a region. A region that may not move keeps its whole block.
    #[must_use]
    pub const fn filter(self, may_move: &'f dyn Fn(RegionId, u64) -> bool) -> Self {
        Self {
            may_move: Some(may_move),
            ..self
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
            .field("max_bytes", &self.max_bytes)
            .field("max_moves", &self.max_moves)
            .field("moves_bare", &self.moves_bare)
            .field("filter", &self.may_move.is_some())
            .finish()
    }
}

/// A place in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovePlace {
    /// The memory object.
    pub memory: MemoryHandle,
    /// Bytes from its start.
    pub offset: u64,
}

/// What the user did about a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveOutcome {
    /// The contents are at the new place, and the device has finished with the old one. A region of a slab lies there afterwards if all others
    /// that it [moves with](RegionMove::moves_with) were copied too, or are freed.
    Copied,
    /// Nothing: the region stays.
    Ignored,
    /// Nobody needs the region any more: it is freed. One that has crops or mappings stays.
    Destroyed,
}

/// What became of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveResult {
    /// The region lies at the new place; the old resource was destroyed, the old place freed.
    Moved,
    /// The region is where it was: by its outcome, because it was mapped or cropped during the pass, or because it has a resource and no
    /// second one was made. Or one that it [moves with](RegionMove::moves_with) is, for one of these reasons.
    Stayed,
    /// The region was freed, as the outcome said.
    Destroyed,
    /// The region was freed by another call during the pass.
    Freed,
}

/// One region that is to move.
#[derive(Clone, Copy, Debug)]
pub struct RegionMove {
    pub(super) region: RegionId,
    pub(super) tag: u64,
    pub(super) size: u64,
    pub(super) from: MovePlace,
    pub(super) to: MovePlace,
    pub(super) memory_type: u32,
    pub(super) content: RegionContent,
    pub(super) old_resource: u64,
    /// 0 until it is made.
    pub(super) new_resource: u64,
    pub(super) asked: u64,
    pub(super) record: u32,
    pub(super) target: RegionSlot,
    pub(super) target_size: u64,
    pub(super) outcome: MoveOutcome,
    /// Others use the region under the eyes of its record.
    pub(super) is_begun: bool,
    /// What became of it, until the pass reports that.
    pub(super) ended: Option<MoveResult>,
    /// The place that it had is free.
    pub(super) is_released: bool,
    /// Its block's place in the order of draining.
    pub(super) order: u32,
}

impl RegionMove {
    /// Which region.
    #[must_use]
    pub const fn region(&self) -> RegionId {
        self.region
    }

    /// Whether both move or neither does: regions of one slab, which are handed out in one pass, one behind the other.
    #[must_use]
    pub fn moves_with(&self, other: &Self) -> bool {
        // They differ in their slots mostly.
        self.target.slot == other.target.slot && self.target == other.target
    }

    /// The user's number of the region.
    #[must_use]
    pub const fn tag(&self) -> u64 {
        self.tag
    }

    /// Bytes to copy: of a buffer its size, otherwise the whole region.
    #[must_use]
    pub const fn size(&self) -> u64 {
        if matches!(self.content, RegionContent::Buffer) {
            self.asked
        } else {
            self.size
        }
    }

    /// Where the region lies.
    #[must_use]
    pub const fn from(&self) -> MovePlace {
        self.from
    }

    /// The place that is reserved for it, of the same memory type and aligned as it needs.
    #[must_use]
    pub const fn to(&self) -> MovePlace {
        self.to
    }

    /// The buffer that is bound to the region.
    #[must_use]
    pub const fn old_buffer(&self) -> Option<BufferHandle> {
        match self.content {
            RegionContent::Buffer => BufferHandle::from_raw(self.old_resource),
            RegionContent::Bare | RegionContent::Image => None,
        }
    }

    /// The image that is bound to the region.
    #[must_use]
    pub const fn old_image(&self) -> Option<ImageHandle> {
        match self.content {
            RegionContent::Image => ImageHandle::from_raw(self.old_resource),
            RegionContent::Bare | RegionContent::Buffer => None,
        }
    }

    /// The buffer that [`make_buffer`](crate::allocator::DefragmentationPass::make_buffer) made.
    #[must_use]
    pub const fn new_buffer(&self) -> Option<BufferHandle> {
        match self.content {
            RegionContent::Buffer => BufferHandle::from_raw(self.new_resource),
            RegionContent::Bare | RegionContent::Image => None,
        }
    }

    /// The image that [`make_image`](crate::allocator::DefragmentationPass::make_image) made.
    #[must_use]
    pub const fn new_image(&self) -> Option<ImageHandle> {
        match self.content {
            RegionContent::Image => ImageHandle::from_raw(self.new_resource),
            RegionContent::Bare | RegionContent::Buffer => None,
        }
    }
}

/// Regions that kept their block from being emptied, by reason: a block is given up at its first such region. And regions that are in no block
/// which could be emptied: all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedRegions {
    /// Mapped, or in a block that is.
    pub mapped: u32,
    /// Pages, and pages and slabs of shards.
    pub pages: u32,
    /// Made by [`allocate`](crate::GpuAllocator::allocate): what is bound to them is not known.
    pub bare: u32,
    /// Buffers and images without both transfer usages.
    pub no_transfer: u32,
    /// Buffers whose device address may have been queried.
    pub device_address: u32,
    /// Exported, imported, or made with structures of the user's.
    pub external: u32,
    /// Refused by the filter.
    pub filter: u32,
    /// Being freed, or of a kind that the records have no room for.
    pub busy: u32,
    /// No room for them in the blocks that stay.
    pub no_room: u32,
    /// In memory objects of their own.
    pub dedicated: u32,
    /// Buffers of the application's. Counted where no single pool is named.
    pub wrapped: u32,
    /// [Pinned](crate::RegionOptions::pinned), and others of pools for such.
    pub pinned: u32,
    /// Of linear pools.
    pub linear: u32,
    /// With [margins](crate::pool::MemoryOptions::margin).
    pub margin: u32,
}

/// Why a region does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SkipReason {
    Mapped,
    Page,
    Bare,
    NoTransfer,
    DeviceAddress,
    External,
    Filter,
    Busy,
    NoRoom,
    Dedicated,
    Wrapped,
    Pinned,
    Linear,
    Margin,
}

impl SkippedRegions {
    pub(super) fn count(&mut self, reason: SkipReason) {
        self.add(reason, 1);
    }

    pub(super) fn add(&mut self, reason: SkipReason, regions: u64) {
        let place = match reason {
            SkipReason::Mapped => &mut self.mapped,
            SkipReason::Page => &mut self.pages,
            SkipReason::Bare => &mut self.bare,
            SkipReason::NoTransfer => &mut self.no_transfer,
            SkipReason::DeviceAddress => &mut self.device_address,
            SkipReason::External => &mut self.external,
            SkipReason::Filter => &mut self.filter,
            SkipReason::Busy => &mut self.busy,
            SkipReason::NoRoom => &mut self.no_room,
            SkipReason::Dedicated => &mut self.dedicated,
            SkipReason::Wrapped => &mut self.wrapped,
            SkipReason::Pinned => &mut self.pinned,
            SkipReason::Linear => &mut self.linear,
            SkipReason::Margin => &mut self.margin,
        };
        *place = place.saturating_add(u32::try_from(regions).unwrap_or(u32::MAX));
    }
}

/// What a defragmentation has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefragmentationTotals {
    /// Blocks that were to be emptied, and their bytes.
    pub planned_blocks: u32,
    /// Bytes of these blocks.
    pub planned_bytes: u64,
    /// Passes with moves.
    pub passes: u32,
    /// Regions that lie elsewhere now.
    pub moves: u64,
    /// Their bytes, padding included.
    pub moved_bytes: u64,
    /// Blocks that went back to the driver.
    pub freed_blocks: u32,
    /// Bytes of these blocks.
    pub freed_bytes: u64,
}
