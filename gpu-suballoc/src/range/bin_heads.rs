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
    /// None while there is no memory, then all.
    heads: GrowableVec<Cell<u32>>,
    bins: u32,
}

impl BinHeads {
    /// For bins below `bins`, without memory.
    pub(super) const fn new(bins: u32) -> Self {
        Self {
            heads: GrowableVec::new(),
            bins,
        }
    }

    /// The front of a bin. `None` without memory.
    #[inline]
    pub(super) fn at(&self, bin: u32) -> Option<&Cell<u32>> {
        self.heads.get(bin)
    }

    /// What to allocate, where there is no memory yet.
    #[inline]
    pub(super) fn missing_capacity(&self) -> Option<Layout> {
        if self.heads.len() != 0 {
            None
        } else {
            GrowableVec::<Cell<u32>>::layout(self.bins)
        }
    }

    /// Takes the memory over, with all bins empty; `block` comes back where there is memory already.
    pub(super) fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        let back = self.heads.grow_with(block);
        while self.heads.len() < self.bins && self.heads.push(Cell::new(NIL)).is_ok() {}
        back
    }

    /// Gives the memory back.
    pub(super) fn detach_memory(&mut self) -> Option<HostBlock> {
        self.heads.detach_memory()
    }

    /// All bins are empty.
    pub(super) fn clear(&self) {
        for head in self.heads.as_slice() {
            head.set(NIL);
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        size_of_val(self.heads.as_slice()) as u64
    }
}
