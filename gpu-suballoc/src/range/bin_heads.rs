//! The front of each bin: the number of its first hole, four bytes a bin.

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
    /// Without memory: no bin is there.
    pub(super) const fn new() -> Self {
        Self {
            heads: GrowableVec::new(),
        }
    }

    /// The front of a bin. `None` where there is no memory for it.
    #[inline]
    pub(super) fn at(&self, bin: u32) -> Option<&Cell<u32>> {
        self.heads.get(bin)
    }

    /// Whether there is a bin.
    #[inline]
    pub(super) fn has_memory(&self) -> bool {
        self.heads.len() > 0
    }

    /// What to allocate, where there is no memory for the bins below `bins` yet.
    #[inline]
    pub(super) fn missing_capacity(&self, bins: u32) -> Option<Layout> {
        if self.heads.len() >= bins {
            None
        } else {
            GrowableVec::<Cell<u32>>::layout(bins)
        }
    }

    /// Takes the memory over, with all new bins empty. What is to be freed comes back: the memory before, or `block` where that is as
    /// large.
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
