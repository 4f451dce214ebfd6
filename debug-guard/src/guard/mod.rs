mod allocate;
mod choice;
mod error;
mod free;
mod global;
mod host;
mod leaks;
mod mark;
mod options;
mod policy;
mod query;
mod report_source;
mod reporter;
mod serial;
mod state;
mod stats;

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use alloc_core::{HostAllocator, Rejected};

use crate::report::{self, DetectedAt, GuardSlotId};

pub use choice::{ChoiceError, GuardChoice};
pub use error::{GuardError, GuardInUse};
pub use global::GlobalGuard;
pub use leaks::{LeakMark, LeakSum};
pub use options::{GuardOptions, Sampling};
pub use policy::Rule;
pub(crate) use policy::name_matches;
pub use state::GuardState;
pub use stats::GuardStats;

/// A host allocator that guards its blocks and reports misuse.
///
/// A second free, a free with another layout and a free of an unknown pointer are reported
/// ([`OnReport`](crate::OnReport)), and only a certain live block is freed. A reallocation always moves the block, so
/// that stale pointers show.
///
/// Its own memory, except pages of fenced blocks, comes from the allocator behind: at creation, and for new call
/// sites. Freeing allocates nothing.
///
/// # Threads
/// No lock is held while the allocator behind, a function of the options or a report's is called. After a fork the
/// child's guard works as the parent's does.
///
/// # Going
/// [`close`](Self::close) returns the allocator. A guard dropped with live blocks leaks its own memory: the blocks stay
/// valid, and wrong accesses are still reported.
///
/// ```
/// use std::alloc::Layout;
/// use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};
/// use debug_guard::{Guard, GuardOptions, Mode, OnReport};
///
/// let options = GuardOptions::new(Mode::Cookie).name("example").on_report(OnReport::Call(|_| ()));
/// let guard = Guard::new(FromGlobalAlloc::SYSTEM, options)?;
/// let layout = Layout::new::<[u8; 24]>();
/// let block = guard.allocate(layout, Scope::Object).map_err(|_| "no memory")?;
/// // SAFETY: broken on purpose. The byte behind the block is the guard's own.
/// unsafe { block.as_ptr().add(24).write(7) };
/// assert_eq!(guard.check_all(), 1);
/// # // SAFETY: the byte that was to be there is not known here; the block goes all the same, with another report.
/// # unsafe { guard.deallocate(block, layout, Scope::Object) };
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("electric fence", "guard page", "page heap"))]
pub struct Guard<A: HostAllocator> {
    inner: ManuallyDrop<A>,
    core: NonNull<GuardState>,
    slot: GuardSlotId,
}

// SAFETY: the core is `Sync` and only shared; `inner` is an `A`, which is `Send`.
unsafe impl<A: HostAllocator + Send> Send for Guard<A> {}
// SAFETY: the core is `Sync` and only shared; `inner` is an `A`, which is `Sync`.
unsafe impl<A: HostAllocator + Sync> Sync for Guard<A> {}

impl<A: HostAllocator> Guard<A> {
    /// Guards the blocks of `inner`.
    ///
    /// # Errors
    /// `inner`, with the contradiction, the missing kernel feature, or the refusal of `inner`.
    pub fn new(inner: A, options: GuardOptions) -> Result<Self, Rejected<A, GuardError>> {
        match options.check().and_then(|()| GuardState::create(&inner, options)) {
            Ok((core, slot)) => Ok(Self { inner: ManuallyDrop::new(inner), core, slot }),
            Err(error) => Err(Rejected::new(inner, error)),
        }
    }

    /// The allocator behind.
    pub fn inner(&self) -> &A {
        &self.inner
    }

    /// Closes the guard after a last check, and returns the allocator.
    ///
    /// # Errors
    /// The guard, if blocks are live; blocks that pass do not count.
    pub fn close(self) -> Result<A, Rejected<Self, GuardInUse>> {
        let live_blocks = self.on_record();
        if live_blocks != 0 {
            return Err(Rejected::new(self, GuardInUse { live_blocks }));
        }
        let mut whole = ManuallyDrop::new(self);
        whole.end();
        // SAFETY: taken once: the guard is not dropped.
        Ok(unsafe { ManuallyDrop::take(&mut whole.inner) })
    }

    /// Frees nothing if blocks are live or another thread reads the state.
    fn end(&mut self) {
        if self.on_record() != 0 {
            return;
        }
        self.verify(DetectedAt::Exit);
        if report::REGISTRY.leave(&self.slot) {
            // SAFETY: created over `inner`; nothing refers to it any more.
            unsafe { GuardState::destroy(self.core, &*self.inner) };
        }
    }
}

impl<A: HostAllocator> Deref for Guard<A> {
    type Target = GuardState;

    #[inline]
    fn deref(&self) -> &GuardState {
        // SAFETY: made by `GuardState::create`, destroyed when the guard is.
        unsafe { self.core.as_ref() }
    }
}

impl<A: HostAllocator> Drop for Guard<A> {
    fn drop(&mut self) {
        self.end();
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
    }
}

impl<A: HostAllocator> fmt::Debug for Guard<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Debug for GuardState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("name", &self.options.name).field("stats", &self.stats()).finish_non_exhaustive()
    }
}
