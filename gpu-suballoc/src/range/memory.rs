//! The memory of a core's own: the fronts of its bins. (Its nodes are a [`NodeStore`]'s.)

#![forbid(unsafe_code)]

use core::alloc::Layout;

use super::node_store::NodeStore;
use super::range_allocator::RangeAllocator;
use crate::host_block::HostBlock;

impl RangeAllocator {
    /// What to allocate before the first range is taken; `None` where that was supplied.
    #[inline]
    pub(crate) fn missing_capacity(&self) -> Option<Layout> {
        self.bin_heads.missing_capacity()
    }

    /// Takes over what [`missing_capacity`](Self::missing_capacity) asked for. It comes back where another thread was faster.
    pub(crate) fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        self.bin_heads.grow_with(block)
    }

    /// The end: the nodes go back to the store, whatever was live is stale; the core's own memory is to be freed.
    pub(crate) fn detach_memory(&mut self, store: &NodeStore) -> Option<HostBlock> {
        self.clear(store);
        self.bin_heads.detach_memory()
    }

    /// Bytes of memory that the core has of its own.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.bin_heads.bytes()
    }
}
