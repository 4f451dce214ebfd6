use core::alloc::{GlobalAlloc, Layout};
use core::fmt;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::OnceLock;

use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};

use super::error::GuardError;
use super::options::GuardOptions;
use super::state::GuardState;
use crate::os;
use crate::report::{self, OnReport};

/// A guard for `#[global_allocator]`, made in a `static` and set up by its first allocation.
///
/// All blocks have scope [`Object`](Scope::Object) and no context, so rules go by size. Allocations while the guard
/// itself queries a thread's command or walks a stack are recorded without a stack. It lives as long as the process:
/// allocations before `main`, after it, and while a thread ends are guarded like all others. `A` must not allocate
/// from the program while it serves the first request: on Linux the guard is refused then and everything passes,
/// elsewhere it waits for itself.
///
/// ```
/// use debug_guard::{GlobalGuard, GuardOptions, Mode};
///
/// #[global_allocator]
/// static GUARD: GlobalGuard<std::alloc::System> = GlobalGuard::system(GuardOptions::new(Mode::Fence).name("program"));
///
/// let numbers = vec![1, 2, 3];
/// assert!(GUARD.guard().is_ok_and(|guard| guard.stats().live_blocks > 0), "{numbers:?} lies in pages of its own");
/// ```
#[doc(alias("leak", "global_allocator"))]
pub struct GlobalGuard<A> {
    inner: FromGlobalAlloc<A>,
    options: GuardOptions,
    state: OnceLock<Result<&'static GuardState, GuardError>>,
    /// 0: none, or no numbers.
    maker: AtomicU32,
    called_back: AtomicBool,
}

const SCOPE: Scope = Scope::Object;

const NOBODY: u32 = 0;

impl GlobalGuard<std::alloc::System> {
    /// Guards the operating system's allocator.
    #[must_use]
    pub const fn system(options: GuardOptions) -> Self {
        Self::over(FromGlobalAlloc::SYSTEM, options)
    }
}

impl<A> GlobalGuard<A> {
    /// Guards `inner`.
    ///
    /// # Safety
    /// `A` is a mere handle, as allocators in statics are: moving it invalidates no block, and its clones are the same
    /// allocator.
    #[must_use]
    pub const unsafe fn new(inner: A, options: GuardOptions) -> Self {
        // SAFETY: this function's contract.
        Self::over(unsafe { FromGlobalAlloc::new(inner) }, options)
    }

    const fn over(inner: FromGlobalAlloc<A>, options: GuardOptions) -> Self {
        Self {
            inner,
            options,
            state: OnceLock::new(),
            maker: AtomicU32::new(NOBODY),
            called_back: AtomicBool::new(false),
        }
    }
}

impl<A: GlobalAlloc> GlobalGuard<A> {
    /// The guard, created now if nothing was allocated yet.
    ///
    /// # Errors
    /// Why nothing is guarded: the refusal of the options or of the allocator behind. It was also written to the
    /// descriptor of the reports.
    #[inline]
    pub fn guard(&self) -> Result<&GuardState, GuardError> {
        match self.state.get() {
            Some(state) => *state,
            None => self.set_up(),
        }
    }

    #[cold]
    fn set_up(&self) -> Result<&GuardState, GuardError> {
        let me = os::thread_id();
        // This thread would wait for itself.
        if me != NOBODY && self.maker.load(Relaxed) == me {
            self.called_back.store(true, Relaxed);
            return Err(GuardError::CalledBack);
        }
        *self.state.get_or_init(|| {
            self.maker.store(me, Relaxed);
            let made = check_global(&self.options).and_then(|()| self.make());
            if let Err(error) = made {
                write_refusal(&self.options, error);
            }
            made
        })
    }

    fn make(&self) -> Result<&'static GuardState, GuardError> {
        let (core, slot) = GuardState::create(&self.inner, self.options)?;
        if !self.called_back.load(Relaxed) {
            // SAFETY: the guard lives as long as the process.
            return Ok(unsafe { core.as_ref() });
        }
        // A block that the allocator behind got from itself meanwhile would be unknown to the guard when freed.
        if report::REGISTRY.leave(&slot) {
            // SAFETY: created over `inner` just now; nothing refers to it.
            unsafe { GuardState::destroy(core, &self.inner) };
        }
        Err(GuardError::CalledBack)
    }
}

/// A global allocator has no caller that could receive the error.
fn write_refusal(options: &GuardOptions, error: GuardError) {
    report::write_line(
        options.report_to.max(2),
        format_args!("guard {:?} of the whole program: nothing is guarded: {error}", options.name),
    );
}

fn check_global(options: &GuardOptions) -> Result<(), GuardError> {
    if matches!(options.on_report, OnReport::Panic) {
        return Err(GuardError::PanicInGlobal);
    }
    options.check()
}

// SAFETY: blocks are the core's, or `inner`'s; `OnReport::Panic` was refused.
unsafe impl<A: GlobalAlloc> GlobalAlloc for GlobalGuard<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = match self.guard() {
            Ok(core) => core.allocate(&self.inner, layout, SCOPE, false),
            Err(_) => self.inner.allocate(layout, SCOPE),
        };
        block.map_or(null_mut(), NonNull::as_ptr)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = match self.guard() {
            Ok(core) => core.allocate(&self.inner, layout, SCOPE, true),
            Err(_) => self.inner.allocate_zeroed(layout, SCOPE),
        };
        block.map_or(null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(block) = NonNull::new(block) else {
            return;
        };
        match self.guard() {
            // SAFETY: the contract of `dealloc`; all blocks come from `inner`.
            Ok(core) => unsafe { core.free(&self.inner, block, layout, SCOPE) },
            // SAFETY: the contract of `GlobalAlloc::dealloc`; without a guard the block is `inner`'s.
            Err(_) => unsafe { self.inner.deallocate(block, layout, SCOPE) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, old: Layout, size: usize) -> *mut u8 {
        let (Some(block), Ok(new)) = (NonNull::new(block), Layout::from_size_align(size, old.align())) else {
            return null_mut();
        };
        let moved = match self.guard() {
            // SAFETY: the contract of `realloc`; all blocks come from `inner`.
            Ok(core) => unsafe { core.resize(&self.inner, block, old, new, SCOPE) },
            // SAFETY: the contract of `GlobalAlloc::realloc`; without a guard the block is `inner`'s.
            Err(_) => unsafe { self.inner.resize(block, old, new, SCOPE) },
        };
        moved.map_or(null_mut(), NonNull::as_ptr)
    }
}

impl<A> fmt::Debug for GlobalGuard<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobalGuard").field("name", &self.options.name).finish_non_exhaustive()
    }
}
