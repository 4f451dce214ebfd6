use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use alloc_core::support::StateMutex;
use alloc_core::{HostAllocator, HostError, Scope};

use crate::fence::fenced;

pub(crate) type Memory<'h> = &'h (dyn HostAllocator + Sync);

pub(crate) const SCOPE: Scope = Scope::Object;

pub(crate) fn allocate_pinned<T>(memory: Memory<'_>, value: T) -> Result<NonNull<T>, HostError> {
    place_with(memory, || value)
}

/// The value is created after the allocation, which may call back.
fn place_with<T>(memory: Memory<'_>, value: impl FnOnce() -> T) -> Result<NonNull<T>, HostError> {
    let layout = Layout::new::<T>();
    let place = memory.allocate(layout, SCOPE).map_err(|_| memory.refusal(layout, SCOPE))?.cast::<T>();
    // SAFETY: fresh memory of the layout of a `T`.
    unsafe { place.write(value()) };
    Ok(place)
}

/// # Safety
/// [`allocate_pinned`] returned `place` for this memory, and it is not used afterwards.
pub(crate) unsafe fn free_pinned<T>(memory: Memory<'_>, place: NonNull<T>) -> T {
    // SAFETY: `allocate_pinned` put a `T` there, which is read once, as this function requires.
    let value = unsafe { place.read() };
    // SAFETY: `allocate_pinned` took it from this memory with this layout and scope.
    unsafe { memory.deallocate(place.cast(), Layout::new::<T>(), SCOPE) };
    value
}

/// Values that any thread adds, without a lock, and that stay until the list ends.
pub(crate) struct PinnedList<'h, T> {
    memory: Memory<'h>,
    newest: AtomicPtr<PinnedNode<T>>,
    /// Values come from threads, and are shared by threads.
    values: PhantomData<(StateMutex<T>, T)>,
}

struct PinnedNode<T> {
    value: T,
    older: AtomicPtr<Self>,
}

impl<'h, T> PinnedList<'h, T> {
    pub(crate) const fn new(memory: Memory<'h>) -> Self {
        Self { memory, newest: AtomicPtr::new(ptr::null_mut()), values: PhantomData }
    }

    pub(crate) fn push(&self, make: impl FnOnce() -> T) -> Result<&T, HostError> {
        let place = place_with(self.memory, || PinnedNode { value: make(), older: AtomicPtr::new(ptr::null_mut()) })?;
        // SAFETY: just placed; it stays until the list ends, and is only shared.
        let node = unsafe { place.as_ref() };
        let mut newest = self.newest.load(Ordering::Acquire);
        loop {
            node.older.store(newest, Ordering::Relaxed);
            let swapped =
                self.newest.compare_exchange_weak(newest, place.as_ptr(), Ordering::AcqRel, Ordering::Acquire);
            match swapped {
                Ok(_) => return Ok(&node.value),
                Err(other) => newest = other,
            }
        }
    }

    /// All values, the newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut next = self.newest.load(Ordering::Acquire);
        core::iter::from_fn(move || {
            // SAFETY: null, or a node of this list, which stays until the list ends.
            let node = unsafe { next.as_ref() }?;
            next = node.older.load(Ordering::Acquire);
            Some(&node.value)
        })
    }
}

impl<T> Drop for PinnedList<'_, T> {
    /// Each value alone: a second panic while one unwinds ends the process.
    fn drop(&mut self) {
        let mut next = NonNull::new(*self.newest.get_mut());
        while let Some(place) = next {
            let _ = fenced(|| {
                // SAFETY: `push` placed it in this memory, and the list is not shared any more.
                let node = unsafe { place.as_ref() };
                next = NonNull::new(node.older.load(Ordering::Relaxed));
                // SAFETY: `push` placed it in this memory, and nothing reaches it any more.
                drop(unsafe { free_pinned(self.memory, place) });
            });
        }
    }
}
