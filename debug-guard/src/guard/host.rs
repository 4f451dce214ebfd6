//! The guard as an allocator.

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{AllocError, HostAllocator, HostError, Notice, Scope, Vetted, dangling};

use super::Guard;
use crate::mode::OnReport;

// SAFETY: blocks are those of the core: pages, or blocks of `inner` with a header and a tail, each given once and valid until it comes
// back; moving the guard moves neither. `grow` and `shrink` copy into a new block before the old one goes.
unsafe impl<A: HostAllocator> HostAllocator for Guard<A> {
    #[inline]
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        self.core().take(&*self.inner, layout, scope, false)
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        self.core().take(&*self.inner, layout, scope, true)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        if layout.size() != 0 {
            // SAFETY: the caller's promise, as far as the guard does not find out.
            unsafe { self.core().give(&*self.inner, block, layout, scope) };
        }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if old.size() == 0 {
            return self.allocate(new, scope);
        }
        // SAFETY: as in `deallocate`.
        unsafe { self.core().resize(&*self.inner, block, old, new, scope) }
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if new.size() == 0 {
            // SAFETY: as in `deallocate`. Shrinking to nothing frees.
            unsafe { self.deallocate(block, old, scope) };
            return Ok(dangling(new));
        }
        // SAFETY: as in `deallocate`.
        unsafe { self.core().resize(&*self.inner, block, old, new, scope) }
    }

    fn notify(&self, notice: Notice) {
        self.inner.notify(notice);
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        self.inner.refusal(layout, scope)
    }

    fn may_unwind(&self) -> bool {
        matches!(self.core().options.on_report, OnReport::Panic) || self.inner.may_unwind()
    }

    fn exact_alignment(&self) -> bool {
        self.core().fences() || self.inner.exact_alignment()
    }

    fn wants_origin(&self) -> bool {
        true
    }

    fn vet(&self, pointer: NonNull<u8>, front: usize) -> Vetted {
        self.core().vet(pointer, front)
    }
}
