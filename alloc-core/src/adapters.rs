//! From and to the allocator traits that others speak: `core`'s `GlobalAlloc` and `allocator_api2`'s `Allocator`.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use crate::error::HostError;
use crate::host::AllocatorTraits;
use crate::host::{HostAllocator, dangling};
use crate::scope::Scope;

/// An [`Allocator`] that returns the reason of a refusal, as the `Try*` collections require.
pub trait HostSource: Allocator {
    /// The reason of the last refusal, as [`HostAllocator::refusal`]. `layout` is the missing memory: for a block that was to grow, the
    /// growth.
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
    /// Wraps an allocator.
    ///
    /// # Safety
    /// `G` is a mere handle, as allocators that are statics of no size are: moving it invalidates no block, and its clones are the
    /// same allocator. (`GlobalAlloc` by itself allows an arena that lies inside the value.)
    #[must_use]
    pub const unsafe fn new(allocator: G) -> Self {
        Self(allocator)
    }

    /// The allocator behind.
    pub const fn get(&self) -> &G {
        &self.0
    }
}

#[cfg(feature = "std")]
impl FromGlobalAlloc<std::alloc::System> {
    /// The operating system's allocator.
    // SAFETY: `System` has no state of its own.
    pub const SYSTEM: Self = unsafe { Self::new(std::alloc::System) };
}

// SAFETY: `GlobalAlloc` promises valid, unaliased, aligned blocks of the requested size; size 0, which it forbids, is answered here;
// that moves and clones are harmless was promised to `new`.
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
            // SAFETY: this function's contract: a live block of this layout; those of a size above 0 all come from `self.0`.
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
        // `realloc` can neither change the alignment nor speak of size 0.
        if old.align() != new.align() || old.size() == 0 || new.size() == 0 {
            // SAFETY: this function's contract, which is that of the allocator behind.
            return unsafe { crate::host::move_block(self, block, old, new, scope) };
        }
        // SAFETY: a live block of `self.0` with layout `old`; the new size is not 0 and, as a `Layout`, does not overflow.
        NonNull::new(unsafe { self.0.realloc(block.as_ptr(), old, new.size()) }).ok_or(AllocError)
    }
}

/// Any [`Allocator`] as a host allocator. The scope is not passed on.
#[derive(Clone, Copy, Debug)]
pub struct FromAllocator<A>(A);

impl<A> FromAllocator<A> {
    /// Wraps an allocator.
    ///
    /// # Safety
    /// A block of `A` stays valid until it is freed, also after this value, or what it borrows, is dropped. (An `Allocator` in general may
    /// free its blocks when its last instance is dropped, as an arena does.)
    #[must_use]
    pub const unsafe fn new(allocator: A) -> Self {
        Self(allocator)
    }

    /// The allocator behind.
    pub const fn get(&self) -> &A {
        &self.0
    }
}

// SAFETY: `Allocator` promises the same, moves and clones included, but for blocks that outlive the allocator: that was promised to
// `new`. A larger block than asked for is used at the requested length.
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
        // SAFETY: this function's contract, which is that of the allocator behind.
        unsafe { self.0.deallocate(block, layout) }
    }
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        _: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        let moved = if new.size() >= old.size() {
            // SAFETY: this function's contract, which is that of the allocator behind.
            unsafe { self.0.grow(block, old, new) }
        } else {
            // SAFETY: this function's contract, which is that of the allocator behind.
            unsafe { self.0.shrink(block, old, new) }
        };
        moved.map(NonNull::cast)
    }
}

/// A [`HostAllocator`] as an [`Allocator`] whose requests all have one scope.
///
/// For collections over an allocator that is not a context (a context is an `Allocator` itself).
#[derive(Clone, Copy, Debug)]
pub struct Scoped<H> {
    host: H,
    scope: Scope,
}

impl<H: HostAllocator> Scoped<H> {
    /// All requests go to `host` with `scope`.
    pub const fn new(host: H, scope: Scope) -> Self {
        Self { host, scope }
    }

    /// The allocator behind.
    pub const fn host(&self) -> &H {
        &self.host
    }
}

// SAFETY: `HostAllocator` promises the same as `Allocator`; moving a `Scoped` moves no block, and clones share the allocator
// only where `H`'s own clones do (`H: HostAllocator` answers for its clones in its contract).
unsafe impl<H: HostAllocator> Allocator for Scoped<H> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = self.host.allocate(layout, self.scope)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = self.host.allocate_zeroed(layout, self.scope)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }
    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: this function's contract, which is that of the allocator behind.
        unsafe { self.host.deallocate(block, layout, self.scope) }
    }
    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: this function's contract, which is that of the allocator behind.
        let block = unsafe { self.host.resize(block, old, new, self.scope) }?;
        Ok(NonNull::slice_from_raw_parts(block, new.size()))
    }
    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: this function's contract, which is that of the allocator behind.
        let block = unsafe { self.host.resize(block, old, new, self.scope) }?;
        Ok(NonNull::slice_from_raw_parts(block, new.size()))
    }
}

impl<H: HostAllocator> HostSource for Scoped<H> {
    fn refusal(&self, layout: Layout) -> HostError {
        self.host.refusal(layout, self.scope)
    }
}
