use core::alloc::Layout;
use core::ptr::{self, NonNull};

use allocator_api2::alloc::AllocError;

use crate::error::HostError;
use crate::scope::Scope;

/// A source of host memory whose requests carry a lifetime (scope).
///
/// Calls fail with the bare [`AllocError`], which fits a register; [`refusal`](HostAllocator::refusal) returns the
/// reason. Vulkan specification, *Host Memory*: `VkAllocationCallbacks`.
///
/// # Rules for implementors
/// - A block has exactly the requested length: excess would make accounts drift.
/// - A request of size 0 returns [`dangling`] and allocates nothing; freeing it does nothing. Contexts never forward
///   it. A block may be freed on another thread than it was allocated on.
/// - No panic, no unwinding; a failure is `Err`.
///
/// # Safety
/// A block stays valid, unaliased and unmoved until it is deallocated or resized through the same allocator (or a clone
/// of it), is aligned to `layout.align()` and holds at least `layout.size()` bytes. `resize` keeps the first `min(old,
/// new)` bytes, and the old block as it was when it fails. Moving the allocator invalidates no block; a clone is the
/// same allocator: each can free the other's blocks.
#[doc(alias("VkAllocationCallbacks", "memory resource"))]
pub unsafe trait HostAllocator {
    /// The properties of this allocator. They never change. A decorator forwards the traits of its inner allocator, or
    /// combines those of several.
    fn traits(&self) -> AllocatorTraits;

    /// Allocates a block. Its content is undefined.
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError>;

    /// Allocates a block of zeros.
    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        let block = self.allocate(layout, scope)?;
        // SAFETY: a new block of at least `layout.size()` bytes.
        unsafe { block.as_ptr().write_bytes(0, layout.size()) };
        Ok(block)
    }

    /// Cannot fail; allocates nothing.
    ///
    /// # Safety
    /// `block` is a live block of this allocator; `layout` and `scope` are those of its allocation or last resize.
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope);

    /// Makes a block larger or smaller, or changes its alignment; the block may move. A failure leaves it as it was.
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
        // SAFETY: this function's contract.
        unsafe { move_block(self, block, old, new, scope) }
    }

    /// A notice of memory allocated or freed elsewhere (Vulkan's internal allocation notification).
    fn notify(&self, notice: Notice) {
        let _ = notice;
    }

    /// The reason of the last refusal. Called on the refused thread, before its next request.
    ///
    /// A context returns the reason as of the refusal (without feature `std`: as of now), other allocators may as of
    /// now. `layout` is the missing memory: for a block that was to grow, the growth.
    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        HostError::OutOfHostMemory { bytes: layout.size(), scope }
    }

    /// Checks a pointer for a C bridge over this allocator, which keeps `front` bytes in front of it. Decorators
    /// forward it.
    ///
    /// Never reads through `pointer`, which may be any address. An allocator that knows its blocks uses the
    /// [`front`](crate::Requester::front) of the block's allocation, which may be more than `front`.
    fn validate_pointer(&self, pointer: NonNull<u8>, front: usize) -> PointerStatus {
        let _ = (pointer, front);
        PointerStatus::Unknown
    }
}

/// The status of a pointer that came back from C, see [`HostAllocator::validate_pointer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointerStatus {
    /// The bridge has to check the bytes in front of the pointer.
    Unknown,
    /// The first byte behind the bridge's own in a live block of the calling context.
    Live,
    /// No such block: freed, inside one, another context's, or never allocated. It was reported; nothing may be read or
    /// freed.
    Invalid,
}

/// Memory for generated code that was allocated or freed outside the crate's allocators
/// (`VK_INTERNAL_ALLOCATION_TYPE_EXECUTABLE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Allocated or freed.
    pub event: NoticeEvent,
    /// How many bytes.
    pub bytes: usize,
    /// The lifetime it is meant for.
    pub scope: Scope,
}

/// The event of a [`Notice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeEvent {
    /// Memory was allocated.
    Allocated,
    /// Memory was freed.
    Freed,
}

/// The result of a request for 0 bytes: aligned, non-null, never to be read or written.
#[inline]
#[must_use]
pub const fn dangling(layout: Layout) -> NonNull<u8> {
    match NonNull::new(ptr::without_provenance_mut(layout.align())) {
        Some(address) => address,
        None => NonNull::dangling(), // no alignment is 0
    }
}

/// Allocates a new block, copies, frees the old one: the default of `resize`.
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
    // SAFETY: two live blocks of at least `kept` bytes.
    unsafe { ptr::copy_nonoverlapping(block.as_ptr(), moved.as_ptr(), kept) };
    // SAFETY: this function's contract; the block was copied.
    unsafe { allocator.deallocate(block, old, scope) };
    Ok(moved)
}

// SAFETY: every method is the referent's own.
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
        // SAFETY: this function's contract.
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
        // SAFETY: this function's contract.
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

/// Facts about an allocator, see [`HostAllocator::traits`].
///
/// [`new`](Self::new) assumes the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AllocatorTraits {
    /// A call may unwind, so a caller that is itself called from C needs a panic fence.
    pub may_unwind: bool,
    /// The byte behind a block matters (a guard page): a caller that adds a header must not pad behind the block.
    pub exact_alignment: bool,
    /// Contexts must [report the requester](crate::with_requester) around each call for a block, and around
    /// [`validate_pointer`](crate::HostAllocator::validate_pointer). Read when a context is created.
    pub tracks_requester: bool,
}

impl AllocatorTraits {
    /// The least: calls may unwind, padding is allowed on both sides, requesters are not tracked.
    #[must_use]
    pub const fn new() -> Self {
        Self { may_unwind: true, exact_alignment: false, tracks_requester: false }
    }

    /// No call ever unwinds.
    #[must_use]
    pub const fn never_unwinds(self) -> Self {
        Self { may_unwind: false, ..self }
    }

    /// Requesters are tracked.
    #[must_use]
    pub const fn with_requester(self) -> Self {
        Self { tracks_requester: true, ..self }
    }
}

impl Default for AllocatorTraits {
    fn default() -> Self {
        Self::new()
    }
}
