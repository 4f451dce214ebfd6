//! The memory of a core's own: the fronts of its bins. (Its nodes are a [`Store`]'s.)

use core::alloc::Layout;
use core::ptr::NonNull;

use super::range_core::RangeCore;
use super::store::{Memory, Store};

impl RangeCore {
    /// What to allocate before the first range is taken; `None` where that was supplied.
    #[inline]
    pub(crate) fn lacks(&self) -> Option<Layout> {
        self.heads.lacks()
    }

    /// Takes over what [`lacks`](Self::lacks) asked for. It comes back where another thread was faster.
    ///
    /// # Safety
    /// `block` was allocated with that layout, and nobody else uses it until the core gives it back.
    pub(crate) unsafe fn supply(&mut self, block: NonNull<u8>) -> Option<Memory> {
        // SAFETY: the caller's promise.
        unsafe { self.heads.supply(block) }
    }

    /// The end: the nodes go back to the store, whatever was live is stale; the core's own memory is to be freed.
    pub(crate) fn dismantle(&mut self, store: &Store) -> Option<Memory> {
        self.clear(store);
        self.heads.withdraw()
    }

    /// Bytes of memory that the core has of its own.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.heads.bytes()
    }
}
