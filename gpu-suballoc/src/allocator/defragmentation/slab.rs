//! Moves regions of slabs: each region has its own move. All moves of one slab share a target, and either all regions move or none.
//!
//! ```text
//!   ready, current:   .. | region a | slab 5: b | slab 5: c | slab 5: d | region e | ..       contiguous, in one pass
//!                                     \________ one target ________/
//! ```
//!
//! A region with its own range is a group of one move.

#![forbid(unsafe_code)]

use alloc_core::HostAllocator;

use super::pass::BATCH;
use super::{Defragmentation, RegionMove};
use crate::device::DeviceMemory;
use crate::error::GpuError;
use crate::id::NO_RECORD;
use crate::pool::{BlockRegion, Suballocation};
use crate::region_metadata::MovingRoot;

/// The slab that a place was reserved for last.
pub(super) struct ReservedSlab {
    number: u32,
    /// Offset of the slab.
    base: u64,
    target: Suballocation,
}

/// The number of moves at the end of the list that share the last move's target.
pub(super) fn last_group(moves: &[RegionMove]) -> usize {
    let Some((last, rest)) = moves.split_last() else {
        return 0;
    };
    let others = rest.iter().rev().take_while(|one| one.moves_with(last));
    others.count().saturating_add(1)
}

/// The number of moves in the last undecided groups of `pool`: whole groups, until there are at least [`BATCH`] moves.
pub(super) fn last_undecided(moves: &[RegionMove], pool: u16) -> usize {
    let mut rest = moves;
    while let Some(last) = rest.last()
        && last.ended.is_none()
        && last.region.at().place.pool() == pool
        && moves.len().saturating_sub(rest.len()) < BATCH
    {
        rest = (rest.get(..rest.len().saturating_sub(last_group(rest)))).unwrap_or(&[]);
    }
    moves.len().saturating_sub(rest.len())
}

impl<D: DeviceMemory, A: HostAllocator> Defragmentation<'_, D, A> {
    /// As [`reserve_region`](Self::reserve_region), for a region of a slab. The call for the first region reserves the place of the whole
    /// slab. After an error, no place is reserved for the slab, or a ready move has it.
    pub(super) fn reserve_slab_region(
        &self,
        order: usize,
        region: &BlockRegion,
        known: Option<MovingRoot>,
        slab: &mut Option<ReservedSlab>,
    ) -> Result<Option<RegionMove>, GpuError> {
        let allocator = self.allocator;
        let at = region.at;
        let new_record = if region.record == NO_RECORD {
            allocator.records.create_bare(allocator.host(), at)?
        } else {
            NO_RECORD
        };
        let attached = allocator.pools.attach_to_slab_region(at, new_record);
        let is_attached = matches!(attached, Ok((_, record)) if record == new_record);
        if new_record != NO_RECORD && !is_attached {
            allocator.records.cancel_bare(new_record);
        }
        let (found, record) = attached?;
        let number = at.place.block();
        let reserved = match slab {
            Some(reserved) if reserved.number == number => reserved,
            _ => {
                let device_and_host = allocator.device_and_host();
                let prepared =
                    allocator
                        .pools
                        .prepare_slab(device_and_host, at.place.pool(), number)?;
                let Some(target) = prepared.target else {
                    return Ok(None);
                };
                slab.insert(ReservedSlab {
                    number,
                    base: prepared.base,
                    target,
                })
            }
        };
        let target = &reserved.target;
        let offset_in_slab = found.offset.saturating_sub(reserved.base);
        let to = (target.offset.saturating_add(offset_in_slab), found.size);
        Ok(Some(self.new_move(
            order,
            known,
            at,
            record,
            (&found, target),
            to,
        )))
    }

    /// Removes the last ready move. Frees its reserved place if no other move of its group is ready.
    pub(super) fn cancel_last(&mut self) {
        if let Some(waiting) = self.ready.pop() {
            self.free_unshared_target(&waiting);
        }
    }

    /// Frees the reserved place of a move, unless the last ready move shares it.
    pub(super) fn free_unshared_target(&self, of: &RegionMove) {
        let last = self.ready.as_slice().last();
        if !last.is_some_and(|last| last.moves_with(of)) {
            self.free_target(of);
        }
    }
}
