//! A pool's part of a defragmentation: drains blocks, reserves targets of moves, and exchanges two ranges.
//!
//! Nothing here knows passes or resources: see `allocator/defragmentation`.

use super::blocks::{BlockListing, BlockSpace, LiveBlock, misuse};
use super::device_and_host::DeviceAndHost;
use super::drain_plan::BlockSum;
use super::request::{MOVE_TARGET, Suballocation, is_internal_range};
use super::state::PoolState;
use super::{Pool, Pools};
use crate::error::{GpuError, GpuMisuse};
use crate::id::{NO_RECORD, RegionPlace, RegionPlaceKind, RegionSlot};
use crate::range::{Fit, LiveRange, MAX_NOTED_ALIGNMENT, NodeShortage, RangeRequest};
use crate::sync::StateGuard;

/// A region of a block that drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockRegion {
    pub(crate) at: RegionSlot,
    /// Its record's number, or `NO_RECORD`.
    pub(crate) record: u32,
}

/// A region whose move was prepared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreparedMove {
    pub(crate) from: Suballocation,
    /// `None` without room.
    pub(crate) target: Option<Suballocation>,
    /// Its record's number, or `NO_RECORD` without room.
    pub(crate) record: u32,
}

/// Counts of regions that no defragmentation moves, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnmovableRegions {
    pub(crate) dedicated: u64,
    /// In a pool for pinned regions.
    pub(crate) pinned: u64,
    /// In a linear pool.
    pub(crate) linear: u64,
    /// With margins.
    pub(crate) margin: u64,
}

impl Pools {
    /// Counts the regions of a pool that never move.
    pub(crate) fn unmovable_regions(&self, index: u16) -> UnmovableRegions {
        let Some(pool) = self.pool(index) else {
            return UnmovableRegions::default();
        };
        let state = pool.lock();
        let dedicated = u64::from(state.dedicated.live);
        let in_blocks = state.regions.saturating_sub(dedicated);
        let counted_if = |is_so: bool| if is_so { in_blocks } else { 0 };
        let (is_pinned, is_linear) = (state.config.is_pinned, state.config.algorithm.is_linear());
        UnmovableRegions {
            dedicated,
            pinned: counted_if(is_pinned),
            linear: counted_if(is_linear && !is_pinned),
            margin: counted_if(state.config.margin > 0 && !is_linear && !is_pinned),
        }
    }

    /// Begins to defragment a pool: false if nothing can move, as in a linear one. `generation` is that of a custom pool.
    ///
    /// # Errors
    /// [`GpuMisuse::NoSuchPool`] if that pool was destroyed; [`GpuMisuse::Defragmenting`] if a defragmentation of it is under way.
    pub(crate) fn begin_defragmentation(
        &self,
        index: u16,
        generation: Option<u32>,
    ) -> Result<bool, GpuMisuse> {
        let Some(pool) = self.pool(index) else {
            return Ok(false);
        };
        let mut state = pool.lock();
        if generation.is_some_and(|generation| !state.is_named(generation)) {
            return Err(GpuMisuse::NoSuchPool);
        }
        if state.config.algorithm.is_linear()
            || state.config.margin > 0
            || state.config.is_pinned
            || !state.is_open
            || state.blocks.len() < 2
        {
            return Ok(false);
        }
        if core::mem::replace(&mut state.is_defragmenting, true) {
            return Err(GpuMisuse::Defragmenting);
        }
        Ok(true)
    }

    /// The number of blocks of a pool, and of those that it may free.
    pub(crate) fn block_counts(&self, index: u16) -> (usize, usize) {
        self.pool(index).map_or((0, 0), |pool| {
            let state = pool.lock();
            let blocks = state.blocks.len();
            let spare = blocks.saturating_sub(state.config.min_blocks);
            (blocks as usize, spare as usize)
        })
    }

    /// Visits the sums of each used block. `visit` runs under the pool's lock: it must not allocate or call back.
    pub(crate) fn each_block_sum(&self, index: u16, visit: &mut dyn FnMut(BlockSum)) {
        let Some(pool) = self.pool(index) else { return };
        let state = pool.lock();
        for (block, slot) in (0u32..).zip(state.blocks.slots.as_slice()) {
            if let Some(live) = slot.live.as_ref().filter(|live| !live.core.is_blank()) {
                visit(BlockSum {
                    block,
                    size: live.object.size,
                    live: live.core.used_bytes(),
                    free: live.core.free_bytes(),
                    is_pinned: !live.object.map.is_idle(),
                    is_drained: false,
                });
            }
        }
    }

    /// Visits the regions of a block, in order of offset. False if it is mapped. `visit` runs under the pool's lock: it must not allocate or call back.
    pub(crate) fn each_block_region(
        &self,
        index: u16,
        block: u32,
        visit: &mut dyn FnMut(BlockRegion),
    ) -> bool {
        let Some(pool) = self.pool(index) else {
            return false;
        };
        let state = pool.lock();
        let Ok(live) = state.blocks.block(block) else {
            return false;
        };
        let mut movable = live.object.map.is_idle();
        (live.core).each_live(&state.blocks.store, |node, generation, record| {
            if !is_internal_range(record) {
                visit(BlockRegion {
                    at: state.region_slot(RegionPlaceKind::General, block, node, generation),
                    record,
                });
            } else {
                movable = false;
            }
        });
        movable
    }

    /// Whether a block is being drained.
    pub(crate) fn is_draining(&self, index: u16, block: u32) -> bool {
        self.pool(index).is_some_and(|pool| {
            let state = pool.lock();
            let live = state.blocks.block(block);
            live.is_ok_and(|live| live.listing == BlockListing::Draining)
        })
    }

    /// Stops allocation in a block until [`end_drain`](Self::end_drain). Returns the number of its regions; `None` if the block cannot be
    /// drained.
    pub(crate) fn begin_drain(
        &self,
        device_and_host: DeviceAndHost<'_>,
        index: u16,
        block: u32,
    ) -> Option<usize> {
        let pool = self.pool(index)?;
        let (regions, deferred) = {
            let mut state = pool.lock();
            if !state.blocks.list_as(block, BlockListing::Draining) {
                return None;
            }
            let ranges = state.blocks.block(block).ok()?.core.live_count() as usize;
            (ranges, state.deferred_free())
        };
        self.finish_free(device_and_host, pool, deferred);
        Some(regions)
    }

    /// Frees a drained block if it is empty, and returns its bytes; else opens it again and returns 0.
    pub(crate) fn end_drain(
        &self,
        device_and_host: DeviceAndHost<'_>,
        index: u16,
        block: u32,
    ) -> u64 {
        let Some(pool) = self.pool(index) else {
            return 0;
        };
        let (removed, deferred) = {
            let mut state = pool.lock();
            let is_drained = state
                .blocks
                .block(block)
                .is_ok_and(|live| live.listing == BlockListing::Draining);
            if !is_drained {
                return 0;
            }
            state.blocks.list_as(block, BlockListing::Open);
            let removed = state.remove_empty_block(Some(block), true);
            (removed, state.deferred_free())
        };
        self.finish_free(device_and_host, pool, deferred);
        removed.map_or(0, |object| {
            self.free_object(device_and_host, pool, &object);
            object.size
        })
    }

    /// Opens closed blocks again, as targets of moves.
    pub(crate) fn open_closed_blocks(&self, index: u16) {
        let Some(pool) = self.pool(index) else { return };
        let mut state = pool.lock();
        for block in 0..state.blocks.slots.len() {
            let is_closed = state
                .blocks
                .block(block)
                .is_ok_and(|live| live.listing == BlockListing::Closed);
            if is_closed {
                state.blocks.list_as(block, BlockListing::Open);
            }
        }
    }

    /// Ends a defragmentation: another one may begin.
    pub(crate) fn end_defragmentation(&self, index: u16) {
        if let Some(pool) = self.pool(index) {
            pool.lock().is_defragmenting = false;
        }
    }

    /// Reserves room for a region of a draining block, in an open one, and attaches the record `new_record` to a bare region. No block is
    /// created for it. If the result has another record, or none, `new_record` was not used.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`] if the region was freed meanwhile, or has no range of its own; the host allocator's error. `new_record` was not used then.
    pub(crate) fn prepare_move(
        &self,
        device_and_host: DeviceAndHost<'_>,
        at: RegionSlot,
        new_record: u32,
    ) -> Result<PreparedMove, GpuError> {
        self.retry_with_nodes(device_and_host, at.place.pool(), |state| {
            state.prepare_move(at, new_record)
        })
    }

    /// Calls `attempt` under a pool's lock until the pool has the nodes that it needs.
    pub(super) fn retry_with_nodes<T>(
        &self,
        device_and_host: DeviceAndHost<'_>,
        index: u16,
        mut attempt: impl FnMut(&mut PoolState) -> Result<Result<T, NodeShortage>, GpuMisuse>,
    ) -> Result<T, GpuError> {
        let pool = self.pool(index).ok_or(GpuMisuse::Stale)?;
        loop {
            let attempted = attempt(&mut pool.lock())?;
            let shortage = match attempted {
                Ok(prepared) => return Ok(prepared),
                Err(shortage) => shortage,
            };
            device_and_host.grow(shortage.layout(), |block| {
                pool.lock().blocks.store.grow_with(shortage, block)
            })?;
        }
    }

    /// Frees the target of [`prepare_move`](Self::prepare_move), or after an [exchange](ExchangeLock::exchange) the range that the region had.
    pub(crate) fn free_target(&self, device_and_host: DeviceAndHost<'_>, target: RegionSlot) {
        let Some(pool) = self.pool(target.place.pool()) else {
            return;
        };
        let deferred = {
            let mut state = pool.lock();
            let freed = state.free_target(target);
            debug_assert!(freed.is_ok(), "reserved: {freed:?}");
            state.deferred_free()
        };
        self.finish_free(device_and_host, pool, deferred);
    }

    /// The lock of a pool, for [exchanges](ExchangeLock::exchange).
    pub(crate) fn exchange_lock(&self, index: u16) -> ExchangeLock<'_> {
        ExchangeLock {
            pools: self,
            pool: self.pool(index),
            state: None,
        }
    }
}

/// A pool's lock, within that of the records: acquired at the first exchange, held for all that follow.
#[must_use = "deferred frees wait for `release`"]
pub(crate) struct ExchangeLock<'p> {
    pools: &'p Pools,
    pool: Option<&'p Pool>,
    state: Option<StateGuard<'p, PoolState>>,
}

impl ExchangeLock<'_> {
    /// Exchanges the ranges of a region and of its target. The old range is freed at once if nothing is bound, else the caller
    /// [frees](Pools::free_target) it later. False, and nothing changed, if the region was freed, its block
    /// was mapped, or the two are not ranges of this pool and of one size.
    pub(crate) fn exchange(&mut self, at: RegionSlot, target: RegionSlot, is_bound: bool) -> bool {
        let Some(pool) = self.pool else {
            return false;
        };
        let state = self.state.get_or_insert_with(|| pool.lock());
        let vacated = state.exchange(at, target);
        if let Some(block) = vacated.filter(|_| !is_bound) {
            let place = RegionPlace::new(RegionPlaceKind::General, state.config.index, block);
            let freed = state.free_target(RegionSlot { place, ..target });
            debug_assert!(freed.is_ok(), "reserved: {freed:?}");
        }
        vacated.is_some()
    }

    /// Releases the lock; the caller has released that of the records.
    pub(crate) fn release(self, device_and_host: DeviceAndHost<'_>) {
        let (Some(pool), Some(mut state)) = (self.pool, self.state) else {
            return;
        };
        let deferred = state.deferred_free();
        drop(state);
        self.pools.finish_free(device_and_host, pool, deferred);
    }
}

impl PoolState {
    /// As [`Pools::prepare_move`]; the inner error is missing memory for nodes.
    fn prepare_move(
        &mut self,
        at: RegionSlot,
        new_record: u32,
    ) -> Result<Result<PreparedMove, NodeShortage>, GpuMisuse> {
        if at.kind() != RegionPlaceKind::General || at.place.pool() != self.config.index {
            return Err(GpuMisuse::Stale);
        }
        let (block, found) = self
            .blocks
            .range(at.place.block(), at.slot, at.generation)?;
        let block_number = block.core.number();
        let from = Suballocation {
            at,
            memory: block.object.memory,
            offset: found.offset,
            size: found.size,
            memory_type: self.config.memory_type,
            properties: self.config.properties,
        };
        let target = match self.reserve_target(&found) {
            Ok(target) => target,
            Err(shortage) => return Ok(Err(shortage)),
        };
        let mut record = found.user_data;
        if record == NO_RECORD && target.is_some() {
            record = new_record;
            let core = &self.blocks.block(block_number)?.core;
            core.set_user_data(&self.blocks.store, at.slot, at.generation, record)
                .map_err(misuse)?;
        }
        Ok(Ok(PreparedMove {
            from,
            target,
            record,
        }))
    }

    /// Reserves a target with the size and alignment of a range; `None` without room.
    pub(super) fn reserve_target(
        &mut self,
        found: &LiveRange,
    ) -> Result<Option<Suballocation>, NodeShortage> {
        // A node stores no larger alignment: such a region is not moved.
        if found.alignment >= MAX_NOTED_ALIGNMENT {
            return Ok(None);
        }
        // Exactly the region's size, not the requested one: `Region` stores it, and copies and crops reach to its end.
        let want = RangeRequest {
            size: found.size,
            alignment: found.alignment,
            user_data: MOVE_TARGET,
            fit: Fit::Low,
        };
        let mut space = BlockSpace::NOWHERE;
        match self.blocks.allocate_open(&want, &mut space) {
            Err(shortage) => Err(shortage),
            Ok(false) => Ok(None),
            Ok(true) => {
                debug_assert_eq!(space.size, found.size, "asked for as much");
                space.kind = RegionPlaceKind::General;
                space.block = space.containing_block;
                self.moving = self.moving.saturating_add(1);
                self.moving_bytes = self.moving_bytes.saturating_add(space.size);
                Ok(self.region(&space))
            }
        }
    }

    fn free_target(&mut self, target: RegionSlot) -> Result<(), GpuMisuse> {
        let (block, size, empty) = self.blocks.free_moved(
            target.place.block(),
            target.slot,
            target.generation,
            MOVE_TARGET,
        )?;
        // `end_drain` frees a draining block.
        let is_draining = |live: &LiveBlock| live.listing == BlockListing::Draining;
        if empty && !self.blocks.block(block).is_ok_and(is_draining) {
            self.emptied_block = Some(block);
        }
        self.moving = self.moving.saturating_sub(1);
        self.moving_bytes = self.moving_bytes.saturating_sub(size);
        Ok(())
    }

    /// As [`ExchangeLock::exchange`]. Returns the block that the region lay in.
    fn exchange(&mut self, at: RegionSlot, target: RegionSlot) -> Option<u32> {
        // Slots of other kinds and other pools are no nodes of this store.
        let is_range = |slot: RegionSlot| {
            slot.kind() == RegionPlaceKind::General && slot.place.pool() == self.config.index
        };
        if !is_range(at) || !is_range(target) {
            return None;
        }
        let blocks = &self.blocks;
        let names = ((at.slot, at.generation), (target.slot, target.generation));
        let (old, _) = blocks.store.exchange(names.0, names.1, |old, new| {
            new.user_data == MOVE_TARGET
                && !is_internal_range(old.user_data)
                && blocks.is_unmapped(old.block)
        })?;
        Some(old.block)
    }
}
