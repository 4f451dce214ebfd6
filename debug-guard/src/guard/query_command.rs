//! Queries the command that a thread is in from a function of the program, which might allocate from this guard.

use super::options::GuardOptions;
use crate::call_sites::CommandMark;

#[cfg(feature = "std")]
mod local {
    use core::cell::Cell;
    use std::thread_local;

    thread_local! {
        // Const and without Drop: valid from the first instruction of a thread to its last.
        static QUERYING: Cell<bool> = const { Cell::new(false) };
    }

    /// `None` if the thread is in the function already.
    pub(super) fn once<R>(ask: impl FnOnce() -> Option<R>) -> Option<R> {
        if QUERYING.replace(true) {
            return None;
        }
        let _asking = QueryGuard;
        ask()
    }

    /// Ends the query, also if the program's function unwinds.
    struct QueryGuard;

    impl Drop for QueryGuard {
        fn drop(&mut self) {
            QUERYING.set(false);
        }
    }
}

/// Without thread-locals the function itself must not allocate from this guard.
#[cfg(not(feature = "std"))]
mod local {
    pub(super) fn once<R>(ask: impl FnOnce() -> Option<R>) -> Option<R> {
        ask()
    }
}

impl GuardOptions {
    /// The command that this thread is in. The program's function is not called again on the thread while it runs.
    pub(super) fn query_command(&self) -> Option<CommandMark> {
        local::once(self.command?)
    }
}
