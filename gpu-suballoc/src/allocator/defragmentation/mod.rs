//! Moves regions so that whole blocks become empty. The user records the copies.
//!
//! ```text
//!   defragment(options)   chooses the blocks to drain: nothing is allocated in them any more   plan.rs
//!     next_pass           reserves places in the other blocks for the regions of a block       plan.rs
//!       make_buffer, ..   creates a second resource, bound at the new place                    pass.rs
//!       (the user: copy commands, a fence)
//!       finish            each region is at the new place, or stays, or is destroyed           pass.rs
//!     next_pass           .. until a pass is empty
//!   drop                  frees reserved places; blocks that are not empty become ordinary blocks again
//! ```
//!
//! No lock is held between calls, nor while the device, the host allocator or the user's filter is called.

mod pass;
mod plan;
mod types;

pub use pass::DefragmentationPass;
pub use types::{
    DefragmentationOptions, DefragmentationTotals, MoveOutcome, MovePlace, MoveResult, RegionMove,
    SkippedRegions,
};

use core::fmt;

use alloc_core::{HostAllocator, Scope, Scoped, TryVec};

use self::plan::DrainedBlock;
use super::GpuAllocator;
use super::counting_allocator::CountingAllocator;
use crate::device::DeviceMemory;
use crate::error::{GpuError, GpuMisuse};
use crate::id::{BlockRef, RegionPlace};
use crate::region::Region;

/// A list of a defragmentation, in the allocator's host memory.
type MoveList<'a, T, A> = TryVec<T, Scoped<&'a CountingAllocator<A>>>;

/// Words of a set of pools.
const POOL_WORDS: usize = BlockRef::POOLS as usize / 64;

/// A defragmentation under way: see [`GpuAllocator::defragment`].
///
/// Any thread may go on with it, if the host allocator is `Sync`. Dropping it ends the defragmentation: reserved places are freed, and blocks that are not empty yet become ordinary blocks again. After
/// `core::mem::forget`, the pools stay reserved: they cannot be defragmented again or destroyed, regions of the last pass remain in memory
/// although they are freed, and [`close`](GpuAllocator::close) returns an error. Only dropping the allocator, or
/// [`abandon`](GpuAllocator::abandon), ends this state.
#[must_use = "dropping it ends the defragmentation before anything has moved"]
pub struct Defragmentation<'a, D: DeviceMemory, A: HostAllocator> {
    allocator: &'a GpuAllocator<D, A>,
    options: DefragmentationOptions<'a>,
    /// The pools that are being defragmented.
    begun: [u64; POOL_WORDS],
    /// The blocks to drain, in this order.
    blocks: MoveList<'a, DrainedBlock, A>,
    /// Number of blocks whose regions were examined. `done`: the number of blocks, at most as many, that are finished.
    looked_at: usize,
    done: usize,
    /// Regions of the block that is being examined.
    regions: MoveList<'a, RegionPlace, A>,
    /// Moves with a reserved place that no pass contains yet; the next move is the last element.
    ready: MoveList<'a, RegionMove, A>,
    /// Moves of the current pass.
    current: MoveList<'a, RegionMove, A>,
    skipped: SkippedRegions,
    totals: DefragmentationTotals,
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Begins to move regions so that whole blocks become empty. Chooses the blocks to drain: until they are empty or the defragmentation
    /// ends, nothing is allocated in them. Then [`next_pass`](Defragmentation::next_pass) returns the regions to copy. To see only the
    /// plan, drop the result.
    ///
    /// Any thread may allocate, free, map and crop during the defragmentation. This call examines each region of the chosen blocks.
    ///
    /// # Errors
    /// [`GpuMisuse::Defragmenting`] if one of the pools is being defragmented already; [`GpuMisuse::NoSuchPool`]; the host allocator's
    /// error, after which buffers kept for reuse may be destroyed. Otherwise an error changes nothing.
    #[doc(alias("vmaBeginDefragmentation"))]
    pub fn defragment<'a>(
        &'a self,
        options: DefragmentationOptions<'a>,
    ) -> Result<Defragmentation<'a, D, A>, GpuError> {
        self.check_pool(options.pool)?;
        let memory = Scoped::new(&*self.memory, Scope::Object);
        let mut run = Defragmentation {
            allocator: self,
            options,
            begun: [0; POOL_WORDS],
            blocks: TryVec::new_in(memory),
            looked_at: 0,
            done: 0,
            regions: TryVec::new_in(memory),
            ready: TryVec::new_in(memory),
            current: TryVec::new_in(memory),
            skipped: SkippedRegions::default(),
            totals: DefragmentationTotals::default(),
        };
        match options.pool {
            Some(pool) => {
                self.pools().check_custom(pool.index, pool.generation)?;
                run.begin_pool(pool.index, Some(pool.generation))?;
            }
            None => {
                for index in (0..BlockRef::POOLS as u16).filter(|at| self.pools.has_pool(*at)) {
                    run.begin_pool(index, None)?;
                }
            }
        }
        // Buffers kept for reuse would be obstacles.
        self.evict_reusable(0, 0);
        match options.pool {
            Some(pool) => run.plan_pool(pool.index)?,
            None => {
                let wrapped = self.records.counts().wrapped;
                run.skipped.add(|to| &mut to.wrapped, wrapped);
                for index in (0..BlockRef::POOLS as u16).filter(|at| self.pools.has_pool(*at)) {
                    run.plan_pool(index)?;
                }
            }
        }
        Ok(run)
    }

    /// Updates the place and the resource in `region` after a defragmentation.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`], [`GpuMisuse::OtherAllocator`]; then `region` is unchanged.
    pub fn refresh(&self, region: &mut Region) -> Result<(), GpuError> {
        if region.id.tag() != self.tag {
            return Err(GpuMisuse::OtherAllocator.into());
        }
        if self.may_have_moved(region) {
            match self.region_of(region.id) {
                Ok(now) => *region = now,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl<D: DeviceMemory, A: HostAllocator> Defragmentation<'_, D, A> {
    /// The work done so far, and the plan.
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
        // Ends a pass that was forgotten.
        self.end_pass(None);
        while !self.ready.as_slice().is_empty() {
            self.cancel_last();
        }
        self.looked_at = self.blocks.as_slice().len();
        self.end_drained();
        for (first, mut word) in (0u16..).step_by(64).zip(self.begun) {
            while word != 0 {
                let index = first + word.trailing_zeros() as u16;
                self.allocator.pools().end_defragmentation(index);
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
