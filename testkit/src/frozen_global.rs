//! Running operations away from every heap: over a static array, and under a global allocator that refuses.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::fmt::{self, Debug};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use alloc_core::{AllocError, AllocatorTraits, HostAllocator, Scope};

use crate::fixture::Stage;

const BYTES: usize = 4 << 20;
const ALIGN: usize = 4096;

/// A static array that gives blocks one after the other, and begins again when all came back. One thread at a time.
pub struct Still {
    memory: UnsafeCell<Memory>,
    top: AtomicUsize,
    live: AtomicUsize,
    requests: AtomicUsize,
}

#[repr(align(4096))]
struct Memory {
    _bytes: [u8; BYTES],
}

/// The one there is in a process.
pub static STILL: Still = Still {
    memory: UnsafeCell::new(Memory { _bytes: [0; BYTES] }),
    top: AtomicUsize::new(0),
    live: AtomicUsize::new(0),
    requests: AtomicUsize::new(0),
};

// SAFETY: the array is reached through blocks only, and no two that are live overlap.
unsafe impl Sync for Still {}

impl Still {
    /// Requests so far.
    pub fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }

    /// Blocks that did not come back yet.
    pub fn live(&self) -> usize {
        self.live.load(SeqCst)
    }
}

// SAFETY: blocks lie apart in the static array, aligned, and their room is used again only when none is live.
unsafe impl HostAllocator for Still {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new().never_unwinds()
    }

    fn allocate(&self, layout: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
        self.requests.fetch_add(1, SeqCst);
        let start = self.top.load(SeqCst).next_multiple_of(layout.align());
        if layout.align() > ALIGN || layout.size() > BYTES.saturating_sub(start) {
            return Err(AllocError);
        }
        self.top.store(start + layout.size(), SeqCst);
        self.live.fetch_add(1, SeqCst);
        NonNull::new(self.memory.get().cast::<u8>().wrapping_add(start)).ok_or(AllocError)
    }

    unsafe fn deallocate(&self, _: NonNull<u8>, _: Layout, _: Scope) {
        if self.live.fetch_sub(1, SeqCst) == 1 {
            self.top.store(0, SeqCst);
        }
    }
}

impl Debug for Still {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Still").field("requests", &self.requests).field("live", &self.live).finish_non_exhaustive()
    }
}

/// A [`Stage`] over [`STILL`] that runs each attempt once, and looks at what `observe` sees without comparing.
#[derive(Clone, Copy, Debug)]
pub struct Once;

impl Stage for Once {
    type Host = Still;

    fn host(&self) -> &Still {
        &STILL
    }

    fn attempt<T, E: Debug, O: PartialEq + Debug>(
        &self,
        observe: impl Fn() -> O,
        mut operation: impl FnMut() -> Result<T, E>,
    ) -> T {
        drop(observe());
        operation().expect("nothing is refused")
    }
}

/// A global allocator for a test's process: the system's, but inside of [`Refusing::inside`] it refuses and counts.
///
/// What it cannot see is the small block that libc takes for a thread's first destructor of thread-local storage.
#[derive(Clone, Copy, Debug)]
pub struct Refusing;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

static REFUSED: AtomicUsize = AtomicUsize::new(0);

impl Refusing {
    /// Runs `call` with every request of this thread refused.
    pub fn inside<R>(self, call: impl FnOnce() -> R) -> R {
        INSIDE.set(true);
        let answer = call();
        INSIDE.set(false);
        answer
    }

    /// From here to its end this thread is inside.
    pub fn inside_for_good(self) {
        INSIDE.set(true);
    }

    /// Requests refused so far, of all threads.
    pub fn refused(self) -> usize {
        REFUSED.load(SeqCst)
    }

    /// Shows that it refuses and counts, inside only.
    ///
    /// # Panics
    /// When it does not: it is not the global allocator of this process.
    pub fn assert_it_would_notice(self) {
        let before = self.refused();
        let mut list = Vec::<u8>::new();
        assert!(self.inside(|| list.try_reserve(100)).is_err(), "a request inside is refused");
        assert_eq!(self.refused(), before + 1, "and counted");
        assert!(list.try_reserve(100).is_ok(), "one outside is not");
        assert_eq!(self.refused(), before + 1);
        REFUSED.store(before, SeqCst);
    }
}

// SAFETY: blocks are the system's; a refusal is null.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A test that fails must be able to say so.
        if INSIDE.get() && !std::thread::panicking() {
            REFUSED.fetch_add(1, SeqCst);
            return std::ptr::null_mut();
        }
        // SAFETY: this function's contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: this function's contract: all blocks are the system's.
        unsafe { System.dealloc(block, layout) }
    }
}
