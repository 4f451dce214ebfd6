use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::error::HostError;
use crate::host::{AllocatorTraits, HostAllocator, dangling};
use crate::scope::Scope;

/// An [`Allocator`] that returns the reason of a refusal, for the `Try*` collections.
pub trait HostSource: Allocator {
    /// The reason of the last refusal, as [`HostAllocator::refusal`] states it.
    fn refusal(&self, layout: Layout) -> HostError;
}

impl<S: HostSource + ?Sized> HostSource for &S {
    fn refusal(&self, layout: Layout) -> HostError {
        (**self).refusal(layout)
    }
}

/// A [`GlobalAlloc`] (`std::alloc::System`, mimalloc, ..) as a host allocator. The scope is not passed on.
#[derive(Clone, Copy, Debug)]
pub struct FromGlobalAlloc<G>(G);

impl<G> FromGlobalAlloc<G> {
    /// Wraps `allocator`.
    ///
    /// # Safety
    /// Moving `G` invalidates no block, and its clones are the same allocator. (`GlobalAlloc` alone allows an arena
    /// that lies inside the value.)
    #[must_use]
    pub const unsafe fn new(allocator: G) -> Self {
        Self(allocator)
    }
}

#[cfg(feature = "std")]
impl FromGlobalAlloc<std::alloc::System> {
    /// The operating system's allocator.
    // SAFETY: `System` has no state of its own.
    pub const SYSTEM: Self = unsafe { Self::new(std::alloc::System) };
}

// SAFETY: `GlobalAlloc` promises valid, unaliased, aligned blocks of the requested size; size 0, which it forbids, does
// not reach it; `new`'s contract covers moves and clones.
unsafe impl<G: GlobalAlloc> HostAllocator for FromGlobalAlloc<G> {
    /// `GlobalAlloc`'s contract forbids unwinding.
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new().never_unwinds()
    }

    #[inline]
    fn allocate(&self, layout: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        // SAFETY: the size is not 0.
        NonNull::new(unsafe { self.0.alloc(layout) }).ok_or(AllocError)
    }

    fn allocate_zeroed(&self, layout: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        // SAFETY: the size is not 0.
        NonNull::new(unsafe { self.0.alloc_zeroed(layout) }).ok_or(AllocError)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, _: Scope) {
        if layout.size() != 0 {
            // SAFETY: this function's contract; the block comes from `self.0`.
            unsafe { self.0.dealloc(block.as_ptr(), layout) }
        }
    }

    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // `realloc` cannot change the alignment or handle size 0.
        if old.align() != new.align() || old.size() == 0 || new.size() == 0 {
            // SAFETY: this function's contract.
            return unsafe { crate::host::move_block(self, block, old, new, scope) };
        }
        // SAFETY: a live block of `self.0` with layout `old`; the new size is not 0.
        NonNull::new(unsafe { self.0.realloc(block.as_ptr(), old, new.size()) }).ok_or(AllocError)
    }
}

/// Any [`Allocator`] as a host allocator. The scope is not passed on.
#[derive(Clone, Copy, Debug)]
pub struct FromAllocator<A>(A);

impl<A> FromAllocator<A> {
    /// Wraps `allocator`.
    ///
    /// # Safety
    /// A block of `A` stays valid until it is freed, also after this value, or what it borrows, is dropped.
    #[must_use]
    pub const unsafe fn new(allocator: A) -> Self {
        Self(allocator)
    }
}

// SAFETY: `Allocator` promises the same; `new`'s contract covers blocks that outlive the allocator. Of a larger block
// only the requested length is used.
unsafe impl<A: Allocator> HostAllocator for FromAllocator<A> {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }
    #[inline]
    fn allocate(&self, layout: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
        self.0.allocate(layout).map(NonNull::cast)
    }
    fn allocate_zeroed(&self, layout: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
        self.0.allocate_zeroed(layout).map(NonNull::cast)
    }
    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, _: Scope) {
        // SAFETY: this function's contract.
        unsafe { self.0.deallocate(block, layout) }
    }
    unsafe fn resize(&self, block: NonNull<u8>, old: Layout, new: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
        let moved = if new.size() >= old.size() {
            // SAFETY: this function's contract.
            unsafe { self.0.grow(block, old, new) }
        } else {
            // SAFETY: this function's contract.
            unsafe { self.0.shrink(block, old, new) }
        };
        moved.map(NonNull::cast)
    }
}

/// A [`HostAllocator`] as an [`Allocator`] whose requests all have one scope.
#[derive(Clone, Copy, Debug)]
pub struct Scoped<H> {
    host: H,
    scope: Scope,
}

impl<H: HostAllocator> Scoped<H> {
    /// Requests go to `host` with `scope`.
    pub const fn new(host: H, scope: Scope) -> Self {
        Self { host, scope }
    }

    /// The allocator behind.
    #[must_use]
    pub const fn host(&self) -> &H {
        &self.host
    }
}

macro_rules! allocator_in_scope {
    ($type:ty $(where $host:ident)?, |$this:ident| $source_and_scope:expr) => {
        // SAFETY: `HostAllocator` promises the same as `Allocator`, moves and clones included.
        unsafe impl$(<$host: $crate::HostAllocator>)? $crate::Allocator for $type {
            #[inline]
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                let $this = self;
                let (source, scope) = $source_and_scope;
                let block = source.allocate(layout, scope)?;
                Ok(NonNull::slice_from_raw_parts(block, layout.size()))
            }
            fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                let $this = self;
                let (source, scope) = $source_and_scope;
                let block = source.allocate_zeroed(layout, scope)?;
                Ok(NonNull::slice_from_raw_parts(block, layout.size()))
            }
            #[inline]
            unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
                let $this = self;
                let (source, scope) = $source_and_scope;
                // SAFETY: this function's contract.
                unsafe { source.deallocate(block, layout, scope) }
            }
            unsafe fn grow(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, AllocError> {
                let $this = self;
                let (source, scope) = $source_and_scope;
                // SAFETY: this function's contract.
                let block = unsafe { source.resize(block, old, new, scope) }?;
                Ok(NonNull::slice_from_raw_parts(block, new.size()))
            }
            // By default both blocks would be charged for a moment.
            unsafe fn grow_zeroed(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: this function's contract.
                let block = unsafe { self.grow(block, old, new) }?;
                // SAFETY: the block holds `new.size()` bytes, at least `old.size()`.
                let tail = unsafe { block.cast::<u8>().add(old.size()) };
                // SAFETY: the tail is the rest of the block.
                unsafe { tail.write_bytes(0, new.size().saturating_sub(old.size())) };
                Ok(block)
            }
            unsafe fn shrink(
                &self,
                block: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, AllocError> {
                // SAFETY: this function's contract; `grow` resizes in either direction.
                unsafe { self.grow(block, old, new) }
            }
        }

        impl$(<$host: $crate::HostAllocator>)? $crate::HostSource for $type {
            fn refusal(&self, layout: Layout) -> HostError {
                let $this = self;
                let (source, scope) = $source_and_scope;
                source.refusal(layout, scope)
            }
        }
    };
}
pub(crate) use allocator_in_scope;

allocator_in_scope!(Scoped<H> where H, |this| (&this.host, this.scope));
