//! A stage over memory that no heap knows: a static array.

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::fmt::Debug;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use alloc_core::{AllocError, HostAllocator, Scope};

use super::Stage;

const BYTES: usize = 4 << 20;

/// Gives blocks one after the other and begins again when all came back.
pub(crate) struct Still {
    memory: UnsafeCell<Page<BYTES>>,
    top: AtomicUsize,
    live: AtomicUsize,
    requests: AtomicUsize,
}

#[repr(align(4096))]
struct Page<const N: usize>([u8; N]);

/// The one there is. Used by one thread at a time.
pub(crate) static STILL: Still = Still {
    memory: UnsafeCell::new(Page([0; BYTES])),
    top: AtomicUsize::new(0),
    live: AtomicUsize::new(0),
    requests: AtomicUsize::new(0),
};

// SAFETY: blocks are given out with atomics, and no two overlap while one is live.
unsafe impl Sync for Still {}

impl Still {
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }

    pub(crate) fn live(&self) -> usize {
        self.live.load(SeqCst)
    }
}

// SAFETY: blocks lie apart in the static array, aligned, and stay until `live` says that all are gone.
unsafe impl HostAllocator for Still {
    fn allocate(&self, layout: Layout, _: Scope) -> Result<NonNull<u8>, AllocError> {
        self.requests.fetch_add(1, SeqCst);
        let start = self.top.load(SeqCst).next_multiple_of(layout.align());
        if start + layout.size() > BYTES || layout.align() > 4096 {
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

/// Runs each attempt once, and looks at what `observe` sees without comparing.
pub(crate) struct Once;

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
