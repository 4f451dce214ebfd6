//! Asking the command that a thread is in: a function of the program, which might ask this guard for memory.

use super::options::GuardOptions;
use crate::call_sites::CommandMark;

#[cfg(feature = "std")]
mod local {
    use core::cell::Cell;
    use std::thread_local;

    thread_local! {
        // Const-made and without Drop: there from the first instruction of a thread to its last.
        static QUERYING: Cell<bool> = const { Cell::new(false) };
    }

    /// `None` where the thread is asking already.
    pub(super) fn once<R>(ask: impl FnOnce() -> Option<R>) -> Option<R> {
        if QUERYING.replace(true) {
            return None;
        }
        let _asking = QueryGuard;
        ask()
    }

    /// Ends the question, also where the program's function unwinds.
    struct QueryGuard;

    impl Drop for QueryGuard {
        fn drop(&mut self) {
            QUERYING.set(false);
        }
    }
}

/// Without thread-locals nobody can tell: the function must keep to its word.
#[cfg(not(feature = "std"))]
mod local {
    pub(super) fn once<R>(ask: impl FnOnce() -> Option<R>) -> Option<R> {
        ask()
    }
}

impl GuardOptions {
    /// The command that this thread is in. While the program's function runs, nobody asks it again on its thread.
    #[inline]
    pub(super) fn query_command(&self) -> Option<CommandMark> {
        local::once(self.command?)
    }
}
