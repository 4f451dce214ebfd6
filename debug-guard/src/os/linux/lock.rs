//! The one lock of this module: held for some system calls, never over an allocator, and by whoever forks.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

/// What it guards is [`State`].
pub(super) static STATE: Lock = Lock { held: AtomicBool::new(false), state: UnsafeCell::new(State::NEW) };

/// What the process has found out and set up.
pub(super) struct State {
    /// What probing found, once it did.
    pub(super) refusals: Option<[Option<crate::os::OsRefusal>; 4]>,
    /// True when the fork handlers stand.
    pub(super) fork_watched: bool,
}

impl State {
    const NEW: Self = Self { refusals: None, fork_watched: false };
}

pub(super) struct Lock {
    held: AtomicBool,
    state: UnsafeCell<State>,
}

// SAFETY: the state is reached by the holder alone, and is plain data.
unsafe impl Sync for Lock {}

impl Lock {
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        struct Release<'a>(&'a Lock);
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
            // SAFETY: gives the processor away for a moment.
            let _ = unsafe { libc::sched_yield() };
        }
    }

    pub(super) fn release(&self) {
        self.held.store(false, Ordering::Release);
    }
}
