//! A linear pool: a stack, two stacks or a ring of regions, in one range of its block.

#![forbid(unsafe_code)]

use core::alloc::Layout;

use super::Pools;
use super::config::PoolConfig;
use super::size_class::RangeRef;
use crate::classes::{LiveSlot, SlotLocation};
use crate::error::GpuMisuse;
use crate::host_block::HostBlock;
use crate::id::RegionSlot;
use crate::range::{LinearRanges, LinearRefusal, LinearShortage};

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
                group: 0,
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
        let ranges = &state.size_classes.linear.ranges;
        ranges.check_order(at.slot, at.generation).map_err(misuse)
    }
}

const fn misuse(refusal: LinearRefusal) -> GpuMisuse {
    match refusal {
        LinearRefusal::Stale => GpuMisuse::Stale,
        LinearRefusal::OtherUserData => GpuMisuse::Held,
        LinearRefusal::OutOfOrder => GpuMisuse::OutOfOrder,
    }
}
