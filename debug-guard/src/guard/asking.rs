//! Asking the command that a thread is in: a function of the program, which might ask this guard for memory.

use super::options::CommandMark;
use super::options::GuardOptions;

#[cfg(feature = "std")]
mod local {
    use core::cell::Cell;
    use std::thread_local;

    thread_local! {
        // Const-made and without Drop: there from the first instruction of a thread to its last.
        static ASKING: Cell<bool> = const { Cell::new(false) };
    }

    /// `None` where the thread is asking already.
    pub(super) fn once<R>(ask: impl FnOnce() -> Option<R>) -> Option<R> {
        if ASKING.replace(true) {
            return None;
        }
        let _asking = Asking;
        ask()
    }

    /// Ends the question, also where the program's function unwinds.
    struct Asking;

    impl Drop for Asking {
        fn drop(&mut self) {
            ASKING.set(false);
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
    pub(super) fn ask_command(&self) -> Option<CommandMark> {
        local::once(self.command?)
    }
}
