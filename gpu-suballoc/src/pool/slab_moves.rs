//! Slabs of blocks that are emptied: such a slab takes nothing, and its range moves as a whole, with every region in it.
//!
//! ```text
//!   begin_drain      its slabs freeze: no seat is issued               before   block 3: .. slab 5 ..    block 7: .. target ..
//!   prepare_slab     room for the range, as for one region             after    block 3: .. target ..    block 7: .. slab 5 ..
//!   exchange_slab    the two ranges exchange their places, it thaws    ids name slab, seat and generation: they stay
//!   end_drain        what has stayed thaws; a slab without a region is a hole
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
    /// Where it begins in its memory object.
    pub(crate) base: u64,
    /// Where it is to lie: `None` without room.
    pub(crate) target: Option<Suballocation>,
}

impl Pools {
    /// Reserves room for a slab of a draining block in an open one. No block is made for it.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`] where it is no slab that is to be moved; what the host allocator refuses.
    pub(crate) fn prepare_slab(
        &self,
        device_and_host: DeviceAndHost<'_>,
        index: u16,
        slab: u32,
    ) -> Result<PreparedSlab, GpuError> {
        let pool = self.pool(index).ok_or(GpuMisuse::Stale)?;
        loop {
            let shortage = {
                let mut state = pool.lock();
                match state.prepare_slab(slab)? {
                    Ok(prepared) => return Ok(prepared),
                    Err(shortage) => shortage,
                }
            };
            device_and_host.grow(shortage.layout(), |block| {
                pool.lock().blocks.store.grow_with(shortage, block)
            })?;
        }
    }

    /// Where a region of a slab lies, and its record: `new_record` where it had none. Where the answer has another one, the new one is the
    /// caller's.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`] where the region was freed meanwhile, or lies in no slab. It has no new record then.
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
    /// The regions of a slab.
    pub(super) fn each_slab_region(&self, slab: u32, visit: &mut dyn FnMut(BlockRegion)) {
        let kind = RegionPlaceKind::Slab;
        self.size_classes.slabs.walk(slab, &mut |region| {
            visit(BlockRegion {
                at: self.region_slot(kind, region.group, region.slot, region.generation),
                record: region.user_data,
            });
        });
    }

    /// No region is placed in the slabs of a block. How many lie there.
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

    /// A slab without a region is a hole of its block.
    fn free_slab_range(&mut self, range: Option<SpareRange<RangeRef>>) {
        let Some(SpareRange {
            range_ref:
                RangeRef {
                    block,
                    node,
                    generation,
                },
            ..
        }) = range
        else {
            return;
        };
        let user_data = self
            .blocks
            .range(block, node, generation)
            .map(|(_, found)| found.user_data);
        let freed =
            user_data.and_then(|user_data| self.blocks.free(block, node, generation, user_data));
        debug_assert!(freed.is_ok(), "a slab is a range: {freed:?}");
    }

    /// As [`Pools::prepare_slab`]; inside, what memory for records lacks.
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

    /// The slab lies where room was reserved for it, with all its regions, and the reservation where it lay; it takes regions again. The
    /// block that it lay in. `None`, and nothing changed, where there is no such slab, its block was mapped, or the reservation is none of
    /// this pool, or not as large.
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
