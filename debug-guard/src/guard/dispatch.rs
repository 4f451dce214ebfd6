//! What becomes of a request.

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{AllocError, HostAllocator, Scope};

use super::state::Core;
use super::tally::Count;

impl Core {
    /// Gives a block; of no bytes too.
    #[inline]
    pub(super) fn take<M: HostAllocator>(
        &self,
        memory: &M,
        layout: Layout,
        scope: Scope,
        zeroed: bool,
    ) -> Result<NonNull<u8>, AllocError> {
        let block = if zeroed { memory.allocate_zeroed(layout, scope) } else { memory.allocate(layout, scope) }?;
        self.tally.add(Count::OffTaken, Count::OffTakenBytes, layout.size());
        Ok(block)
    }

    /// # Safety
    /// As [`HostAllocator::deallocate`], as far as the guard is not to find out.
    #[inline]
    pub(super) unsafe fn give<M: HostAllocator>(&self, memory: &M, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: a block that was passed on; the caller's promise.
        unsafe { memory.deallocate(block, layout, scope) };
        self.tally.add(Count::OffGiven, Count::OffGivenBytes, layout.size());
    }

    /// # Safety
    /// As [`HostAllocator::grow`] or [`HostAllocator::shrink`], as far as the guard is not to find out.
    pub(super) unsafe fn resize<M: HostAllocator>(
        &self,
        memory: &M,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        let moved = if new.size() >= old.size() {
            // SAFETY: a block that was passed on; the caller's promise.
            unsafe { memory.grow(block, old, new, scope) }
        } else {
            // SAFETY: as above.
            unsafe { memory.shrink(block, old, new, scope) }
        }?;
        self.tally.add(Count::OffGiven, Count::OffGivenBytes, old.size());
        self.tally.add(Count::OffTaken, Count::OffTakenBytes, new.size());
        Ok(moved)
    }
}
