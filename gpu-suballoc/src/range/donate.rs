//! The memory of a core: what it wants, what it can do without.

use core::ptr::NonNull;

use super::node::NIL;
use super::range_core::RangeCore;
use super::store::{Lack, Memory};

impl RangeCore {
    /// What to allocate next, so that `nodes` nodes can be had: [`NODES_PER_TAKE`](super::NODES_PER_TAKE) for a take; for a batch of `n`,
    /// `n + 1` where no alignment is above the granule, and `2 * n` otherwise. To be asked again after each
    /// [`supply`](Self::supply); `None` when there is enough, or when there are 2^32 nodes and cannot be more.
    #[inline]
    pub(crate) fn lacks(&self, nodes: u32) -> Option<Lack> {
        self.store.lacks(nodes)
    }

    /// Takes over what [`lacks`](Self::lacks) asked for. What comes back is to be freed: the outgrown table, or `block` itself
    /// where another thread was faster.
    ///
    /// # Safety
    /// `block` was allocated with `lack.layout()` for this core, which said `lack`, and nobody else uses it until the core gives it back.
    pub(crate) unsafe fn supply(&mut self, lack: Lack, block: NonNull<u8>) -> Option<Memory> {
        // SAFETY: the caller's promise.
        let unwanted = unsafe { self.store.supply(lack, block) };
        if self.is_blank() && self.store.spare_nodes() > 0 {
            self.begin();
        }
        unwanted
    }

    /// A chunk of nodes that is not needed: none of them is in use, and as many are spare elsewhere. Constant time. To be called
    /// after giving back, until there is none.
    #[inline]
    pub(crate) fn spare(&mut self) -> Option<Memory> {
        self.store.spare_chunk()
    }

    /// The end: a block of the core's memory, until there is none. From the first call on nothing is live, and nothing can be
    /// taken before memory is supplied again; no generation comes twice.
    pub(crate) fn dismantle(&mut self) -> Option<Memory> {
        if !self.is_blank() {
            self.clear();
            let edge = self.store.at(NIL);
            edge.before.set(NIL);
            edge.after.set(NIL);
        }
        self.store.dismantle()
    }

    /// The floor for the next core in this one's place: no id of this core carries that generation or a later one. Above
    /// [`MAX_GENERATION`](super::MAX_GENERATION) the place is used up.
    pub(crate) fn generation_ceiling(&self) -> u32 {
        self.store.ceiling()
    }

    /// Bytes of memory that the core has.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.store.bytes()
    }
}
