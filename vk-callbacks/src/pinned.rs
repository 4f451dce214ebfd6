//! Values at a fixed address, which is passed to C functions.

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{HostAllocator, HostError, Scope};

/// Where the own memory of a recorder or a checker comes from.
pub(crate) type Memory<'h> = &'h (dyn HostAllocator + Sync);

/// The scope of all that they take.
pub(crate) const SCOPE: Scope = Scope::Object;

/// Moves a value into memory of its own.
pub(crate) fn allocate_pinned<T>(memory: Memory<'_>, value: T) -> Result<NonNull<T>, HostError> {
    place_with(memory, || value)
}

/// As [`allocate_pinned`], with a value that is made when its memory is there: that may have called us back meanwhile.
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
/// `place` was answered by [`allocate_pinned`] for this memory, and is used no more.
pub(crate) unsafe fn free_pinned<T>(memory: Memory<'_>, place: NonNull<T>) -> T {
    // SAFETY: the caller's promise: a `T` lies there, and is read once.
    let value = unsafe { place.read() };
    // SAFETY: the caller's promise: taken with this layout and scope.
    unsafe { memory.deallocate(place.cast(), Layout::new::<T>(), SCOPE) };
    value
}
