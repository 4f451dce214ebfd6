use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, HostError, Scope};

pub(crate) struct CountingAllocator<A> {
    pub(crate) inner: A,
    bytes: AtomicU64,
}

impl<A> CountingAllocator<A> {
    pub(crate) const fn new(inner: A) -> Self {
        Self { inner, bytes: AtomicU64::new(0) }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn count_allocated(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn count_freed(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

// SAFETY: every block is the inner allocator's.
unsafe impl<A: HostAllocator> HostAllocator for CountingAllocator<A> {
    fn traits(&self) -> AllocatorTraits {
        self.inner.traits()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let block = self.inner.allocate(layout, scope)?;
        self.count_allocated(layout.size());
        Ok(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: the block is live, of this layout and scope, and one of `inner`.
        unsafe { self.inner.deallocate(block, layout, scope) };
        self.count_freed(layout.size());
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the block is live, of layout `old`, and one of `inner`.
        let block = unsafe { self.inner.resize(block, old, new, scope) }?;
        self.count_allocated(new.size());
        self.count_freed(old.size());
        Ok(block)
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        self.inner.refusal(layout, scope)
    }
}
