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

mod pass;
mod plan;
mod types;

pub use crate::pool::defragment::SkippedRegions;
pub use crate::region_metadata::{MoveOutcome, MoveResult};
pub use pass::DefragmentationPass;
pub use types::{DefragmentationOptions, DefragmentationTotals, MovePlace, RegionMove};

use alloc_core::{HostAllocator, Scope, Scoped, TryVec};

use super::GpuAllocator;
use super::counting_allocator::CountingAllocator;
use crate::device::DeviceMemory;
use crate::error::GpuError;
use crate::flags::debug_fields;
use crate::id::{BlockRef, RegionPlace};
use crate::region::Region;

type MoveList<'a, T, A> = TryVec<T, Scoped<&'a CountingAllocator<A>>>;

/// A defragmentation under way: see [`GpuAllocator::defragment`].
///
/// Dropping it frees reserved places, and makes blocks that are not empty ordinary again. After `core::mem::forget` its
/// pools cannot be defragmented or destroyed, nor the allocator [closed](GpuAllocator::close).
#[must_use = "dropping it ends the defragmentation before anything has moved"]
pub struct Defragmentation<'a, D: DeviceMemory, A: HostAllocator> {
    allocator: &'a GpuAllocator<D, A>,
    options: DefragmentationOptions<'a>,
    begun: [bool; BlockRef::POOLS as usize],
    blocks: MoveList<'a, BlockRef, A>,
    looked_at: usize,
    done: usize,
    regions: MoveList<'a, RegionPlace, A>,
    /// The next one is last.
    ready: MoveList<'a, RegionMove, A>,
    current: MoveList<'a, RegionMove, A>,
    skipped: SkippedRegions,
    totals: DefragmentationTotals,
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Begins to move regions so that whole blocks become empty: nothing is allocated in the blocks to drain until they
    /// are empty or the defragmentation ends. Then [`next_pass`](Defragmentation::next_pass) returns the regions to
    /// copy. To see only the plan, drop the result.
    ///
    /// Meanwhile any thread may allocate, free, map and crop.
    ///
    /// # Errors
    /// [`GpuMisuse::Defragmenting`](crate::GpuMisuse::Defragmenting) if one of the pools is being defragmented;
    /// [`GpuMisuse::NoSuchPool`](crate::GpuMisuse::NoSuchPool); the host allocator's error, after
    /// which kept buffers may be destroyed.
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
            begun: [false; BlockRef::POOLS as usize],
            blocks: TryVec::new_in(memory),
            looked_at: 0,
            done: 0,
            regions: TryVec::new_in(memory),
            ready: TryVec::new_in(memory),
            current: TryVec::new_in(memory),
            skipped: SkippedRegions::default(),
            totals: DefragmentationTotals::default(),
        };
        let pools = match options.pool {
            Some(pool) => pool.index..pool.index + 1,
            None => 0..BlockRef::POOLS as u16,
        };
        for index in pools.clone() {
            run.begin_pool(index, options.pool.map(|pool| pool.generation))?;
        }
        // Buffers kept for reuse would be obstacles.
        self.evict_reusable(0, 0);
        if options.pool.is_none() {
            let wrapped = self.records.counts().wrapped;
            run.skipped.add(|to| &mut to.wrapped, wrapped);
        }
        for index in pools {
            run.plan_pool(index)?;
        }
        Ok(run)
    }

    /// Updates the place and the resource in `region` after a defragmentation.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`](crate::GpuMisuse::Stale), [`GpuMisuse::OtherAllocator`](crate::GpuMisuse::OtherAllocator);
    /// then `region` is unchanged.
    pub fn refresh(&self, region: &mut Region) -> Result<(), GpuError> {
        *region = self.region_of(region.id)?;
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
        for (index, _) in (0..).zip(self.begun).filter(|(_, begun)| *begun) {
            self.allocator.pools().end_defragmentation(index);
        }
    }
}

debug_fields!(
    [D: DeviceMemory, A: HostAllocator] Defragmentation<'_, D, A>, "Defragmentation",
    |this| totals = this.totals, skipped = this.skipped
);
