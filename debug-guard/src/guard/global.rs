//! A guard as the allocator of a whole Rust program.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::fmt;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release,
};

use alloc_core::{FromGlobalAlloc, HostAllocator, Scope};

use super::error::GuardError;
use super::leaks::{LeakMark, LeakSum};
use super::options::GuardOptions;
use super::state::GuardState;
use super::stats::GuardStats;
use crate::os;
use crate::report::{self, BlockInfo, DetectedAt, Leak, OnReport};

/// A guard for `#[global_allocator]`, made in a `static` and set up by its first allocation.
///
/// All blocks have scope [`Object`](Scope::Object) and no context, so rules go by size. What is asked for while the
/// guard itself asks the command of a thread or walks a stack is written down without a stack. It lives as long as the process:
/// allocations before `main`, after it, and while a thread ends are guarded like all others. `A` must not ask for memory of the program
/// while it serves the first request: on Linux the guard is refused then and everything passes, elsewhere it waits for itself.
///
/// ```
/// use debug_guard::{GlobalGuard, GuardOptions, Mode};
///
/// #[global_allocator]
/// static GUARD: GlobalGuard<std::alloc::System> = GlobalGuard::system(GuardOptions::new(Mode::Fence).name("program"));
///
/// let numbers = vec![1, 2, 3];
/// assert!(GUARD.stats().is_some_and(|stats| stats.live_blocks > 0), "{numbers:?} lies in pages of its own");
/// ```
pub struct GlobalGuard<A> {
    inner: FromGlobalAlloc<A>,
    options: GuardOptions,
    core: AtomicPtr<GuardState>,
    state: AtomicU8,
    /// The thread that sets it up, as the system numbers threads; 0: none, or one of a system that has no numbers.
    maker: AtomicU32,
    /// The allocator behind allocated from the guard meanwhile, and got its own memory.
    called_back: AtomicBool,
    /// Written before `state` becomes [`REFUSED`], then never again.
    refusal: UnsafeCell<Option<GuardError>>,
}

/// Of all blocks: the program's own objects.
const SCOPE: Scope = Scope::Object;

/// No allocation yet.
const NEW: u8 = 0;
/// A thread creates the guard; others wait.
const MAKING: u8 = 1;
const READY: u8 = 2;
/// Options or allocator refused: every block passes.
const REFUSED: u8 = 3;

/// The number of no thread.
const NOBODY: u32 = 0;

// SAFETY: the core is `Sync` and only ever shared; `inner` is shared where `A` may be.
unsafe impl<A: Sync> Sync for GlobalGuard<A> {}
// SAFETY: the core is `Send`.
unsafe impl<A: Send> Send for GlobalGuard<A> {}

impl GlobalGuard<std::alloc::System> {
    /// Over the operating system's allocator.
    #[must_use]
    pub const fn system(options: GuardOptions) -> Self {
        Self::over(FromGlobalAlloc::SYSTEM, options)
    }
}

impl<A> GlobalGuard<A> {
    /// Over `inner`.
    ///
    /// # Safety
    /// `A` is a mere handle, as allocators that are statics of no size are: moving it invalidates no block, and its clones are the
    /// same allocator.
    #[must_use]
    pub const unsafe fn new(inner: A, options: GuardOptions) -> Self {
        // SAFETY: promised by the caller.
        Self::over(unsafe { FromGlobalAlloc::new(inner) }, options)
    }

    const fn over(inner: FromGlobalAlloc<A>, options: GuardOptions) -> Self {
        Self {
            inner,
            options,
            core: AtomicPtr::new(null_mut()),
            state: AtomicU8::new(NEW),
            maker: AtomicU32::new(NOBODY),
            called_back: AtomicBool::new(false),
            refusal: UnsafeCell::new(None),
        }
    }
}

impl<A: GlobalAlloc> GlobalGuard<A> {
    /// Why nothing is guarded: what the options or the allocator behind refused. `None` while all is well, or nothing was asked for
    /// yet. A line on the descriptor of the reports said the same.
    pub fn refused(&self) -> Option<GuardError> {
        if self.state.load(Acquire) != REFUSED {
            return None;
        }
        // SAFETY: written once, before the state became `REFUSED`.
        unsafe { *self.refusal.get() }
    }

    /// What the guard has done so far; `None` before the first allocation, and where it was [`refused`](Self::refused).
    pub fn stats(&self) -> Option<GuardStats> {
        self.ready().map(GuardState::stats)
    }

    /// As [`Guard::mark`](crate::Guard::mark).
    pub fn mark(&self) -> LeakMark {
        LeakMark::now()
    }

    /// As [`Guard::leaks`](crate::Guard::leaks).
    pub fn leaks(&self, from: LeakMark, to: LeakMark, each: &mut dyn FnMut(&Leak<'_>)) -> LeakSum {
        self.ready()
            .map_or(LeakSum::default(), |core| core.leaks(from, to, each))
    }

    /// As [`Guard::exit_leaks_from`](crate::Guard::exit_leaks_from): what the runtime and static values took before `main` is no leak.
    pub fn exit_leaks_from(&self, mark: LeakMark) {
        if let Some(core) = self.ready() {
            core.counters.exit_from.set(mark);
        }
    }

    /// As [`Guard::live`](crate::Guard::live).
    pub fn live(&self, each: &mut dyn FnMut(&BlockInfo<'_>)) {
        if let Some(core) = self.ready() {
            core.live(each);
        }
    }

    /// As [`Guard::check_all`](crate::Guard::check_all).
    pub fn check_all(&self) -> usize {
        self.ready()
            .map_or(0, |core| core.check_all(DetectedAt::Check))
    }

    /// As [`Guard::usable_size`](crate::Guard::usable_size).
    pub fn usable_size(&self, pointer: NonNull<u8>) -> Option<usize> {
        self.ready()?.usable_size(pointer)
    }

    /// The core, if it exists.
    fn ready(&self) -> Option<&GuardState> {
        // SAFETY: null, or a core that lives as long as the process.
        unsafe { self.core.load(Acquire).as_ref() }
    }

    /// The core; created at the first call. `None` if it was refused.
    fn core(&self) -> Option<&GuardState> {
        self.ready().or_else(|| self.set_up())
    }

    #[cold]
    fn set_up(&self) -> Option<&GuardState> {
        if self
            .state
            .compare_exchange(NEW, MAKING, Acquire, Acquire)
            .is_ok()
        {
            self.maker.store(os::thread_id(), Relaxed);
            match check_global(&self.options).and_then(|()| self.make()) {
                Ok(core) => {
                    self.core.store(core.as_ptr(), Release);
                    self.state.store(READY, Release);
                }
                Err(error) => {
                    // SAFETY: only this thread is here, and others read after the state changed.
                    unsafe { *self.refusal.get() = Some(error) };
                    write_refusal(&self.options, error);
                    self.state.store(REFUSED, Release);
                }
            }
        }
        let me = os::thread_id();
        while self.state.load(Acquire) == MAKING {
            // This thread would wait for itself.
            if me != NOBODY && self.maker.load(Relaxed) == me {
                self.called_back.store(true, Relaxed);
                return None;
            }
            os::pause();
        }
        self.ready()
    }

    fn make(&self) -> Result<NonNull<GuardState>, GuardError> {
        let (core, slot) = GuardState::create(&self.inner, self.options)?;
        if !self.called_back.load(Relaxed) {
            // It lives as long as the process, so it keeps its slot.
            return Ok(core);
        }
        // A block that the allocator behind got from itself meanwhile would be unknown to the guard when it is freed.
        if report::leave(&slot) {
            // SAFETY: created just now over `inner`, without a block; nothing refers to it any more.
            unsafe { GuardState::destroy(core, &self.inner) };
        }
        Err(GuardError::CalledBack)
    }
}

/// Writes why nothing is guarded: a global allocator has no caller that could receive the error.
fn write_refusal(options: &GuardOptions, error: GuardError) {
    report::write_line(
        options.report_to.max(2),
        format_args!(
            "guard {:?} of the whole program: nothing is guarded: {error}",
            options.name
        ),
    );
}

/// Checks the options for a global allocator.
fn check_global(options: &GuardOptions) -> Result<(), GuardError> {
    if matches!(options.on_report, OnReport::Panic) {
        return Err(GuardError::PanicInGlobal);
    }
    options.check()
}

// SAFETY: blocks are those of the core, which keeps `HostAllocator`'s promises, or those of `inner`; nothing unwinds: a report that
// panics was refused.
unsafe impl<A: GlobalAlloc> GlobalAlloc for GlobalGuard<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = match self.core() {
            Some(core) => core.allocate(&self.inner, layout, SCOPE, false),
            None => self.inner.allocate(layout, SCOPE),
        };
        block.map_or(null_mut(), NonNull::as_ptr)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let block = match self.core() {
            Some(core) => core.allocate(&self.inner, layout, SCOPE, true),
            None => self.inner.allocate_zeroed(layout, SCOPE),
        };
        block.map_or(null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(block) = NonNull::new(block) else {
            return;
        };
        match self.core() {
            // SAFETY: the caller's promise.
            Some(core) => unsafe { core.free(&self.inner, block, layout, SCOPE) },
            // SAFETY: the caller's promise; where there is no core there never was one.
            None => unsafe { self.inner.deallocate(block, layout, SCOPE) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, old: Layout, size: usize) -> *mut u8 {
        let (Some(block), Ok(new)) = (
            NonNull::new(block),
            Layout::from_size_align(size, old.align()),
        ) else {
            return null_mut();
        };
        let moved = match self.core() {
            // SAFETY: the caller's promise.
            Some(core) => unsafe { core.resize(&self.inner, block, old, new, SCOPE) },
            // SAFETY: as in `dealloc`.
            None => unsafe { self.inner.resize(block, old, new, SCOPE) },
        };
        moved.map_or(null_mut(), NonNull::as_ptr)
    }
}

impl<A> fmt::Debug for GlobalGuard<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobalGuard")
            .field("name", &self.options.name)
            .finish_non_exhaustive()
    }
}
