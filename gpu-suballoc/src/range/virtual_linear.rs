//! Virtual blocks that are stacks or rings.

use alloc_core::HostAllocator;

use super::linear::{LinearRange, LinearRanges, LinearRefusal, LinearShortage};
use super::rounding::align_down;
use super::virtual_block::{
    VirtualAllocation, VirtualAllocationInfo, VirtualAllocationOptions, VirtualBlock,
    VirtualBlockError, VirtualBlockStatistics, VirtualPiece, VirtualRange,
};
use crate::block_algorithm::BlockAlgorithm;
use crate::host_block::HostBlock;

impl From<LinearRefusal> for VirtualBlockError {
    fn from(refusal: LinearRefusal) -> Self {
        match refusal {
            LinearRefusal::Stale | LinearRefusal::OtherUserData => Self::Stale,
            LinearRefusal::OutOfOrder => Self::OutOfOrder,
        }
    }
}

impl<A: HostAllocator> VirtualBlock<A> {
    /// An empty block of `size` that uses `algorithm`. The first allocation of a range allocates host memory: for a stack or a ring, 40
    /// bytes for each range that is live at once, in one table that doubles and stays until the block is dropped.
    ///
    /// Ranges of a stack or a ring must be freed in order, by [`free`](Self::free) or [`free_batch`](Self::free_batch); otherwise the error
    /// is [`VirtualBlockError::OutOfOrder`]. All methods take constant time, except [`statistics`](Self::statistics),
    /// [`largest_free`](Self::largest_free) and [`for_each`](Self::for_each), which examine each range.
    ///
    /// ```
    /// use alloc_core::FromGlobalAlloc;
    /// use gpu_suballoc::{BlockAlgorithm, VirtualBlock};
    /// use gpu_suballoc::virtual_block::VirtualBlockError;
    ///
    /// // A ring of 1 MiB for uploads, which are freed in the order in which the device finishes with them.
    /// let mut ring = VirtualBlock::with_algorithm(FromGlobalAlloc::SYSTEM, 1 << 20, 256, BlockAlgorithm::Ring)?;
    /// let first = ring.allocate(600 << 10, 16)?;
    /// let second = ring.allocate(400 << 10, 16)?;
    /// assert_eq!(ring.allocate(200 << 10, 16), Err(VirtualBlockError::Full));
    /// assert_eq!(ring.free(second.allocation), Err(VirtualBlockError::OutOfOrder));
    ///
    /// ring.free(first.allocation)?;
    /// let third = ring.allocate(200 << 10, 16)?; // at the start again
    /// assert_eq!(third.offset, 0);
    /// ring.free(second.allocation)?;
    /// ring.free(third.allocation)?;
    /// # Ok::<(), VirtualBlockError>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_algorithm(
        memory: A,
        size: u64,
        granule: u64,
        algorithm: BlockAlgorithm,
    ) -> Result<Self, VirtualBlockError> {
        let mut block = Self::new(memory, size, granule)?;
        if algorithm.is_linear() {
            let whole = align_down(size, granule).ok_or(VirtualBlockError::Granule)?;
            block.linear = Some(LinearRanges::new(algorithm, granule, 0, whole));
        }
        Ok(block)
    }

    #[cold]
    pub(super) fn allocate_linear(
        &mut self,
        options: &VirtualAllocationOptions,
    ) -> Result<VirtualRange, VirtualBlockError> {
        if options.size == 0 {
            return Err(VirtualBlockError::ZeroSize);
        }
        if !options.alignment.is_power_of_two() {
            return Err(VirtualBlockError::Alignment);
        }
        if options.size.max(options.alignment) > self.size() {
            return Err(VirtualBlockError::TooLarge);
        }
        loop {
            let Some(linear) = &mut self.linear else {
                return Err(VirtualBlockError::Full);
            };
            let placed = linear.allocate(
                options.size,
                options.alignment,
                options.user_data,
                options.upper_address,
            );
            match placed {
                Ok(range) => {
                    return Ok(VirtualRange {
                        allocation: self.name_of(&range),
                        offset: range.offset,
                        size: range.size,
                    });
                }
                Err(LinearShortage::Full) => return Err(VirtualBlockError::Full),
                Err(LinearShortage::NoUpperEnd) => return Err(VirtualBlockError::NoUpperEnd),
                Err(LinearShortage::Nodes(_)) => self.reserve_linear(1)?,
            }
        }
    }

    /// Allocates memory for `more` ranges of a stack or ring.
    pub(super) fn reserve_linear(&mut self, more: u32) -> Result<(), VirtualBlockError> {
        let Some(linear) = self
            .linear
            .as_ref()
            .filter(|linear| !linear.has_capacity(more))
        else {
            return Ok(());
        };
        let layout = linear
            .missing_capacity(more)
            .ok_or(VirtualBlockError::TooManyRanges)?;
        let block = HostBlock::allocate(&self.memory, layout).map_err(VirtualBlockError::Host)?;
        if let Some(outgrown) = self
            .linear
            .as_mut()
            .and_then(|linear| linear.grow_with(block))
        {
            self.free_memory(outgrown);
        }
        Ok(())
    }

    fn name_of(&self, range: &LinearRange) -> VirtualAllocation {
        VirtualAllocation::new(range.node, range.generation, self.tag)
    }
}

/// Frees a range in order.
pub(super) fn free(
    linear: &mut LinearRanges,
    (node, generation): (u32, u32),
) -> Result<(), VirtualBlockError> {
    linear.check_order(node, generation)?;
    linear.free(node, generation, None)?;
    Ok(())
}

/// Frees ranges in order, all or none.
pub(super) fn free_batch(
    linear: &mut LinearRanges,
    allocations: &[VirtualAllocation],
) -> Result<(), (usize, VirtualBlockError)> {
    let names = || allocations.iter().map(|allocation| (*allocation).into());
    linear
        .check_orders(names())
        .map_err(|(number, refusal)| (number, refusal.into()))?;
    for (node, generation) in names() {
        let freed = linear.free(node, generation, None);
        debug_assert!(freed.is_ok(), "its turn was checked: {freed:?}");
    }
    Ok(())
}

pub(super) fn info(
    linear: &LinearRanges,
    (node, generation): (u32, u32),
) -> Result<VirtualAllocationInfo, VirtualBlockError> {
    let found = linear.get(node, generation)?;
    Ok(VirtualAllocationInfo {
        offset: found.offset,
        size: found.asked,
        user_data: found.user_data,
    })
}

/// Visits ranges and holes in order of offset.
pub(super) fn for_each(
    linear: &LinearRanges,
    size: u64,
    tag: u32,
    see: &mut dyn FnMut(VirtualPiece),
) {
    let mut end = 0;
    linear.for_each(&mut |range| {
        if range.offset > end {
            see(VirtualPiece {
                offset: end,
                size: range.offset - end,
                used: None,
            });
        }
        end = range.offset.saturating_add(range.size);
        let name = VirtualAllocation::new(range.node, range.generation, tag);
        see(VirtualPiece {
            offset: range.offset,
            size: range.size,
            used: Some((name, range.user_data)),
        });
    });
    if end < size {
        see(VirtualPiece {
            offset: end,
            size: size - end,
            used: None,
        });
    }
}

pub(super) fn statistics(linear: &LinearRanges, size: u64) -> VirtualBlockStatistics {
    let (allocation_count, allocation_bytes) = linear.totals();
    let mut sums = VirtualBlockStatistics {
        size,
        allocation_count,
        allocation_bytes,
        unused_range_count: 0,
        largest_free_bound: 0,
    };
    for_each(linear, size, 0, &mut |piece| {
        if piece.used.is_none() {
            sums.unused_range_count = sums.unused_range_count.saturating_add(1);
            sums.largest_free_bound = sums.largest_free_bound.max(piece.size);
        }
    });
    sums
}
