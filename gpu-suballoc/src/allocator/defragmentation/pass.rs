//! Passes: moves are handed out, and carried out or not.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::HostAllocator;

use super::{Defragmentation, MoveOutcome, MoveResult, RegionMove};
use crate::device::DeviceMemory;
use crate::error::{GpuError, GpuMisuse};
use crate::region::RegionContent;
use crate::region_metadata::{MoveEnd, MoveEnding};

/// Learns what became of each move.
type MoveSink<'s> = &'s mut dyn FnMut(&RegionMove, MoveResult);

/// Regions to copy, then to be [finished](Self::finish). Dropped instead, it leaves every region where it is, destroys the second
/// resources that were made, and frees the places: the device must have finished with them then too.
#[must_use = "dropping it leaves every region where it is"]
pub struct DefragmentationPass<'p, 'a, D: DeviceMemory, A: HostAllocator> {
    pub(super) run: &'p mut Defragmentation<'a, D, A>,
}

impl<'a, D: DeviceMemory, A: HostAllocator> Defragmentation<'a, D, A> {
    /// The next regions to move, with room reserved for them; none when everything is done. It looks at each region of the next blocks.
    ///
    /// # Errors
    /// What the host allocator refuses, where no move is in hand. The block in question is given up either way, without being counted in
    /// [`skipped`](Self::skipped); the next call goes on with the others.
    pub fn next_pass(&mut self) -> Result<DefragmentationPass<'_, 'a, D, A>, GpuError> {
        // A pass that was forgotten.
        self.end_pass(None);
        // Refused, it grows step by step. Limits in bytes mean few moves, which are not known beforehand.
        if self.options.max_bytes == u64::MAX {
            let moves = self.expected_moves.min(self.options.max_moves);
            let _ = self.current.try_reserve(moves);
        }
        let mut bytes = 0u64;
        while self.current.as_slice().len() < self.options.max_moves.max(1) {
            let Some(next) = self.ready.as_slice().last().copied() else {
                let order = self.looked_at;
                let Some(&block) = self.blocks.as_slice().get(order) else {
                    break;
                };
                self.looked_at = order.saturating_add(1);
                let reserved = self.reserve_block(order, block);
                if reserved.is_err() && self.current.as_slice().is_empty() {
                    reserved?;
                }
                continue;
            };
            let sum = bytes.saturating_add(next.size);
            if sum > self.options.max_bytes && !self.current.as_slice().is_empty() {
                break;
            }
            if let Err(error) = self.current.try_reserve(1) {
                if self.current.as_slice().is_empty() {
                    return Err(error.into());
                }
                break;
            }
            let _ = self.ready.pop();
            // It was freed, mapped or taken apart since room was reserved for it: its block stays, and the others of it too.
            if !self
                .allocator
                .records
                .begin_move(next.record, next.region.at())
            {
                self.free_target(&next);
                continue;
            }
            bytes = sum;
            if self.current.try_push(next).is_err() {
                break;
            }
        }
        if self.current.as_slice().is_empty() {
            self.end_drained();
        }
        Ok(DefragmentationPass { run: self })
    }

    /// Carries out what the moves of the pass say, the last one first; where nobody wants to `see` it, all are ignored.
    pub(super) fn end_pass(&mut self, mut see: Option<MoveSink<'_>>) {
        let mut any = false;
        // Whatever calls back from here finds the move gone that is being ended.
        while let Some(one) = self.current.pop() {
            any = true;
            let outcome = if see.is_some() {
                one.outcome
            } else {
                MoveOutcome::Ignored
            };
            let result = self.end_move(&one, outcome);
            if let Some(see) = &mut see {
                see(&one, result);
            }
        }
        if any {
            self.totals.passes = self.totals.passes.saturating_add(u32::from(see.is_some()));
            self.end_drained();
        }
    }

    /// Blocks of which no move is left to hand out are done with.
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

    fn end_move(&mut self, one: &RegionMove, outcome: MoveOutcome) -> MoveResult {
        let allocator = self.allocator;
        let key = one.region.at();
        let ending = match outcome {
            MoveOutcome::Ignored => MoveEnding::Keep,
            MoveOutcome::Destroyed => MoveEnding::Destroy,
            // Its resource would be lost.
            MoveOutcome::Copied if one.content != RegionContent::Bare && one.new_resource == 0 => {
                MoveEnding::Keep
            }
            MoveOutcome::Copied => MoveEnding::Commit {
                resource: one.new_resource,
            },
        };
        let ended = allocator
            .records
            .end_move(one.record, key, ending, &mut || {
                allocator.note_moved();
                allocator.pools.exchange(key, one.target)
            });
        debug_assert!(ended.is_ok(), "its move was begun: {ended:?}");
        let result = match ended {
            Ok(MoveEnd::Moved { old_resource }) => {
                allocator.destroy_resource(one.content, old_resource);
                self.free_old_place(one);
                self.totals.moves = self.totals.moves.saturating_add(1);
                self.totals.moved_bytes = self.totals.moved_bytes.saturating_add(one.size);
                return MoveResult::Moved;
            }
            Ok(MoveEnd::Stayed) | Err(_) => {
                allocator.destroy_resource(one.content, one.new_resource);
                MoveResult::Stayed
            }
            Ok(MoveEnd::Removed { root, meanwhile }) => {
                allocator.destroy_resource(one.content, one.new_resource);
                allocator.destroy_removed_root(root);
                if meanwhile {
                    MoveResult::Freed
                } else {
                    MoveResult::Destroyed
                }
            }
        };
        self.free_target(one);
        result
    }
}

impl<D: DeviceMemory, A: HostAllocator> DefragmentationPass<'_, '_, D, A> {
    /// The moves. Two of them never share a byte, neither of what they read nor of what they write.
    #[must_use]
    pub fn moves(&self) -> &[RegionMove] {
        self.run.current.as_slice()
    }

    /// Nothing is left to move.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.moves().is_empty()
    }

    /// Says what was done about the move of that number; before that it is [`MoveOutcome::Ignored`].
    ///
    /// # Errors
    /// [`GpuMisuse::Outside`] where there is no such move.
    pub fn set_outcome(&mut self, index: usize, outcome: MoveOutcome) -> Result<(), GpuMisuse> {
        self.get_mut(index)?.outcome = outcome;
        Ok(())
    }

    /// The same for all moves.
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

    /// Ends the pass: each region that was copied lies at its new place under the id that it has, with the resource that was made for it;
    /// its old resource is destroyed and its old place freed. `see` is called for each move, without a lock, and with what became of it.
    /// The device must have finished with what was copied. Allocates nothing and cannot fail.
    pub fn finish(self, mut see: impl FnMut(&RegionMove, MoveResult)) {
        self.run.end_pass(Some(&mut see));
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
