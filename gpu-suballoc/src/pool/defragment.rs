//! Nothing here knows passes or resources: see `allocator/defragmentation`.

use super::DevicePools;
use super::blocks::BlockListing;
use super::request::{MOVE_TARGET, Suballocation};
use super::state::PoolState;
use crate::error::{GpuError, GpuMisuse};
use crate::host_memory::lock_filled;
use crate::id::{BlockRef, RangePlacement, RegionPlace};
use crate::range::{Fit, LiveRange, MAX_NOTED_ALIGNMENT, RangeRequest};

/// Numbers of regions that prevented a block from being drained, by reason. Of each such block only the first is
/// counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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

pub(crate) type SkipReason = fn(&mut SkippedRegions) -> &mut u32;

impl SkippedRegions {
    pub(crate) fn add(&mut self, reason: SkipReason, regions: u64) {
        let number = reason(self);
        *number = number.saturating_add(u32::try_from(regions).unwrap_or(u32::MAX));
    }
}

impl DevicePools<'_> {
    pub(crate) fn count_unmovable(&self, index: u16, skipped: &mut SkippedRegions) {
        let Some(pool) = self.pool(index) else {
            return;
        };
        let state = pool.lock();
        let dedicated = u64::from(state.dedicated.filled());
        skipped.add(|to| &mut to.dedicated, dedicated);
        let reason: SkipReason = if state.config.options.pinned {
            |to| &mut to.pinned
        } else if state.config.options.algorithm.is_linear() {
            |to| &mut to.linear
        } else if state.config.margin > 0 {
            |to| &mut to.margin
        } else {
            return;
        };
        skipped.add(reason, state.regions.saturating_sub(dedicated));
    }

    pub(crate) fn begin_defragmentation(&self, index: u16, generation: Option<u32>) -> Result<bool, GpuMisuse> {
        let Some(pool) = self.pool(index) else {
            return Ok(false);
        };
        let mut state = pool.lock();
        if generation.is_some_and(|generation| !state.is_named(generation)) {
            return Err(GpuMisuse::NoSuchPool);
        }
        if state.config.options.algorithm.is_linear()
            || state.config.margin > 0
            || state.config.options.pinned
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

    pub(crate) fn block_counts(&self, index: u16) -> (usize, usize) {
        self.pool(index).map_or((0, 0), |pool| {
            let state = pool.lock();
            let blocks = state.blocks.len();
            let spare = blocks.saturating_sub(state.config.options.min_blocks);
            (blocks as usize, spare as usize)
        })
    }

    /// `visit` runs under the pool's lock: it must not allocate or call back.
    pub(crate) fn each_block_sum(&self, index: u16, visit: &mut dyn FnMut(BlockSum)) {
        let Some(pool) = self.pool(index) else { return };
        let state = pool.lock();
        for (block, live) in state.blocks.slots.each() {
            // What was reserved stays.
            if state.reserved == 0 || !live.core.is_empty() {
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

    /// `visit` runs under the pool's lock: it must not allocate or call back. False if the block is mapped.
    pub(crate) fn each_block_region(&self, block: BlockRef, visit: &mut dyn FnMut(RegionPlace)) -> bool {
        let Some(pool) = self.pool(block.pool()) else {
            return false;
        };
        let state = pool.lock();
        let Ok(live) = state.blocks.block(block.block()) else {
            return false;
        };
        let mut movable = live.object.map.is_idle();
        (live.core).each_live(&state.blocks.store, |node, slot| {
            if slot == MOVE_TARGET {
                movable = false;
            } else {
                visit(RegionPlace { block, node, slot });
            }
        });
        movable
    }

    pub(crate) fn is_draining(&self, block: BlockRef) -> bool {
        self.pool(block.pool()).is_some_and(|pool| pool.lock().blocks.is_draining(block.block()))
    }

    pub(crate) fn begin_drain(&self, block: BlockRef) -> bool {
        let Some(pool) = self.pool(block.pool()) else {
            return false;
        };
        let (begun, deferred) = {
            let mut state = pool.lock();
            let begun = (state.blocks).list_as(block.block(), BlockListing::Draining);
            (begun, state.deferred_free())
        };
        self.finish_free(pool, deferred);
        begun
    }

    /// A block that is not empty is opened again, and 0 returned.
    pub(crate) fn end_drain(&self, block: BlockRef) -> u64 {
        let Some(pool) = self.pool(block.pool()) else {
            return 0;
        };
        let (removed, deferred) = {
            let mut state = pool.lock();
            if !state.blocks.is_draining(block.block()) {
                return 0;
            }
            (state.blocks).list_as(block.block(), BlockListing::Open);
            let removed = state.remove_empty_block(Some(block.block()), true);
            (removed, state.deferred_free())
        };
        self.finish_free(pool, deferred);
        removed.map_or(0, |object| {
            self.free_object(pool, &object);
            object.size
        })
    }

    pub(crate) fn end_defragmentation(&self, index: u16) {
        if let Some(pool) = self.pool(index) {
            pool.lock().is_defragmenting = false;
        }
    }

    pub(crate) fn prepare_move(&self, at: RegionPlace) -> Result<(Suballocation, Option<Suballocation>), GpuError> {
        let pool = self.pool_at(at.block)?;
        let mut state = lock_filled(pool, self.memory)?;
        let from = state.locate(at)?;
        let (_, found) = state.blocks.range(at)?;
        Ok((from, state.reserve_target(&found)))
    }

    /// After a [move](Self::move_region) this is the place that the region had.
    pub(crate) fn free_target(&self, target: RegionPlace) {
        let Some(pool) = self.pool(target.pool()) else {
            return;
        };
        let deferred = {
            let mut state = pool.lock();
            let freed = state.free_target(target);
            debug_assert!(freed.is_ok(), "reserved: {freed:?}");
            state.deferred_free()
        };
        self.finish_free(pool, deferred);
    }

    /// The region's former place is a reserved one then. False, and nothing changed, if the region is not there, its
    /// block was mapped, or pool or size differ.
    pub(crate) fn move_region(&self, from: RegionPlace, to: RegionPlace) -> bool {
        self.pool(from.pool()).is_some_and(|pool| pool.lock().move_region(from, to))
    }
}

impl PoolState {
    pub(super) fn reserve_target(&mut self, found: &LiveRange) -> Option<Suballocation> {
        // A node stores no larger alignment: such a region is not moved.
        if found.alignment >= MAX_NOTED_ALIGNMENT {
            return None;
        }
        // Exactly the range's size, so that the two can be exchanged.
        let want = RangeRequest {
            size: found.size,
            asked: found.asked,
            alignment: found.alignment,
            user_data: MOVE_TARGET,
            fit: Fit::Low,
            is_optimal: found.is_optimal,
        };
        let space = self.blocks.allocate_exact(&want)?;
        debug_assert_eq!(space.size, found.size, "of the same size");
        self.moving += 1;
        self.moving_bytes += space.size;
        self.region(&space, MOVE_TARGET)
    }

    fn free_target(&mut self, target: RegionPlace) -> Result<(), GpuMisuse> {
        let (size, empty) = self.blocks.free(target)?;
        // `end_drain` frees a draining block.
        if empty && !self.blocks.is_draining(target.block()) {
            self.deferred.emptied_block = Some(target.block());
        }
        self.moving -= 1;
        self.moving_bytes -= size;
        Ok(())
    }

    fn move_region(&mut self, from: RegionPlace, to: RegionPlace) -> bool {
        let is_here = |at: RegionPlace| (at.kind(), at.pool()) == (RangePlacement::General, self.config.index);
        let blocks = &self.blocks;
        let size = |at: RegionPlace| blocks.range(at).map(|(_, found)| found.size);
        if !is_here(from)
            || !is_here(to)
            || to.slot != MOVE_TARGET
            || from.block() == to.block()
            || !(blocks.block(from.block())).is_ok_and(|live| live.object.map.is_idle())
            || size(from).is_err()
            || size(from) != size(to)
        {
            return false;
        }
        blocks.set_slot(from, MOVE_TARGET);
        blocks.set_slot(to, from.slot);
        true
    }
}

// Selects the blocks to drain, from the sums of each block.
//
// ```text
//   block   live  free                     in order of live bytes, and once more of live bytes a byte of block:
//     0      10   246    drained           a block is drained while the live bytes of all drained ones are at most 98 %
//     1     200    56                      of the free bytes of the others
//     2      30   226    drained
//     3     180    76                      of the two sets the one that leaves fewer bytes, then the one that moves fewer
// ```

/// Not every hole of the blocks that stay can be used.
const USABLE_PERCENT: u128 = 98;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockSum {
    pub(crate) block: u32,
    pub(crate) size: u64,
    pub(crate) live: u64,
    pub(crate) free: u64,
    pub(crate) is_pinned: bool,
    pub(crate) is_drained: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PlanTotals {
    freed: u64,
    moved: u64,
}

/// Drained ones come first, of them the fullest first, as the holes are largest at the beginning.
pub(crate) fn plan_drain(blocks: &mut [BlockSum], max_blocks: usize) {
    blocks.sort_unstable_by_key(|block| (block.live, block.block));
    let by_live = mark(blocks, max_blocks);
    // Live bytes a byte of block, without fractions: a/b < c/d where a*d < c*b.
    blocks.sort_unstable_by(|one, other| {
        let left = u128::from(one.live) * u128::from(other.size);
        let right = u128::from(other.live) * u128::from(one.size);
        left.cmp(&right).then(one.block.cmp(&other.block))
    });
    let by_share = mark(blocks, max_blocks);
    let is_better = |one: PlanTotals, other: PlanTotals| {
        one.freed > other.freed || one.freed == other.freed && one.moved < other.moved
    };
    if is_better(by_live, by_share) {
        blocks.sort_unstable_by_key(|block| (block.live, block.block));
        mark(blocks, max_blocks);
    }
    blocks.sort_unstable_by_key(|block| (!block.is_drained, u64::MAX - block.live, block.block));
}

fn mark(blocks: &mut [BlockSum], max_blocks: usize) -> PlanTotals {
    let mut left = blocks.iter().fold(0u128, |sum, block| sum + u128::from(block.free));
    let (mut moved, mut freed, mut count) = (0u128, 0u64, 0usize);
    for block in blocks {
        block.is_drained = false;
        if block.is_pinned || count >= max_blocks {
            continue;
        }
        let (rest, sum) = (left - u128::from(block.free), moved + u128::from(block.live));
        if sum * 100 <= rest * USABLE_PERCENT {
            block.is_drained = true;
            (left, moved, count) = (rest, sum, count.saturating_add(1));
            freed += block.size;
        }
    }
    PlanTotals { freed, moved: u64::try_from(moved).unwrap_or(u64::MAX) }
}

#[cfg(test)]
mod drain_plan_tests {
    use std::vec::Vec;

    use super::*;

    fn heap(blocks: &[(u64, u64)]) -> Vec<BlockSum> {
        (0..)
            .zip(blocks)
            .map(|(block, &(size, live))| BlockSum {
                block,
                size,
                live,
                free: size - live,
                is_pinned: false,
                is_drained: false,
            })
            .collect()
    }

    fn drained(blocks: &mut [BlockSum], max_blocks: usize) -> Vec<u32> {
        plan_drain(blocks, max_blocks);
        let drained = blocks.iter().filter(|block| block.is_drained);
        drained.map(|block| block.block).collect()
    }

    #[test]
    fn a_large_block_with_more_in_it_may_free_more() {
        // By live bytes the small ones go first, and then there is no room for what lies in the large one.
        let mut blocks = heap(&[(100, 40), (100, 45), (1000, 50), (150, 20)]);
        assert_eq!(drained(&mut blocks, usize::MAX), [2, 3]);
    }

    #[test]
    fn df8_ten_thousand_random_heaps_are_planned_within_their_room() {
        let mut rng = testkit::Rng::new(1);
        let mut next = |below| rng.below(below);
        let (mut drained, mut pinned) = (0u32, 0u32);
        for _ in 0..if cfg!(miri) { 50 } else { 10_000 } {
            let count = 1 + next(40);
            let mut blocks: Vec<_> = (0..count as u32)
                .map(|block| {
                    let power = 1 + next(40);
                    let size = 1 + next(1 << power);
                    let live = next(size + 1);
                    BlockSum {
                        block,
                        size,
                        live,
                        free: size - live,
                        is_pinned: next(10) == 0,
                        is_drained: next(2) == 0,
                    }
                })
                .collect();
            let before = blocks.clone();
            let limit = next(50) as usize;
            plan_drain(&mut blocks, limit);
            let chosen: Vec<_> = blocks.iter().filter(|block| block.is_drained).collect();
            let moved: u128 = chosen.iter().map(|block| u128::from(block.live)).sum();
            let room: u128 = blocks.iter().filter(|block| !block.is_drained).map(|block| u128::from(block.free)).sum();
            assert!(moved * 100 <= room * 98 && chosen.len() <= limit);
            assert!(chosen.iter().all(|block| !block.is_pinned));
            assert!(blocks.is_sorted_by_key(|block| !block.is_drained));
            assert!(chosen.is_sorted_by_key(|block| u64::MAX - block.live));
            for block in &before {
                let after = blocks.iter().find(|one| one.block == block.block).unwrap();
                assert_eq!((after.size, after.live, after.free), (block.size, block.live, block.free));
                pinned += u32::from(block.is_pinned);
            }
            drained += chosen.len() as u32;
        }
        assert!(cfg!(miri) || drained > 20_000 && pinned > 5_000, "{drained} {pinned}");
    }
}
