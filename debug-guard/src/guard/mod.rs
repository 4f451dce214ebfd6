//! The guard: options, the choice of a mode for each block, and what becomes of it.

mod check;
mod dispatch;
mod error;
mod global;
mod options;
mod rule;
mod serial;
mod state;
mod stats;
mod tally;

use core::alloc::Layout;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use alloc_core::{AllocError, HostAllocator, HostError, Notice, Scope, dangling};

pub use error::GuardError;
pub use global::GlobalGuard;
pub use options::{CommandMark, GuardOptions, Sampling};
pub use rule::Rule;
pub(crate) use rule::named;
pub(crate) use state::Core;
pub use stats::GuardStats;

/// A host allocator that guards what it gives, and tells who broke it.
///
/// The word of the trait's contract that callers promise is what the guard is there to check: a block that comes back twice, with
/// another layout, or was never its own is reported ([`OnReport`](crate::OnReport)) and frees nothing. A reallocation always moves the block.
/// Size 0 is answered with a dangling pointer and not guarded.
pub struct Guard<A: HostAllocator> {
    inner: ManuallyDrop<A>,
    core: NonNull<Core>,
}

/// A guard that could not be made, with the allocator it was to stand on.
pub struct GuardRefused<A> {
    /// The allocator, as it was given.
    pub inner: A,
    /// Why.
    pub error: GuardError,
}

// SAFETY: the core is shared by reference only and is `Sync`; `inner` goes where `A` may.
unsafe impl<A: HostAllocator + Send> Send for Guard<A> {}
// SAFETY: as above.
unsafe impl<A: HostAllocator + Sync> Sync for Guard<A> {}

impl<A: HostAllocator> Guard<A> {
    /// Guards what `inner` gives.
    ///
    /// # Errors
    /// [`GuardRefused`] gives `inner` back and says what does not go together, what the kernel does not offer, or what `inner` refused.
    pub fn new(inner: A, options: GuardOptions) -> Result<Self, GuardRefused<A>> {
        if let Err(error) = options.check() {
            return Err(GuardRefused { inner, error });
        }
        match Core::make(&inner, options) {
            Ok(core) => Ok(Self { inner: ManuallyDrop::new(inner), core }),
            Err(error) => Err(GuardRefused { inner, error }),
        }
    }

    /// The allocator behind.
    pub fn inner(&self) -> &A {
        &self.inner
    }

    /// What the guard has done so far.
    pub fn stats(&self) -> GuardStats {
        self.core().stats()
    }

    fn core(&self) -> &Core {
        // SAFETY: made by `Core::make`, destroyed when the guard goes.
        unsafe { self.core.as_ref() }
    }
}

impl<A: HostAllocator> Drop for Guard<A> {
    fn drop(&mut self) {
        // SAFETY: nothing uses it after this.
        unsafe { Core::destroy(self.core, &*self.inner) };
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
    }
}

// SAFETY: blocks are `inner`'s.
unsafe impl<A: HostAllocator> HostAllocator for Guard<A> {
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        self.core().take(&*self.inner, layout, scope, false)
    }

    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        self.core().take(&*self.inner, layout, scope, true)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        if layout.size() != 0 {
            // SAFETY: the caller's promise.
            unsafe { self.core().give(&*self.inner, block, layout, scope) };
        }
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if old.size() == 0 {
            return self.allocate(new, scope);
        }
        // SAFETY: the caller's promise.
        unsafe { self.core().resize(&*self.inner, block, old, new, scope) }
    }

    unsafe fn shrink(&self, block: NonNull<u8>, old: Layout, new: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if new.size() == 0 {
            // SAFETY: the caller's promise. Shrinking to nothing frees.
            unsafe { self.deallocate(block, old, scope) };
            return Ok(dangling(new));
        }
        // SAFETY: the caller's promise.
        unsafe { self.core().resize(&*self.inner, block, old, new, scope) }
    }

    fn notify(&self, notice: Notice) {
        self.inner.notify(notice);
    }

    fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        self.inner.refusal(layout, scope)
    }

    fn may_unwind(&self) -> bool {
        matches!(self.core().options.on_report, crate::OnReport::Panic) || self.inner.may_unwind()
    }

    fn exact_alignment(&self) -> bool {
        self.core().fences() || self.inner.exact_alignment()
    }
}

impl<A: HostAllocator> fmt::Debug for Guard<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("name", &self.core().options.name).finish_non_exhaustive()
    }
}

impl<A> fmt::Debug for GuardRefused<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardRefused").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<A> fmt::Display for GuardRefused<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<A> core::error::Error for GuardRefused<A> {}
