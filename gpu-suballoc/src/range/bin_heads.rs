//! The head of each bin: the number of its first hole, four bytes for each bin.

#![forbid(unsafe_code)]

use core::alloc::Layout;
use core::cell::Cell;

use super::node::NIL;
use crate::growable_vec::GrowableVec;
use crate::host_block::HostBlock;

/// The first hole of each bin; [`NIL`]: the bin is empty.
#[derive(Debug)]
pub(super) struct BinHeads {
    heads: GrowableVec<Cell<u32>>,
}

impl BinHeads {
    /// Without memory and without bins.
    pub(super) const fn new() -> Self {
        Self {
            heads: GrowableVec::new(),
        }
    }

    /// The head of a bin. `None` if there is no memory for it.
    #[inline]
    pub(super) fn at(&self, bin: u32) -> Option<&Cell<u32>> {
        self.heads.get(bin)
    }

    /// Whether there is memory for bins.
    #[inline]
    pub(super) fn has_memory(&self) -> bool {
        self.heads.len() > 0
    }

    /// The memory to allocate for the bins below `bins`; `None` if it is there.
    #[inline]
    pub(super) fn missing_capacity(&self, bins: u32) -> Option<Layout> {
        if self.heads.len() >= bins {
            None
        } else {
            GrowableVec::<Cell<u32>>::layout(bins)
        }
    }

    /// Moves the heads into `block`; all new bins are empty. Returns the memory to free: the former memory, or `block` if it is not larger.
    pub(super) fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        let back = self.heads.grow_with(block);
        while self.heads.push(Cell::new(NIL)).is_ok() {}
        back
    }

    /// Returns the memory, to be freed.
    pub(super) fn detach_memory(&mut self) -> Option<HostBlock> {
        self.heads.detach_memory()
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        size_of_val(self.heads.as_slice()) as u64
    }
}
