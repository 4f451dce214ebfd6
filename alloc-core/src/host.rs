//! The trait that everything meets in: where host memory comes from.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::AllocError;

use crate::allocator_traits::AllocatorTraits;
use crate::error::HostError;
use crate::scope::Scope;

/// A source of host memory that is told the lifetime (scope) of what it gives.
///
/// Object-safe; `&dyn HostAllocator` is one too. Calls answer with the bare [`AllocError`], which fits a register; the cold
/// [`refusal`](HostAllocator::refusal) says why. Vulkan specification, *Host Memory*: `VkAllocationCallbacks`.
///
/// # Rules for implementors
/// - A block has exactly the requested length: excess capacity would make accounts drift.
/// - Size 0 is answered with [`dangling`] and takes nothing; freeing it does nothing. Contexts never forward size 0.
/// - Calls may come from any thread that the implementor's `Sync`/`Send` allow, and a block may be freed on another
///   thread than the one that took it.
/// - No panic, no unwinding; a failure is `Err`.
///
/// # Safety
/// A block given out stays valid, unaliased and unmoved until it is deallocated or resized through the same allocator
/// (or a clone of it), is aligned to `layout.align()` and holds at least `layout.size()` bytes. `resize` keeps the
/// first `min(old, new)` bytes, and when it fails leaves the old block as it was.
///
/// Moving the allocator invalidates no block, and a clone is the same allocator: each gives back what the other gave.
pub unsafe trait HostAllocator {
    /// What a caller must know of this allocator. The answer never changes, and callers read it once.
    ///
    /// No default, so that no decorator forgets it: it forwards the traits of the allocator behind, or those of all of them together.
    fn traits(&self) -> AllocatorTraits;

    /// Takes a block. Its content is undefined.
    ///
    /// # Errors
    /// [`AllocError`] when the block cannot be given; nothing was taken.
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError>;

    /// Takes a block of zeros.
    ///
    /// # Errors
    /// As [`allocate`](HostAllocator::allocate).
    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let block = self.allocate(layout, scope)?;
        // SAFETY: the block was just given with at least `layout.size()` writable bytes.
        unsafe { block.as_ptr().write_bytes(0, layout.size()) };
        Ok(block)
    }

    /// Gives a block back. Cannot fail, takes no memory.
    ///
    /// # Safety
    /// `block` is live, was given by this allocator, and `layout` and `scope` are those it was last given with.
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope);

    /// Makes a block larger or smaller, or gives it another alignment, moving it where it must.
    ///
    /// # Errors
    /// [`AllocError`] when there is no room; the old block is untouched and still the caller's.
    ///
    /// # Safety
    /// As [`deallocate`](HostAllocator::deallocate) for `block`, `old` and `scope`.
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: forwarded from this function's contract.
        unsafe { move_block(self, block, old, new, scope) }
    }

    /// Hears of memory that was taken or given back elsewhere. Purely informational (Vulkan's internal allocation
    /// notification); the default ignores it.
    fn notify(&self, notice: Notice) {
        let _ = notice;
    }

    /// Why the request that was just refused was refused. Cold. Asked on the thread that was refused, before its next request.
    ///
    /// A context answers for the refusal itself, whatever has changed since (without feature `std`: as of now); others may answer as of
    /// now.
    ///
    /// `layout` is what was needed in addition: for a block that was to grow, the growth.
    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        HostError::OutOfHostMemory {
            bytes: layout.size(),
            scope,
        }
    }

    /// Whether `pointer` is one that a C bridge over this allocator may believe: the bridge keeps `front` bytes in front of it, and asks
    /// before it reads them, since those of a block that was given back may be out of reach. Decorators forward it.
    ///
    /// Never reads through `pointer`, and needs no promise about it. An allocator that knows its blocks answers by the
    /// [`front`](crate::Requester::front) that it was told when the block was taken, which may be more than `front`.
    fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
        let _ = (pointer, front);
        PointerStatus::Unknown
    }
}

/// What an allocator knows of a pointer that came back from C; see [`HostAllocator::validate_pointer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointerStatus {
    /// Nothing: the bridge has to judge by what is in front of the pointer.
    Unknown,
    /// The bytes behind the bridge's own of a live block of whoever asks.
    Live,
    /// No such block: freed, in the middle of one, another's, or never given. It was reported; nothing may be read or given back.
    Invalid,
}

/// Memory taken or given back where no allocator of ours was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Taken or given back.
    pub event: NoticeEvent,
    /// What kind of memory it is.
    pub kind: NoticeKind,
    /// How many bytes.
    pub bytes: usize,
    /// The lifetime it is meant for.
    pub scope: Scope,
}

/// Which way the memory of a [`Notice`] went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeEvent {
    /// It was taken.
    Allocated,
    /// It was given back.
    Freed,
}

/// What kind of memory a [`Notice`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoticeKind {
    /// Memory for generated code (`VK_INTERNAL_ALLOCATION_TYPE_EXECUTABLE`), the only kind Vulkan knows.
    Executable,
}

/// The answer to a request for 0 bytes: aligned, non-null, never to be read or written.
#[inline]
#[must_use]
pub const fn dangling(layout: Layout) -> NonNull<u8> {
    match NonNull::new(ptr::without_provenance_mut(layout.align())) {
        Some(address) => address,
        None => NonNull::dangling(), // no alignment is 0
    }
}

/// Takes a new block, copies, frees the old one: what `resize` does where nothing better is known.
///
/// # Errors
/// [`AllocError`] when the new block cannot be had; the old one is untouched.
///
/// # Safety
/// As [`HostAllocator::deallocate`] for `block`, `old` and `scope`.
pub unsafe fn move_block<A: HostAllocator + ?Sized>(
    allocator: &A,
    block: NonNull<u8>,
    old: Layout,
    new: Layout,
    scope: Scope,
) -> Result<NonNull<u8>, AllocError> {
    let moved = allocator.allocate(new, scope)?;
    let kept = old.size().min(new.size());
    // SAFETY: both blocks hold at least `kept` bytes and are different live blocks, hence disjoint.
    unsafe { ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), kept) };
    // SAFETY: the caller's promise for `block`, `old` and `scope`.
    unsafe { allocator.deallocate(block, old, scope) };
    Ok(moved)
}

// SAFETY: every method is the referent's own; a reference gives nothing out itself.
unsafe impl<A: HostAllocator + ?Sized> HostAllocator for &A {
    fn traits(&self) -> AllocatorTraits {
        (**self).traits()
    }
    #[inline]
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        (**self).allocate(layout, scope)
    }
    #[inline]
    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        (**self).allocate_zeroed(layout, scope)
    }
    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: forwarded.
        unsafe { (**self).deallocate(block, layout, scope) }
    }
    #[inline]
    unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: forwarded.
        unsafe { (**self).resize(block, old, new, scope) }
    }
    fn notify(&self, notice: Notice) {
        (**self).notify(notice);
    }
    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        (**self).refusal(layout, scope)
    }
    fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
        (**self).validate_pointer(pointer, front)
    }
}
