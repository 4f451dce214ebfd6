//! Moving regions so that whole blocks become empty, with copies that the user records.
//!
//! ```text
//!   defragment(options)   which blocks to empty: nothing is allocated there any more
//!     next_pass           for the regions of a block: room in the blocks that stay, reserved;  plan.rs
//!       make_buffer, ..   a second resource, bound there                                       make.rs
//!       (the user: copy commands, a fence)
//!       finish            each move: the region lies at the new place, or stays, or is gone    pass.rs
//!     next_pass           .. until a pass is empty
//!   drop                  reservations are freed; what was to be emptied and is not, is an ordinary block again
//! ```
//!
//! The regions of a slab are moves of one pass, and move together or not at all: slab.rs.
//!
//! No lock is held between calls, and none while the device, the host allocator or the user's filter is called.

mod make;
mod pass;
mod plan;
mod slab;
mod types;

pub use pass::DefragmentationPass;
pub use types::{
    DefragmentationOptions, DefragmentationTotals, MoveOutcome, MovePlace, MoveResult, RegionMove,
    SkippedRegions,
};

use core::fmt;

use alloc_core::{HostAllocator, Scope, Scoped, TryVec};

use self::plan::DrainedBlock;
use self::types::SkipReason;
use super::GpuAllocator;
use crate::device::DeviceMemory;
use crate::error::{GpuError, GpuMisuse};
use crate::id::RegionPlace;
use crate::pool::BlockRegion;
use crate::region::Region;

/// Memory for the bookkeeping of a defragmentation: the allocator's host memory.
type MoveList<'a, T> = TryVec<T, Scoped<&'a dyn HostAllocator>>;

/// A set of pools.
const POOL_WORDS: usize = RegionPlace::POOLS as usize / 64;

/// A defragmentation under way: see [`GpuAllocator::defragment`].
///
/// Dropping it ends it: reservations are freed, and blocks that are not empty yet are ordinary blocks again. One that is forgotten
/// (`core::mem::forget`) keeps them: no other one of the same pools can begin, the pools cannot be destroyed, regions of its last pass are
/// never gone although they are freed, and [`close`](GpuAllocator::close) is refused. Only dropping the allocator, or
/// [`abandon`](GpuAllocator::abandon), ends that.
#[must_use = "dropping it ends the defragmentation before anything has moved"]
pub struct Defragmentation<'a, D: DeviceMemory, A: HostAllocator> {
    allocator: &'a GpuAllocator<D, A>,
    options: DefragmentationOptions<'a>,
    /// Pools that this one defragments.
    begun: [u64; POOL_WORDS],
    /// In the order in which they are drained.
    blocks: MoveList<'a, DrainedBlock>,
    /// How many of them had their regions looked at, and how many of these are done with.
    looked_at: usize,
    done: usize,
    /// Regions of the chosen blocks when they were chosen, those of blocks that are done with left out.
    expected_moves: usize,
    /// Regions of the block that is looked at.
    regions: MoveList<'a, BlockRegion>,
    /// Moves with a reservation that were not handed out yet, the next one last.
    ready: MoveList<'a, RegionMove>,
    /// Moves of the pass that is under way.
    current: MoveList<'a, RegionMove>,
    skipped: SkippedRegions,
    totals: DefragmentationTotals,
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Begins to move regions so that whole blocks become empty: chooses the blocks, in which nothing is allocated from now on. Then
    /// [`next_pass`](Defragmentation::next_pass) says what to copy. A plan alone is one that is dropped.
    ///
    /// Any thread may allocate, free, map and crop meanwhile; room in the chosen blocks is not used until they are empty or this ends.
    /// It looks at each region of the chosen blocks.
    ///
    /// # Errors
    /// [`GpuMisuse::Defragmenting`] where one of the pools is being defragmented already; [`GpuMisuse::NoSuchPool`]; what the host allocator
    /// refuses. Everything is as it was then, but that after a refusal of the host allocator kept buffers may be gone.
    pub fn defragment<'a>(
        &'a self,
        options: DefragmentationOptions<'a>,
    ) -> Result<Defragmentation<'a, D, A>, GpuError> {
        self.check_pool(options.pool)?;
        let memory = Scoped::new(self.host(), Scope::Object);
        let mut run = Defragmentation {
            allocator: self,
            options,
            begun: [0; POOL_WORDS],
            blocks: TryVec::new_in(memory),
            looked_at: 0,
            done: 0,
            expected_moves: 0,
            regions: TryVec::new_in(memory),
            ready: TryVec::new_in(memory),
            current: TryVec::new_in(memory),
            skipped: SkippedRegions::default(),
            totals: DefragmentationTotals::default(),
        };
        match options.pool {
            Some(pool) => {
                self.pools.check_custom(pool.index, pool.generation)?;
                run.begin_pool(pool.index, Some(pool.generation))?;
            }
            None => {
                for index in (0..RegionPlace::POOLS as u16).filter(|at| self.pools.has_pool(*at)) {
                    run.begin_pool(index, None)?;
                }
            }
        }
        // Nobody's, and in the way.
        self.evict_reusable(0, 0);
        self.shards.free_idle(self.device_and_host(), &self.pools);
        match options.pool {
            Some(pool) => run.plan_pool(pool.index)?,
            None => {
                let wrapped = self.records.counts().wrapped;
                run.skipped.add(SkipReason::Wrapped, wrapped);
                for index in (0..RegionPlace::POOLS as u16).filter(|at| self.pools.has_pool(*at)) {
                    run.plan_pool(index)?;
                }
            }
        }
        Ok(run)
    }

    /// Makes a region say where it lies now, and which resource it has: after a defragmentation.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`], [`GpuMisuse::OtherAllocator`]; the region is as it was then.
    pub fn refresh(&self, region: &mut Region) -> Result<(), GpuError> {
        if region.id.tag() != self.tag {
            return Err(GpuMisuse::OtherAllocator.into());
        }
        if self.may_have_moved(region) {
            match self.region_of(region.id) {
                Ok(now) => *region = now,
                // A shard's pages stay where they are.
                Err(GpuMisuse::OtherShard) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl<D: DeviceMemory, A: HostAllocator> Defragmentation<'_, D, A> {
    /// What was done so far, and what was planned.
    #[must_use]
    pub const fn totals(&self) -> DefragmentationTotals {
        self.totals
    }

    /// Regions that kept their blocks from being emptied.
    #[must_use]
    pub const fn skipped(&self) -> SkippedRegions {
        self.skipped
    }
}

impl<D: DeviceMemory, A: HostAllocator> Drop for Defragmentation<'_, D, A> {
    fn drop(&mut self) {
        // A pass that was forgotten.
        self.end_pass(None);
        while !self.ready.as_slice().is_empty() {
            self.cancel_last();
        }
        self.looked_at = self.blocks.as_slice().len();
        self.end_drained();
        for (first, mut word) in (0u16..).step_by(64).zip(self.begun) {
            while word != 0 {
                let index = first + word.trailing_zeros() as u16;
                self.allocator.pools.end_defragmentation(index);
                word &= word - 1;
            }
        }
    }
}

impl<D: DeviceMemory, A: HostAllocator> fmt::Debug for Defragmentation<'_, D, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Defragmentation")
            .field("totals", &self.totals)
            .field("skipped", &self.skipped)
            .finish_non_exhaustive()
    }
}
