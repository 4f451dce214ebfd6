//! Slabs of draining blocks: nothing is allocated in such a slab, and its range moves as a whole, with every region in it.
//!
//! ```text
//!   begin_drain      its slabs freeze: no slot is issued               before   block 3: .. slab 5 ..    block 7: .. target ..
//!   prepare_slab     room for the range, as for one region             after    block 3: .. target ..    block 7: .. slab 5 ..
//!   exchange_slab    the two ranges exchange their places, it thaws    ids name slab, slot and generation: they stay
//!   end_drain        the slabs that stayed thaw; an empty slab becomes a hole
//! ```

#![forbid(unsafe_code)]

use super::Pools;
use super::defragment::BlockRegion;
use super::device_and_host::DeviceAndHost;
use super::request::{MOVE_TARGET, Suballocation, slab_number};
use super::size_class::RangeRef;
use super::state::PoolState;
use crate::classes::SpareRange;
use crate::error::{GpuError, GpuMisuse};
use crate::id::{NO_RECORD, RegionPlaceKind, RegionSlot};
use crate::range::NodeShortage;

/// A slab whose move was prepared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreparedSlab {
    /// Its offset in its memory object.
    pub(crate) base: u64,
    /// `None` without room.
    pub(crate) target: Option<Suballocation>,
}

impl Pools {
    /// Reserves room for a slab of a draining block in an open one. No block is created for it.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`] if the slab is not frozen; the host allocator's error.
    pub(crate) fn prepare_slab(
        &self,
        device_and_host: DeviceAndHost<'_>,
        index: u16,
        slab: u32,
    ) -> Result<PreparedSlab, GpuError> {
        self.retry_with_nodes(device_and_host, index, |state| state.prepare_slab(slab))
    }

    /// A region of a slab, and its record: `new_record` if it had none. If the result has another one, `new_record` was not used.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`] if the region was freed meanwhile, or lies in no slab. `new_record` was not used then.
    pub(crate) fn attach_to_slab_region(
        &self,
        at: RegionSlot,
        new_record: u32,
    ) -> Result<(Suballocation, u32), GpuMisuse> {
        if at.kind() != RegionPlaceKind::Slab {
            return Err(GpuMisuse::Stale);
        }
        let pool = self.pool(at.place.pool()).ok_or(GpuMisuse::Stale)?;
        let mut state = pool.lock();
        let (found, mut record) = state.locate(at)?;
        if record == NO_RECORD {
            state.set_user_data(at, NO_RECORD, new_record)?;
            record = new_record;
        }
        Ok((found, record))
    }
}

impl PoolState {
    /// Visits the regions of a slab.
    pub(super) fn each_slab_region(&self, slab: u32, visit: &mut dyn FnMut(BlockRegion)) {
        let kind = RegionPlaceKind::Slab;
        self.size_classes.slabs.walk(slab, &mut |region| {
            visit(BlockRegion {
                at: self.region_slot(kind, region.group, region.slot, region.generation),
                record: region.user_data,
            });
        });
    }

    /// Freezes the slabs of a block. Returns the number of regions in them.
    pub(super) fn freeze_slabs(&mut self, block: u32) -> usize {
        let mut regions = 0usize;
        for slab in 0..self.size_classes.slabs.number_bound() {
            if self.is_slab_of(slab, block) {
                regions = regions.saturating_add(self.size_classes.slabs.live_in(slab) as usize);
                let range = self.size_classes.slabs.freeze(slab);
                self.free_slab_range(range);
            }
        }
        regions
    }

    pub(super) fn thaw_slabs(&mut self, block: u32) {
        for slab in 0..self.size_classes.slabs.number_bound() {
            if self.is_slab_of(slab, block) {
                let range = self.size_classes.slabs.thaw(slab);
                self.free_slab_range(range);
            }
        }
    }

    fn is_slab_of(&self, slab: u32, block: u32) -> bool {
        let range = self.size_classes.slabs.range_ref(slab);
        range.is_some_and(|range| range.block == block)
    }

    /// Frees the range of an empty slab.
    fn free_slab_range(&mut self, range: Option<SpareRange<RangeRef>>) {
        let Some(spare) = range else { return };
        let freed = self.free_internal_range(spare.range_ref);
        debug_assert!(freed.is_ok(), "a slab is a range: {freed:?}");
    }

    /// As [`Pools::prepare_slab`]; the inner error is missing memory for nodes.
    fn prepare_slab(&mut self, slab: u32) -> Result<Result<PreparedSlab, NodeShortage>, GpuMisuse> {
        let (range, base) = self
            .size_classes
            .slabs
            .frozen(slab)
            .ok_or(GpuMisuse::Stale)?;
        let (_, found) = self
            .blocks
            .range(range.block, range.node, range.generation)?;
        Ok(self
            .reserve_target(&found)
            .map(|target| PreparedSlab { base, target }))
    }

    /// Exchanges the ranges of a slab, with all its regions, and of its target, and thaws the slab. Returns the block that it lay in. `None`,
    /// and nothing changed, if there is no such slab, its block was mapped, or the target is no range of this pool and of the slab's size.
    pub(super) fn exchange_slab(&mut self, slab: u32, target: RegionSlot) -> Option<u32> {
        let is_range =
            target.kind() == RegionPlaceKind::General && target.place.pool() == self.config.index;
        let (range, _) = self.size_classes.slabs.frozen(slab).filter(|_| is_range)?;
        let blocks = &self.blocks;
        let names = (
            (range.node, range.generation),
            (target.slot, target.generation),
        );
        let (old, new) = blocks.store.exchange(names.0, names.1, |old, new| {
            new.user_data == MOVE_TARGET
                && slab_number(old.user_data) == Some(slab)
                && blocks.is_unmapped(old.block)
        })?;
        let moved = RangeRef {
            block: new.block,
            ..range
        };
        let offset = blocks.bytes_of(new.first);
        let is_there = self.size_classes.slabs.relocate(slab, moved, offset);
        debug_assert!(is_there, "it is frozen");
        let thawed = self.size_classes.slabs.thaw(slab);
        debug_assert!(thawed.is_none(), "it moves for the sake of a region");
        self.free_slab_range(thawed);
        Some(old.block)
    }
}
