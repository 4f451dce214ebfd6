//! A linear pool: a stack, two stacks or a ring of regions, in one range of its block.

#![forbid(unsafe_code)]

use core::alloc::Layout;

use super::Pools;
use super::blocks::{BlockMiss, BlockSpace};
use super::config::PoolConfig;
use super::request::{AllocationRequest, LINEAR_RANGE};
use super::state::PoolState;
use crate::error::GpuMisuse;
use crate::host_block::HostBlock;
use crate::id::{BlockRef, PlaceKind, RegionPlace};
use crate::range::{Fit, NodeShortage};
use crate::range::{LinearRange, LinearRanges, LinearRefusal, LinearShortage};

/// Why a region was not placed.
#[derive(Clone, Copy, Debug)]
pub(super) enum PoolShortage {
    /// Missing memory for nodes.
    Records(NodeShortage),
    /// Missing memory for nodes of a linear pool.
    Linear(Layout),
    /// No block has so many bytes in one piece.
    Block(u64),
}

/// The regions of a linear pool, in the order of allocation.
pub(super) struct LinearRegions {
    ranges: LinearRanges,
    /// The range that all regions lie in.
    range: Option<RegionPlace>,
}

impl LinearRegions {
    pub(super) const fn new(config: &PoolConfig) -> Self {
        Self {
            ranges: LinearRanges::new(config.algorithm, 1 << config.granule_log2, 0, 0),
            range: None,
        }
    }

    pub(super) fn grow_with(&mut self, memory: HostBlock) -> Option<HostBlock> {
        self.ranges.grow_with(memory)
    }

    pub(super) fn detach_memory(&mut self) -> Option<HostBlock> {
        self.ranges.detach_memory()
    }

    /// Free bytes of the range, in one piece or two; `None` without a range.
    pub(super) fn available_bytes(&self) -> Option<u64> {
        self.range.map(|_| self.ranges.available_bytes())
    }

    fn range(&self, at: RegionPlace) -> Result<LinearRange, GpuMisuse> {
        let found = self.ranges.live(at.node);
        found
            .filter(|found| found.user_data == at.slot)
            .ok_or(GpuMisuse::Stale)
    }

    /// The block of a live region, its offset and its size.
    pub(super) fn find(&self, at: RegionPlace) -> Result<(u32, u64, u64), GpuMisuse> {
        let found = self.range(at)?;
        let range = self.range.ok_or(GpuMisuse::Stale)?;
        Ok((range.block(), found.offset, found.size))
    }

    /// The live regions in order of their offsets: place, offset and size.
    pub(super) fn walk(&self, config: &PoolConfig, visit: &mut dyn FnMut(RegionPlace, u64, u64)) {
        self.ranges.for_each(&mut |range| {
            let at = RegionPlace {
                block: BlockRef::new(PlaceKind::Linear, config.index, 0),
                node: range.node,
                slot: range.user_data,
            };
            visit(at, range.offset, range.size);
        });
    }
}

impl Pools {
    /// Checks that a linear pool's region is the next to be freed.
    ///
    /// # Errors
    /// [`GpuMisuse::OutOfOrder`], [`GpuMisuse::Stale`].
    pub(crate) fn check_order(&self, at: RegionPlace) -> Result<(), GpuMisuse> {
        let state = self.pool(at.pool()).ok_or(GpuMisuse::Stale)?.lock();
        let found = state.linear.range(at)?;
        let ranges = &state.linear.ranges;
        ranges
            .check_order(at.node, found.generation)
            .map_err(misuse)
    }
}

impl PoolState {
    /// Places a region at an end of a linear pool.
    pub(super) fn place_linear(
        &mut self,
        size: u64,
        alignment: u64,
        request: &AllocationRequest,
        space: &mut BlockSpace,
    ) -> Result<(), PoolShortage> {
        let size = size
            .checked_next_multiple_of(self.config.granule())
            .unwrap_or(u64::MAX);
        let whole = self.growth.max() & !(self.config.granule() - 1);
        if self.linear.range.is_none() {
            self.open_linear_range(whole, space)?;
        }
        let ranges = &mut self.linear.ranges;
        let placed = ranges.allocate(size, alignment, request.slot, request.upper_address);
        let placed = placed.map_err(|shortage| match shortage {
            LinearShortage::Nodes(layout) => PoolShortage::Linear(layout),
            LinearShortage::Full | LinearShortage::NoUpperEnd => PoolShortage::Block(whole),
        })?;
        *space = BlockSpace {
            kind: PlaceKind::Linear,
            block: 0,
            node: placed.node,
            containing_block: self.linear.range.map_or(0, RegionPlace::block),
            offset: placed.offset,
            size,
        };
        Ok(())
    }

    /// Allocates the range that all regions of a linear pool lie in.
    fn open_linear_range(&mut self, size: u64, space: &mut BlockSpace) -> Result<(), PoolShortage> {
        self.blocks
            .allocate(size, 1, LINEAR_RANGE, Fit::Low, space)
            .map_err(|miss| match miss {
                BlockMiss::Records(shortage) => PoolShortage::Records(shortage),
                BlockMiss::Full => PoolShortage::Block(size),
            })?;
        self.linear.range = Some(RegionPlace {
            block: BlockRef::new(
                PlaceKind::General,
                self.config.index,
                space.containing_block,
            ),
            node: space.node,
            slot: LINEAR_RANGE,
        });
        let end = space.offset.saturating_add(space.size);
        let ranges = &mut self.linear.ranges;
        ranges.open(
            self.config.algorithm,
            self.config.granule(),
            space.offset,
            end,
        );
        Ok(())
    }

    /// Frees a region of a linear pool, in order or not; with the last one, the range. Returns its size.
    pub(super) fn free_linear(&mut self, at: RegionPlace) -> Result<(u64, bool), GpuMisuse> {
        let generation = self.linear.range(at)?.generation;
        let freed = self.linear.ranges.free(at.node, generation, None);
        let size = freed.map(|freed| freed.size).map_err(misuse)?;
        Ok((size, self.free_empty_linear_range()))
    }

    /// Frees the range of a linear pool, if it is empty.
    pub(super) fn free_empty_linear_range(&mut self) -> bool {
        let range = self.linear.range;
        let Some(range) = range.filter(|_| self.linear.ranges.is_empty()) else {
            return false;
        };
        self.linear.range = None;
        if matches!(self.blocks.free(range), Ok((_, true))) {
            self.emptied_block = Some(range.block());
        }
        true
    }
}

const fn misuse(refusal: LinearRefusal) -> GpuMisuse {
    match refusal {
        LinearRefusal::Stale => GpuMisuse::Stale,
        LinearRefusal::OtherUserData => GpuMisuse::Held,
        LinearRefusal::OutOfOrder => GpuMisuse::OutOfOrder,
    }
}
