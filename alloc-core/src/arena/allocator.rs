//! `&Arena` as an allocator, so that collections can live in one.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};

use super::{Arena, plan};
use crate::adapters::HostSource;
use crate::error::HostError;

// SAFETY: blocks stay where they are until the arena is rewound or dropped; both need it without a borrow, that is after every
// copy of this reference is gone. A block that is moved by `grow` or `shrink` was given up by its owner.
unsafe impl<A: HostSource> Allocator for &Arena<A> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = self.try_alloc_layout(layout).map_err(|_| AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    /// Gives the newest block's room back; any other block's waits for the arena's end.
    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if self.is_newest(block, layout) {
            self.top.set(
                self.top
                    .get()
                    .with_addr(plan::end(block.addr().get(), layout)),
            );
        }
    }

    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: this function's contract: a live block of this arena.
        unsafe { self.resize(block, old, new) }
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if !self.is_newest(block, old) && block.addr().get().is_multiple_of(new.align()) {
            return Ok(NonNull::slice_from_raw_parts(block, new.size()));
        }
        // SAFETY: this function's contract: a live block of this arena.
        unsafe { self.resize(block, old, new) }
    }
}

impl<A: HostSource> HostSource for &Arena<A> {
    /// As of the chunk that the block would need.
    fn refusal(&self, layout: Layout) -> HostError {
        let chunk = plan::exact(layout).and_then(plan::chunk_layout);
        chunk.map_or(HostError::TooLarge, |chunk| self.base.refusal(chunk))
    }
}

impl<A: HostSource> Arena<A> {
    /// True for the block that the next one comes to lie below. One of size 0 has no place of its own.
    #[inline]
    fn is_newest(&self, block: NonNull<u8>, layout: Layout) -> bool {
        layout.size() != 0 && block.as_ptr().addr() == self.top.get().addr()
    }

    /// # Safety
    /// As [`Allocator::grow`] or [`Allocator::shrink`], whichever way the size goes.
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let kept = old.size().min(new.size());
        if self.is_newest(block, old) {
            let top = self.top.get();
            // The end stays, the start moves: old and new place overlap.
            if let Some(start) =
                plan::place(plan::end(top.addr(), old), self.chunk.get().addr(), new)
            {
                let moved = top.with_addr(start);
                // SAFETY: both places lie in the current chunk's room, which `top` reaches; `kept` bytes fit both.
                unsafe { ptr::copy(top, moved, kept) };
                self.top.set(moved);
                let moved = NonNull::new(moved).ok_or(AllocError)?;
                return Ok(NonNull::slice_from_raw_parts(moved, new.size()));
            }
        }
        let moved = self.try_alloc_layout(new).map_err(|_| AllocError)?;
        // SAFETY: `moved` is a new block, hence apart from the old one, and `kept` bytes fit both.
        unsafe { ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), kept) };
        // Its room comes back where the new block got a chunk of its own.
        // SAFETY: the old block is the caller's to give up.
        unsafe { Allocator::deallocate(&self, block, old) };
        Ok(NonNull::slice_from_raw_parts(moved, new.size()))
    }
}
