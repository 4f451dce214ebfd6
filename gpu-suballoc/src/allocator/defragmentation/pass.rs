//! Passes: begin moves, then carry them out or cancel them.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::HostAllocator;

use super::{Defragmentation, MoveOutcome, MoveResult, RegionMove};
use crate::device::DeviceMemory;
use crate::error::{GpuError, GpuMisuse};
use crate::id::RegionPlace;
use crate::pool::MOVE_TARGET;
use crate::region::RegionContent;
use crate::region_metadata::{MoveEnd, MoveEnding};

/// Number of moves that begin or end during one critical section of the records' lock.
pub(super) const BATCH: usize = 32;

/// Receives the result of each move.
type MoveSink<'s> = &'s mut dyn FnMut(&RegionMove, MoveResult);

/// Regions to copy; after the copies, call [`finish`](Self::finish). Dropping the pass instead leaves every region at its place, destroys
/// the second resources and frees the reserved places: before that, too, the device must have finished with them.
#[must_use = "dropping it leaves every region where it is"]
pub struct DefragmentationPass<'p, 'a, D: DeviceMemory, A: HostAllocator> {
    pub(super) run: &'p mut Defragmentation<'a, D, A>,
}

impl<'a, D: DeviceMemory, A: HostAllocator> Defragmentation<'a, D, A> {
    /// The next regions to move, with reserved places; empty when everything is done. Examines each region of the next blocks.
    ///
    /// # Errors
    /// The host allocator's error, if the pass has no move yet. With or without moves, such an error excludes the block without counting it
    /// in [`skipped`](Self::skipped); the next call continues with the other blocks.
    pub fn next_pass(&mut self) -> Result<DefragmentationPass<'_, 'a, D, A>, GpuError> {
        // Ends a pass that was forgotten.
        self.end_pass(None);
        // If this fails, the list grows step by step. With a limit in bytes the number of moves is small and not known beforehand.
        if self.options.max_bytes == u64::MAX {
            let moves = self.expected_moves.min(self.options.max_moves);
            let _ = self.current.try_reserve(moves);
        }
        let mut bytes = 0u64;
        // Places are reserved only for the moves of this pass and the rest of its last block.
        while self.current.as_slice().len() < self.options.max_moves.max(1) {
            let count = self.fitting_moves(bytes);
            if count == 0 {
                if !self.ready.as_slice().is_empty() || !self.reserve_next()? {
                    break;
                }
                continue;
            }
            if let Err(error) = self.current.try_reserve(count) {
                if self.current.as_slice().is_empty() {
                    return Err(error.into());
                }
                break;
            }
            bytes = bytes.saturating_add(self.hand_out(count));
        }
        if self.current.as_slice().is_empty() {
            self.end_drained();
        }
        Ok(DefragmentationPass { run: self })
    }

    /// The number of the next ready moves, up to [`BATCH`], that the limits of the pass admit, for a pass that has `bytes` bytes already.
    fn fitting_moves(&self, mut bytes: u64) -> usize {
        let handed_out = self.current.as_slice().len();
        let fits = |(count, one): &(usize, &RegionMove)| {
            bytes = bytes.saturating_add(one.size);
            let moves = handed_out.saturating_add(*count);
            moves == 0 || bytes <= self.options.max_bytes && moves < self.options.max_moves
        };
        let next = self.ready.as_slice().iter().rev().take(BATCH);
        next.enumerate().take_while(fits).count()
    }

    /// Reserves places for the regions of the next block. Returns false if no block is left.
    fn reserve_next(&mut self) -> Result<bool, GpuError> {
        let order = self.looked_at;
        let Some(&block) = self.blocks.as_slice().get(order) else {
            return Ok(false);
        };
        self.looked_at = order.saturating_add(1);
        let reserved = self.reserve_block(order, block);
        if self.current.as_slice().is_empty() {
            reserved?;
        }
        Ok(true)
    }

    /// Adds the next `count` ready moves to the pass, whose list has capacity for them. Skips moves of regions that were freed, mapped or
    /// cropped meanwhile. Returns the bytes of the added moves.
    fn hand_out(&mut self, count: usize) -> u64 {
        let first = self.ready.as_slice().len().saturating_sub(count);
        let moves = (self.ready.as_mut_slice().get_mut(first..)).unwrap_or(&mut []);
        self.allocator.records.begin_moves(
            moves,
            |one| one.region.key(),
            |one| one.is_begun = true,
        );
        let mut bytes = 0u64;
        for _ in 0..count {
            let Some(one) = self.ready.pop() else { break };
            if one.is_begun {
                bytes = bytes.saturating_add(one.size);
                let pushed = self.current.try_push(one);
                debug_assert!(pushed.is_ok(), "reserved");
            } else {
                self.free_target(&one);
            }
        }
        bytes
    }

    /// Carries out the outcomes of the pass's moves, the last move first. Without `visit`, all moves are ignored.
    pub(super) fn end_pass(&mut self, mut visit: Option<MoveSink<'_>>) {
        let mut any = false;
        loop {
            self.decide_last(visit.is_some());
            // Removed first, so that a callback never sees the move that is being ended.
            let Some(one) = self.current.pop() else { break };
            any = true;
            let result = self.end_move(&one);
            if let Some(visit) = &mut visit {
                visit(&one, result);
            }
        }
        if any {
            self.totals.passes = self
                .totals
                .passes
                .saturating_add(u32::from(visit.is_some()));
            self.end_drained();
        }
    }

    /// Decides the results of the last moves, if they are undecided. Calls no callback.
    fn decide_last(&mut self, is_seen: bool) {
        let Some(&RegionMove {
            place, ended: None, ..
        }) = self.current.as_slice().last()
        else {
            return;
        };
        let (allocator, pool) = (self.allocator, place.pool());
        let is_next = |one: &&RegionMove| one.ended.is_none() && one.place.pool() == pool;
        let moves = self.current.as_mut_slice();
        let count = moves.iter().rev().take(BATCH).take_while(is_next).count();
        let moves = (moves.get_mut(moves.len() - count..)).unwrap_or(&mut []);
        let mut lock = allocator.pools.move_lock(pool);
        allocator.records.end_moves(
            moves,
            |one| (one.region.key(), one.ending(is_seen)),
            |one| {
                allocator.note_moved();
                let is_bound = one.content != RegionContent::Bare;
                lock.move_region(one.place, one.target, is_bound)
                    .then_some(one.target)
            },
            |one, end| {
                one.ended = Some(match end {
                    MoveEnd::Moved { old_resource } => {
                        one.is_released = one.content == RegionContent::Bare;
                        // The place that it has left, reserved now.
                        one.target = RegionPlace {
                            slot: MOVE_TARGET,
                            ..one.place
                        };
                        one.old_resource = old_resource;
                        MoveResult::Moved
                    }
                    MoveEnd::Stayed => MoveResult::Stayed,
                    MoveEnd::Removed { meanwhile: true } => MoveResult::Freed,
                    MoveEnd::Removed { meanwhile: false } => MoveResult::Destroyed,
                });
            },
        );
        debug_assert!(
            moves.iter().all(|one| one.ended.is_some()),
            "their moves were begun"
        );
        lock.release(allocator.device_and_host());
    }

    /// Finishes the blocks that have no ready move left.
    pub(super) fn end_drained(&mut self) {
        let end = self
            .ready
            .as_slice()
            .last()
            .map_or(self.looked_at, |next| next.order as usize);
        while self.done < end {
            if let Some(&block) = self.blocks.as_slice().get(self.done) {
                let allocator = self.allocator;
                let freed =
                    allocator
                        .pools
                        .end_drain(allocator.device_and_host(), block.pool, block.block);
                self.totals.freed_blocks = self
                    .totals
                    .freed_blocks
                    .saturating_add(u32::from(freed > 0));
                self.totals.freed_bytes = self.totals.freed_bytes.saturating_add(freed);
            }
            self.done = self.done.saturating_add(1);
        }
    }

    /// Frees the remains of a decided move: one resource, the region if it was removed, and one place.
    fn end_move(&mut self, one: &RegionMove) -> MoveResult {
        let allocator = self.allocator;
        let result = one.ended.unwrap_or(MoveResult::Stayed);
        match result {
            MoveResult::Moved => {
                allocator.destroy_resource(one.content, one.old_resource);
                self.totals.moves = self.totals.moves.saturating_add(1);
                self.totals.moved_bytes = self.totals.moved_bytes.saturating_add(one.size);
            }
            MoveResult::Stayed => allocator.destroy_resource(one.content, one.new_resource),
            MoveResult::Freed | MoveResult::Destroyed => {
                allocator.destroy_resource(one.content, one.new_resource);
                let removed = (allocator.records).removed_by_move(one.region.key());
                if let Some(root) = removed {
                    allocator.destroy_removed_root(root);
                }
            }
        }
        if !one.is_released {
            self.free_target(one);
        }
        result
    }
}

impl RegionMove {
    /// The end that the outcome requests; [`MoveEnding::Keep`] if `is_seen` is false.
    const fn ending(&self, is_seen: bool) -> MoveEnding {
        match self.outcome {
            MoveOutcome::Destroyed if is_seen => MoveEnding::Destroy,
            // Without a second resource the region would lose its resource.
            MoveOutcome::Copied
                if is_seen
                    && (matches!(self.content, RegionContent::Bare) || self.new_resource != 0) =>
            {
                MoveEnding::Commit {
                    resource: self.new_resource,
                }
            }
            _ => MoveEnding::Keep,
        }
    }
}

impl<D: DeviceMemory, A: HostAllocator> DefragmentationPass<'_, '_, D, A> {
    /// The moves. Neither the sources nor the targets of two moves overlap.
    #[must_use]
    pub fn moves(&self) -> &[RegionMove] {
        self.run.current.as_slice()
    }

    /// Whether nothing is left to move.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.moves().is_empty()
    }

    /// Sets the outcome of a move; the default is [`MoveOutcome::Ignored`].
    ///
    /// # Errors
    /// [`GpuMisuse::Outside`] if there is no such move.
    pub fn set_outcome(&mut self, index: usize, outcome: MoveOutcome) -> Result<(), GpuMisuse> {
        self.get_mut(index)?.outcome = outcome;
        Ok(())
    }

    /// Sets the outcome of all moves.
    pub fn set_outcomes(&mut self, outcome: MoveOutcome) {
        for one in self.run.current.as_mut_slice() {
            one.outcome = outcome;
        }
    }

    pub(super) fn get(&self, index: usize) -> Result<&RegionMove, GpuMisuse> {
        self.moves().get(index).ok_or(GpuMisuse::Outside)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Result<&mut RegionMove, GpuMisuse> {
        self.run
            .current
            .as_mut_slice()
            .get_mut(index)
            .ok_or(GpuMisuse::Outside)
    }

    /// Ends the pass. Each copied region is then at its new place, with the same id and the second resource; its old resource is destroyed
    /// and its old place freed. Calls `visit` with each move and its result, without a lock. The device must have finished the copies and
    /// any use of the old resources. Allocates nothing and cannot fail.
    pub fn finish(self, mut visit: impl FnMut(&RegionMove, MoveResult)) {
        self.run.end_pass(Some(&mut visit));
    }
}

impl<D: DeviceMemory, A: HostAllocator> Drop for DefragmentationPass<'_, '_, D, A> {
    fn drop(&mut self) {
        self.run.end_pass(None);
    }
}

impl<D: DeviceMemory, A: HostAllocator> fmt::Debug for DefragmentationPass<'_, '_, D, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefragmentationPass")
            .field("moves", &self.moves())
            .finish_non_exhaustive()
    }
}
