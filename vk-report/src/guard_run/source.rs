use std::alloc::{Layout, System};
use std::ptr::NonNull;

use alloc_core::{
    AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, HostError, Notice, PointerStatus, Scope,
};
use debug_guard::Guard;

pub(super) enum Source {
    System(FromGlobalAlloc<System>),
    Guard(Guard<FromGlobalAlloc<System>>),
}

impl Source {
    fn there(&self) -> &dyn HostAllocator {
        match self {
            Self::System(host) => host,
            Self::Guard(host) => host,
        }
    }
}

// SAFETY: every call is that of one allocator, which stays the same.
unsafe impl HostAllocator for Source {
    fn traits(&self) -> AllocatorTraits {
        self.there().traits()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.there().allocate(layout, scope)
    }

    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.there().allocate_zeroed(layout, scope)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: a block of that allocator, with this layout.
        unsafe { self.there().deallocate(block, layout, scope) }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: a block of that allocator, with this layout.
        unsafe { self.there().resize(block, old, new, scope) }
    }

    fn notify(&self, notice: Notice) {
        self.there().notify(notice);
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        self.there().refusal(layout, scope)
    }

    fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
        self.there().validate_pointer(pointer, front)
    }
}
