//! The one lock of this module: held for some system calls and during a fork, never over an allocator.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

/// The lock of [`LockState`].
pub(super) static STATE: OsLock = OsLock {
    held: AtomicBool::new(false),
    state: UnsafeCell::new(LockState::NEW),
};

/// What the process has probed and installed.
pub(super) struct LockState {
    /// The result of probing.
    pub(super) refusals: Option<[Option<crate::os::OsRefusal>; 4]>,
    /// True when the fork handlers are installed.
    pub(super) fork_watched: bool,
}

impl LockState {
    const NEW: Self = Self {
        refusals: None,
        fork_watched: false,
    };
}

pub(super) struct OsLock {
    held: AtomicBool,
    state: UnsafeCell<LockState>,
}

// SAFETY: the state is reached by the holder alone, and is plain data.
unsafe impl Sync for OsLock {}

impl OsLock {
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut LockState) -> R) -> R {
        struct Release<'a>(&'a OsLock);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.release();
            }
        }
        self.hold();
        let _release = Release(self);
        // SAFETY: held by this thread, which has no other borrow: `f` gets the only one.
        f(unsafe { &mut *self.state.get() })
    }

    /// Until [`release`](Self::release).
    pub(super) fn hold(&self) {
        while self.held.swap(true, Ordering::Acquire) {
            // SAFETY: yields the processor.
            let _ = unsafe { libc::sched_yield() };
        }
    }

    pub(super) fn release(&self) {
        self.held.store(false, Ordering::Release);
    }
}
