//! Values at a fixed address, and lists of them.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering};

use alloc_core::{HostAllocator, HostError, Scope};

/// The memory of a recorder or a checker.
pub(crate) type Memory<'h> = &'h (dyn HostAllocator + Sync);

/// The scope of their memory.
pub(crate) const SCOPE: Scope = Scope::Object;

/// Moves a value into a block of its own.
pub(crate) fn allocate_pinned<T>(memory: Memory<'_>, value: T) -> Result<NonNull<T>, HostError> {
    place_with(memory, || value)
}

/// As [`allocate_pinned`], with a value that is created after the allocation, which may call back.
pub(crate) fn place_with<T>(
    memory: Memory<'_>,
    value: impl FnOnce() -> T,
) -> Result<NonNull<T>, HostError> {
    let layout = Layout::new::<T>();
    let place = memory
        .allocate(layout, SCOPE)
        .map_err(|_| memory.refusal(layout, SCOPE))?
        .cast::<T>();
    // SAFETY: fresh memory of the layout of a `T`.
    unsafe { place.write(value()) };
    Ok(place)
}

/// Moves a value back out, and frees its memory.
///
/// # Safety
/// [`allocate_pinned`] returned `place` for this memory, and it is not used afterwards.
pub(crate) unsafe fn free_pinned<T>(memory: Memory<'_>, place: NonNull<T>) -> T {
    // SAFETY: the caller's promise: a `T` lies there, and is read once.
    let value = unsafe { place.read() };
    // SAFETY: the caller's promise: taken with this layout and scope.
    unsafe { memory.deallocate(place.cast(), Layout::new::<T>(), SCOPE) };
    value
}

/// Adds a node in front of a list.
///
/// # Safety
/// [`allocate_pinned`] returned the node, which is in no list and stays for as long as the list is read. `next` is the node's own link.
pub(crate) unsafe fn push_front<T>(list: &AtomicPtr<T>, node: NonNull<T>, next: &AtomicPtr<T>) {
    let mut first = list.load(Ordering::Acquire);
    loop {
        next.store(first, Ordering::Relaxed);
        match list.compare_exchange_weak(first, node.as_ptr(), Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => return,
            Err(other) => first = other,
        }
    }
}

/// Frees all nodes of a list. `next` reads a node's link.
///
/// # Safety
/// [`allocate_pinned`] returned the nodes for this memory, and neither they nor the list are used afterwards.
pub(crate) unsafe fn free_list<T>(
    memory: Memory<'_>,
    list: &AtomicPtr<T>,
    next: impl Fn(T) -> *mut T,
) {
    let mut node = NonNull::new(list.load(Ordering::Acquire));
    while let Some(place) = node {
        // SAFETY: forwarded.
        node = NonNull::new(next(unsafe { free_pinned(memory, place) }));
    }
}
