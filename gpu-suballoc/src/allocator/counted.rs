//! The host allocator that was handed in, with a count of what is taken from it.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use alloc_core::{AllocError, HostAllocator, HostError, Notice, Scope, Vetted};

pub(crate) struct Counted<A> {
    pub(crate) inner: A,
    bytes: AtomicU64,
}

impl<A> Counted<A> {
    pub(crate) const fn new(inner: A) -> Self {
        Self { inner, bytes: AtomicU64::new(0) }
    }

    /// Bytes that are taken now.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn took(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn gave(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}

// SAFETY: every block is the inner allocator's, handed through; only numbers are kept here.
unsafe impl<A: HostAllocator> HostAllocator for Counted<A> {
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let block = self.inner.allocate(layout, scope)?;
        self.took(layout.size());
        Ok(block)
    }

    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let block = self.inner.allocate_zeroed(layout, scope)?;
        self.took(layout.size());
        Ok(block)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: forwarded.
        unsafe { self.inner.deallocate(block, layout, scope) };
        self.gave(layout.size());
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: forwarded.
        let block = unsafe { self.inner.grow(block, old, new, scope) }?;
        self.took(new.size());
        self.gave(old.size());
        Ok(block)
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: forwarded.
        let block = unsafe { self.inner.shrink(block, old, new, scope) }?;
        self.took(new.size());
        self.gave(old.size());
        Ok(block)
    }

    fn notify(&self, notice: Notice) {
        self.inner.notify(notice);
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        self.inner.refusal(layout, scope)
    }

    fn may_unwind(&self) -> bool {
        self.inner.may_unwind()
    }

    fn exact_alignment(&self) -> bool {
        self.inner.exact_alignment()
    }

    fn wants_origin(&self) -> bool {
        self.inner.wants_origin()
    }

    fn vet(&self, pointer: NonNull<u8>, front: usize) -> Vetted {
        self.inner.vet(pointer, front)
    }
}
