//! The allocators that everything runs over.

use std::alloc::{Layout, System};
use std::ptr::NonNull;

use alloc_core::{AllocError, AllocatorTraits, FromGlobalAlloc, HostAllocator, Scope};

/// The C library's malloc.
pub static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// mimalloc, by its plain entry point where that aligns enough: the aligned one is slower just above powers of two.
pub static MIMALLOC: Mimalloc = Mimalloc;

/// See [`MIMALLOC`].
#[derive(Clone, Copy, Debug)]
pub struct Mimalloc;

// SAFETY: mimalloc gives valid, unaliased blocks; `mi_malloc` aligns to 16, or to the size where that is smaller.
unsafe impl HostAllocator for Mimalloc {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new().never_unwinds()
    }

    #[inline]
    fn allocate(&self, layout: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
        let plain = layout.align() <= 8 || (layout.align() == 16 && layout.size() >= 16);
        let block = if plain {
            // SAFETY: any size may be asked for.
            unsafe { libmimalloc_sys::mi_malloc(layout.size()) }
        } else {
            // SAFETY: a `Layout`'s alignment is a power of two.
            unsafe { libmimalloc_sys::mi_malloc_aligned(layout.size(), layout.align()) }
        };
        NonNull::new(block.cast()).ok_or(AllocError)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, _: Layout, _: Scope) {
        // SAFETY: this function's contract: a live block of mimalloc's.
        unsafe { libmimalloc_sys::mi_free(block.as_ptr().cast()) }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        if new.align() > 8 {
            // SAFETY: this function's contract: a live block of this allocator.
            return unsafe { alloc_core::move_block(self, block, old, new, scope) };
        }
        // SAFETY: this function's contract: a live block of mimalloc's.
        NonNull::new(unsafe { libmimalloc_sys::mi_realloc(block.as_ptr().cast(), new.size()) }.cast()).ok_or(AllocError)
    }
}
