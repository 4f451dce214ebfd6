//! The guard: options, the choice of a mode for each block, what becomes of it, and what is told of all of them.

mod allocate;
mod check;
mod choice;
mod deferred_reports;
mod error;
mod exit;
mod free;
mod global;
mod host;
mod leaks;
mod limits;
mod mark;
mod options;
mod policy;
mod profiles;
mod query;
mod query_command;
mod report_source;
mod reporter;
mod rule;
mod serial;
mod state;
mod stats;
mod tally;

use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use alloc_core::{HostAllocator, Rejected};

use crate::profile::{FrameNames, Measure, Weight};
use crate::report::{self, BlockInfo, DetectedAt, Leak, SeatId};

pub use choice::{ChoiceError, GuardChoice};
pub use error::{GuardError, GuardInUse};
pub use global::GlobalGuard;
pub use leaks::{LeakMark, LeakSum};
pub use options::{GuardOptions, Sampling};
pub use rule::Rule;
pub(crate) use rule::named;
use state::GuardState;
pub use stats::GuardStats;

/// A host allocator that guards what it gives, and tells who broke it.
///
/// What the trait's contract has callers promise is what the guard is there to check: a block that comes back twice, with another
/// layout, or that was never its own is reported ([`OnReport`](crate::OnReport)), and what is not certainly a live block of its own frees
/// nothing. A reallocation always moves the block, so that stale pointers show. Size 0 is answered with a dangling pointer.
///
/// It may be moved; blocks and reports do not mind. Everything it keeps, but for pages of fenced blocks, it takes from the allocator
/// behind: when it is made, and for new call sites. Freeing takes nothing.
///
/// # Threads
/// `Send` and `Sync` where the allocator behind is. No lock is held while that allocator, a function of the options or a report's
/// is called. After a fork the child's guard works as the parent's does.
///
/// # Going
/// [`close`](Self::close) gives the allocator back. A guard that is dropped with blocks still live leaves them as they are, valid and
/// explained when touched wrongly, and leaks what it keeps for itself.
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
pub struct Guard<A: HostAllocator> {
    inner: ManuallyDrop<A>,
    core: NonNull<GuardState>,
    seat: SeatId,
}

// SAFETY: the core is `Sync` and only ever shared; `inner` goes where `A` may.
unsafe impl<A: HostAllocator + Send> Send for Guard<A> {}
// SAFETY: as above.
unsafe impl<A: HostAllocator + Sync> Sync for Guard<A> {}

impl<A: HostAllocator> Guard<A> {
    /// Guards what `inner` gives.
    ///
    /// # Errors
    /// `inner`, with what does not go together, what the kernel does not offer, or what `inner` refused.
    pub fn new(inner: A, options: GuardOptions) -> Result<Self, Rejected<A, GuardError>> {
        match options
            .check()
            .and_then(|()| GuardState::create(&inner, options))
        {
            Ok((core, seat)) => Ok(Self {
                inner: ManuallyDrop::new(inner),
                core,
                seat,
            }),
            Err(error) => Err(Rejected::new(inner, error)),
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

    /// The present moment, for [`leaks`](Self::leaks).
    pub fn mark(&self) -> LeakMark {
        LeakMark::now()
    }

    /// Tells `each` call site that asked for blocks from `from` on and before `to` that are still live, those with the most bytes first,
    /// and answers with the sum. Blocks that pass untouched are not known. Takes no memory; `each` may ask for and free blocks, and its
    /// own question for leaks is answered with nothing.
    pub fn leaks(&self, from: LeakMark, to: LeakMark, each: &mut dyn FnMut(&Leak<'_>)) -> LeakSum {
        self.core().leaks(from, to, each)
    }

    /// The list of [`exit_leaks`](GuardOptions::exit_leaks) begins at `mark`: what is older may live as long as the process.
    pub fn exit_leaks_from(&self, mark: LeakMark) {
        self.core().counters.exit_from.set(mark);
    }

    /// Tells every live block, in no order. `each` may ask for and free blocks; what does so meanwhile may be missed.
    pub fn live(&self, each: &mut dyn FnMut(&BlockInfo<'_>)) {
        self.core().live(each);
    }

    /// Looks at everything that the guard wrote around live blocks and into freed ones, and reports what is not as it was. How many
    /// reports that made.
    pub fn check_all(&self) -> usize {
        self.core().check_all(DetectedAt::Check)
    }

    /// With how many bytes the block was asked for that begins here. A pointer that is no live block's is reported, and `None`; so is,
    /// without a report, one that may be a block which passed untouched.
    pub fn usable_size(&self, pointer: NonNull<u8>) -> Option<usize> {
        self.core().usable_size(pointer)
    }

    /// Writes what each call site took, has, and had when there was most, as valgrind's DHAT viewer reads it: JSON, version 2. Nothing
    /// but a frame around it where the options did not ask for a [`profile`](GuardOptions::profile). `names` puts names to return
    /// addresses; else they are a module and an offset in it, and `steward symbols` writes a copy with names. Takes no memory.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_dhat(
        &self,
        out: &mut dyn fmt::Write,
        command: &str,
        names: Option<&dyn FrameNames>,
    ) -> fmt::Result {
        self.core().write_dhat(out, command, names)
    }

    /// Writes a line for each call site, `owner;command;outermost;..;innermost 4096`, as flame graphs are drawn of; as
    /// [`write_dhat`](Self::write_dhat) otherwise.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_collapsed(
        &self,
        out: &mut dyn fmt::Write,
        weight: Weight,
        measure: Measure,
        names: Option<&dyn FrameNames>,
    ) -> fmt::Result {
        self.core().write_collapsed(out, weight, measure, names)
    }

    /// Ends the guard, after a last look at everything, and gives the allocator back.
    ///
    /// # Errors
    /// The guard, where blocks are live. Those that pass untouched do not count: they are the allocator's.
    pub fn close(self) -> Result<A, Rejected<Self, GuardInUse>> {
        let live_blocks = self.core().on_record();
        if live_blocks != 0 {
            return Err(Rejected::new(self, GuardInUse { live_blocks }));
        }
        let mut whole = ManuallyDrop::new(self);
        whole.end();
        // SAFETY: taken once: the guard is not dropped.
        Ok(unsafe { ManuallyDrop::take(&mut whole.inner) })
    }

    /// Everything but `inner` goes; with live blocks, or while somebody reads what it keeps, nothing does.
    fn end(&mut self) {
        if self.core().on_record() != 0 {
            return;
        }
        self.core().check_all(DetectedAt::Exit);
        if report::leave(&self.seat) {
            // SAFETY: made over `inner`; nobody knows of it any more, and this is its end.
            unsafe { GuardState::destroy(self.core, &*self.inner) };
        }
    }

    fn core(&self) -> &GuardState {
        // SAFETY: made by `GuardState::make`, destroyed when the guard goes.
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
        f.debug_struct("Guard")
            .field("name", &self.core().options.name)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
