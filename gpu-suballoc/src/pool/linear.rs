//! A linear pool: a stack, two stacks or a ring of regions, in one range of its block.

#![forbid(unsafe_code)]

use super::Pools;
use super::blocks::BlockSpace;
use super::config::PoolConfig;
use super::request::{AllocationRequest, LINEAR_RANGE};
use super::state::PoolState;
use crate::error::GpuMisuse;
use crate::id::{BlockRef, PlaceKind, RegionPlace};
use crate::range::{Fit, LinearRange, LinearRanges, RangeRequest};

/// No block has so many bytes in one piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoRoom(pub(super) u64);

/// The regions of a linear pool, in the order of allocation.
pub(super) struct LinearRegions {
    pub(super) ranges: LinearRanges,
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

    /// The block of a live region, and its range.
    pub(super) fn find(&self, at: RegionPlace) -> Result<(u32, LinearRange), GpuMisuse> {
        let range = self.range.ok_or(GpuMisuse::Stale)?;
        Ok((range.block(), self.range(at)?))
    }

    /// The live regions in order of their offsets: place, offset and size.
    pub(super) fn walk(&self, config: &PoolConfig, visit: &mut dyn FnMut(RegionPlace, u64, u64)) {
        self.ranges.for_each(&mut |range| {
            let at = RegionPlace {
                block: BlockRef::new(PlaceKind::Linear, config.index, 0),
                node: range.id.node,
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
        let checked = state.linear.ranges.check_order(found.id);
        checked.map_err(|_| GpuMisuse::OutOfOrder)
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
    ) -> Result<(), NoRoom> {
        let whole = self.growth.max() & !(self.config.granule() - 1);
        if self.linear.range.is_none() {
            self.open_linear_range(whole, space)?;
        }
        let ranges = &mut self.linear.ranges;
        let placed = ranges
            .allocate(
                (size, request.size),
                alignment,
                request.slot,
                request.upper_address,
            )
            .map_err(|_| NoRoom(whole))?;
        *space = BlockSpace {
            block: self.linear.range.map_or(0, RegionPlace::block),
            node: placed.id.node,
            offset: placed.offset,
            size: placed.size,
            asked: placed.asked,
        };
        Ok(())
    }

    /// Allocates the range that all regions of a linear pool lie in.
    fn open_linear_range(&mut self, size: u64, space: &mut BlockSpace) -> Result<(), NoRoom> {
        let want = RangeRequest {
            size,
            asked: size,
            alignment: 1,
            user_data: LINEAR_RANGE,
            fit: Fit::Low,
            is_optimal: false,
        };
        if !self.blocks.allocate(&want, space) {
            return Err(NoRoom(size));
        }
        self.linear.range = Some(RegionPlace {
            block: BlockRef::new(PlaceKind::General, self.config.index, space.block),
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
        let found = self.linear.range(at)?;
        let freed = self.linear.ranges.free(found.id);
        debug_assert!(freed.is_ok(), "found: {freed:?}");
        Ok((found.size, self.free_empty_linear_range()))
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
