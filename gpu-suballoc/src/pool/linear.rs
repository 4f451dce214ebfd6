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
use crate::id::RegionPlaceKind;
use crate::id::RegionSlot;
use crate::range::{Fit, NodeShortage};
use crate::range::{LinearRanges, LinearRefusal, LinearShortage};

/// The range of a linear pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RangeRef {
    pub(super) block: u32,
    pub(super) node: u32,
    pub(super) generation: u32,
}

/// The location of a live region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotLocation {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) user_data: u32,
}

/// A live region, with its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LiveSlot {
    pub(super) slot: u32,
    pub(super) generation: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) user_data: u32,
}

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
    range_ref: Option<RangeRef>,
}

/// Why no region was placed.
pub(super) enum LinearMiss {
    /// Missing memory for nodes.
    Nodes(Layout),
    /// The pool has no range yet.
    Range,
    Full,
}

/// A region that was placed.
pub(super) struct LinearSuballocation {
    pub(super) node: u32,
    pub(super) generation: u32,
    pub(super) range_ref: RangeRef,
    pub(super) offset: u64,
}

impl LinearRegions {
    pub(super) const fn new(config: &PoolConfig) -> Self {
        Self {
            ranges: LinearRanges::new(config.algorithm, 1 << config.granule_log2, 0, 0),
            range_ref: None,
        }
    }

    /// Sets the range that all regions lie in.
    pub(super) fn open(
        &mut self,
        config: &PoolConfig,
        range_ref: RangeRef,
        offset: u64,
        size: u64,
    ) {
        let end = offset.saturating_add(size);
        self.ranges
            .open(config.algorithm, config.granule(), offset, end);
        self.range_ref = Some(range_ref);
    }

    pub(super) fn grow_with(&mut self, memory: HostBlock) -> Option<HostBlock> {
        self.ranges.grow_with(memory)
    }

    pub(super) fn detach_memory(&mut self) -> Option<HostBlock> {
        self.ranges.detach_memory()
    }

    /// Places `size` bytes, which are whole granules. The caller has refused an upper address without an upper end.
    pub(super) fn allocate(
        &mut self,
        size: u64,
        alignment: u64,
        user_data: u32,
        upper: bool,
    ) -> Result<LinearSuballocation, LinearMiss> {
        let range_ref = self.range_ref.ok_or(LinearMiss::Range)?;
        let placed = self.ranges.allocate(size, alignment, user_data, upper);
        let placed = placed.map_err(|shortage| match shortage {
            LinearShortage::Nodes(layout) => LinearMiss::Nodes(layout),
            LinearShortage::Full | LinearShortage::NoUpperEnd => LinearMiss::Full,
        })?;
        Ok(LinearSuballocation {
            node: placed.node,
            generation: placed.generation,
            range_ref,
            offset: placed.offset,
        })
    }

    /// Free bytes of the range, in one piece or two; `None` without a range.
    pub(super) fn available_bytes(&self) -> Option<u64> {
        self.range_ref.map(|_| self.ranges.available_bytes())
    }

    pub(super) fn find(
        &self,
        number: u32,
        generation: u32,
    ) -> Result<(u32, SlotLocation), GpuMisuse> {
        let found = self.ranges.get(number, generation).map_err(misuse)?;
        let range_ref = self.range_ref.ok_or(GpuMisuse::Stale)?;
        Ok((
            range_ref.block,
            SlotLocation {
                offset: found.offset,
                size: found.size,
                user_data: found.user_data,
            },
        ))
    }

    pub(super) fn set_user_data(
        &mut self,
        number: u32,
        generation: u32,
        user_data: u32,
    ) -> Result<(), GpuMisuse> {
        self.ranges
            .set_user_data(number, generation, user_data)
            .map_err(misuse)
    }

    /// Frees a region that has `user_data`, in order or not. Returns its size.
    pub(super) fn free(
        &mut self,
        number: u32,
        generation: u32,
        user_data: u32,
    ) -> Result<u64, GpuMisuse> {
        let freed = self.ranges.free(number, generation, Some(user_data));
        freed.map(|freed| freed.size).map_err(misuse)
    }

    /// Removes the range, if it is empty.
    pub(super) fn close(&mut self) -> Option<RangeRef> {
        if self.ranges.is_empty() {
            self.range_ref.take()
        } else {
            None
        }
    }

    /// The live regions in order of their offsets.
    pub(super) fn walk(&self, visit: &mut dyn FnMut(LiveSlot)) {
        self.ranges.for_each(&mut |range| {
            visit(LiveSlot {
                slot: range.node,
                generation: range.generation,
                offset: range.offset,
                size: range.size,
                user_data: range.user_data,
            });
        });
    }
}

impl Pools {
    /// Checks that a linear pool's region is the next to be freed.
    ///
    /// # Errors
    /// [`GpuMisuse::OutOfOrder`], [`GpuMisuse::Stale`].
    pub(crate) fn check_order(&self, at: RegionSlot) -> Result<(), GpuMisuse> {
        let state = self.pool(at.place.pool()).ok_or(GpuMisuse::Stale)?.lock();
        let ranges = &state.linear.ranges;
        ranges.check_order(at.slot, at.generation).map_err(misuse)
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
        loop {
            let whole = self.growth.max() & !(self.config.granule() - 1);
            match self
                .linear
                .allocate(size, alignment, request.user_data, request.upper_address)
            {
                Ok(allocated) => {
                    let LinearSuballocation {
                        node,
                        generation,
                        range_ref,
                        offset,
                    } = allocated;
                    *space = BlockSpace {
                        kind: RegionPlaceKind::Linear,
                        block: 0,
                        slot: node,
                        generation,
                        containing_block: range_ref.block,
                        offset,
                        size,
                    };
                    return Ok(());
                }
                Err(LinearMiss::Nodes(layout)) => return Err(PoolShortage::Linear(layout)),
                Err(LinearMiss::Full) => {
                    return Err(PoolShortage::Block(whole));
                }
                Err(LinearMiss::Range) => {
                    let range_ref =
                        self.allocate_internal_range(whole, 1, LINEAR_RANGE, Fit::Low, space)?;
                    self.linear
                        .open(&self.config, range_ref, space.offset, space.size);
                }
            }
        }
    }

    /// Allocates the range of a linear pool.
    fn allocate_internal_range(
        &mut self,
        size: u64,
        alignment: u64,
        user_data: u32,
        fit: Fit,
        space: &mut BlockSpace,
    ) -> Result<RangeRef, PoolShortage> {
        self.blocks
            .allocate(size, alignment, user_data, fit, space)
            .map_err(|miss| match miss {
                BlockMiss::Records(shortage) => PoolShortage::Records(shortage),
                BlockMiss::Full => PoolShortage::Block(size),
            })?;
        Ok(RangeRef {
            block: space.containing_block,
            node: space.slot,
            generation: space.generation,
        })
    }

    /// Frees a region of a linear pool; with the last one, the range.
    pub(super) fn free_linear(
        &mut self,
        at: RegionSlot,
        user_data: u32,
    ) -> Result<(u64, bool), GpuMisuse> {
        let size = self.linear.free(at.slot, at.generation, user_data)?;
        Ok((size, self.free_empty_linear_range()))
    }

    /// Frees the range of a linear pool, if it is empty.
    pub(super) fn free_empty_linear_range(&mut self) -> bool {
        let Some(range_ref) = self.linear.close() else {
            return false;
        };
        if matches!(self.free_internal_range(range_ref), Ok(true)) {
            self.emptied_block = Some(range_ref.block);
        }
        true
    }

    /// Frees the range of a linear pool. Returns whether its block is empty now.
    pub(super) fn free_internal_range(&mut self, range_ref: RangeRef) -> Result<bool, GpuMisuse> {
        let RangeRef {
            block,
            node,
            generation,
        } = range_ref;
        let user_data = self.blocks.range(block, node, generation)?.1.user_data;
        let (_, is_empty) = self.blocks.free(block, node, generation, user_data)?;
        Ok(is_empty)
    }
}

const fn misuse(refusal: LinearRefusal) -> GpuMisuse {
    match refusal {
        LinearRefusal::Stale => GpuMisuse::Stale,
        LinearRefusal::OtherUserData => GpuMisuse::Held,
        LinearRefusal::OutOfOrder => GpuMisuse::OutOfOrder,
    }
}
