use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, HostError, Notice, PointerStatus, Scope, dangling};

use super::Guard;
use crate::report::OnReport;

// SAFETY: blocks are pages, or blocks of `inner`, valid until freed; moving the guard moves neither. `resize` copies
// before it frees.
unsafe impl<A: HostAllocator> HostAllocator for Guard<A> {
    fn traits(&self) -> AllocatorTraits {
        let (mut traits, options) = (self.inner.traits(), &self.options);
        traits.may_unwind |=
            matches!(options.on_report, OnReport::Panic | OnReport::Call(_)) || options.command.is_some();
        traits.exact_alignment |= (**self).fences();
        traits.with_requester()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        (**self).allocate(&*self.inner, layout, scope, false)
    }

    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        (**self).allocate(&*self.inner, layout, scope, true)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        if layout.size() != 0 {
            // SAFETY: the contract of `deallocate`; all blocks come from `inner`.
            unsafe { (**self).free(&*self.inner, block, layout, scope) };
        }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        if old.size() == 0 {
            return self.allocate(new, scope);
        }
        if new.size() == 0 {
            // SAFETY: the contract of `HostAllocator::resize`. Shrinking to nothing frees.
            unsafe { self.deallocate(block, old, scope) };
            return Ok(dangling(new));
        }
        // SAFETY: the contract of `resize`; all blocks come from `inner`.
        unsafe { (**self).resize(&*self.inner, block, old, new, scope) }
    }

    fn notify(&self, notice: Notice) {
        self.inner.notify(notice);
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        self.inner.refusal(layout, scope)
    }

    fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
        (**self).validate_pointer(pointer, front)
    }
}
