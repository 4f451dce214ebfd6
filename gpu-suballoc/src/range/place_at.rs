//! Allocates ranges at fixed offsets, to restore a capture or to carry out a plan of offsets.

use alloc_core::HostAllocator;

use super::free_index::FreeIndex;
use super::free_search::{FreeRange, GranuleRequest};
use super::node_store::NodeStore;
use super::range_allocator::RangeAllocator;
use super::types::{AllocatedRange, NODES_PER_ALLOCATION, RangeError, RangeRequest};
use super::virtual_block::{
    VirtualAllocation, VirtualAllocationOptions, VirtualBlock, VirtualBlockError, VirtualRange,
};

impl RangeAllocator {
    /// Allocates a range at `offset`, in bytes. Examines each range and hole in front of it.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate); [`RangeError::Alignment`] if the offset is not a multiple of the alignment and the granule;
    /// [`RangeError::Full`] if the range is not completely free.
    pub(crate) fn allocate_at(
        &mut self,
        store: &NodeStore,
        index: &FreeIndex,
        offset: u64,
        want: &RangeRequest,
    ) -> Result<AllocatedRange, RangeError> {
        let request = GranuleRequest::new(want, self.count, self.granule_log2)?;
        let alignment = want.alignment.max(self.bytes(1));
        if !offset.is_multiple_of(alignment) {
            return Err(RangeError::Alignment);
        }
        let begin = u32::try_from(offset >> self.granule_log2).map_err(|_| RangeError::Full)?;
        if store.spare_nodes() < NODES_PER_ALLOCATION {
            return Err(RangeError::NoNodes);
        }
        if self.is_blank() {
            self.begin(store, index)?;
        }
        let mut id = store.at(self.edge).after.get();
        while id != self.edge {
            let node = store.at(id);
            let (first, count) = (node.first.get(), node.count.get());
            let within = begin.wrapping_sub(first);
            if begin >= first && within < count {
                if !node.is_free() || request.count > count - within {
                    return Err(RangeError::Full);
                }
                let hole = FreeRange {
                    id,
                    block: self.number,
                    first,
                    count,
                    begin,
                    granted: request.count,
                };
                return Ok(self.carve(store, index, &hole, want));
            }
            id = node.after.get();
        }
        Err(RangeError::Full)
    }
}

impl<A: HostAllocator> VirtualBlock<A> {
    /// Allocates a range at `offset`, for example to restore a capture. Examines each range and hole in front of it.
    ///
    /// `upper_address` is ignored.
    ///
    /// ```
    /// use alloc_core::FromGlobalAlloc;
    /// use gpu_suballoc::VirtualBlock;
    /// use gpu_suballoc::virtual_block::{VirtualAllocationOptions, VirtualBlockError};
    ///
    /// let mut block = VirtualBlock::new(FromGlobalAlloc::SYSTEM, 1 << 20, 256)?;
    /// let wanted = VirtualAllocationOptions::new(1000, 256);
    /// assert_eq!(block.allocate_at(4096, &wanted)?.offset, 4096);
    /// assert_eq!(block.allocate_at(4608, &wanted), Err(VirtualBlockError::Full)); // 4096 to 5119 are allocated
    /// # Ok::<(), VirtualBlockError>(())
    /// ```
    ///
    /// # Errors
    /// As [`allocate_with`](Self::allocate_with); [`VirtualBlockError::Alignment`] if the offset is not a multiple of the alignment and the
    /// granule; [`VirtualBlockError::Full`] if the range is not completely free and inside the block; [`VirtualBlockError::PlacesItself`]
    /// for a stack or a ring.
    pub fn allocate_at(
        &mut self,
        offset: u64,
        options: &VirtualAllocationOptions,
    ) -> Result<VirtualRange, VirtualBlockError> {
        if self.linear.is_some() {
            return Err(VirtualBlockError::PlacesItself);
        }
        if options.alignment.is_power_of_two() && options.alignment > self.core.size() {
            return Err(VirtualBlockError::TooLarge);
        }
        self.prepare_one()?;
        let want = RangeRequest {
            size: options.size,
            alignment: options.alignment,
            user_data: options.user_data,
            fit: super::types::Fit::Low,
        };
        let placed = self
            .core
            .allocate_at(&self.store, &self.index, offset, &want)?;
        Ok(VirtualRange {
            allocation: VirtualAllocation::new(placed.node, placed.generation, self.tag),
            offset: placed.offset,
            size: placed.size,
        })
    }
}
