//! The one module with thread-locals: which command this thread is in, whether it is inside a callback, its number, whether it
//! ever issued a command, what its last one made.
//!
//! All of them are constant-initialised and without destructors, so they can be used until the thread's very last
//! instruction, take no memory, and cost one load. Without the feature `std` there are none and everything answers "not known".

use crate::check::Making;
use crate::command::Frame;

pub(crate) use imp::{
    early_callback, enter_callback, enter_command, has_issued, in_callback, next_serial, swap_making, swap_top, thread_number,
    top, was_early_for,
};

/// What a command of this thread was making under the checker at this address, and nobody has told of yet.
pub(crate) type Pending = Option<(*const (), Making)>;

/// Takes the "inside a callback" mark off when it goes.
///
/// The mark is written and never read on the way: reading it and putting it back would cost a callback about 1 ns, in a chain from
/// call to call. So a bridge that was entered from inside another takes the mark off for both.
pub(crate) struct InCallback(());

#[cfg(feature = "std")]
mod imp {
    extern crate std;

    use core::cell::Cell;
    use core::ptr;
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::thread_local;

    use super::{Frame, InCallback, Pending};

    thread_local! {
        static TOP: Cell<*const Frame> = const { Cell::new(ptr::null()) };
        static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
        static NUMBER: Cell<u64> = const { Cell::new(0) };
        static ISSUED: Cell<bool> = const { Cell::new(false) };
        static EARLY: Cell<bool> = const { Cell::new(false) };
        static TOLD: Cell<*const ()> = const { Cell::new(ptr::null()) };
        static MAKING: Cell<Pending> = const { Cell::new(None) };
    }

    /// Puts a frame on top; answers with the one below.
    #[inline]
    pub(crate) fn enter_command(frame: *const Frame) -> *const Frame {
        ISSUED.set(true);
        TOP.replace(frame)
    }

    /// This thread has run a command in a bracket.
    pub(crate) fn has_issued() -> bool {
        ISSUED.get()
    }

    /// A callback came before the thread's first command.
    pub(crate) fn early_callback() {
        EARLY.set(true);
    }

    /// Whether one did, and `checker` was not the last to ask: each has to hear it once, whichever runs the first command.
    ///
    /// One that asks again after another has is told again. One that lies where the last one lay is not told; it came after the
    /// thread's first command, so there is nothing to tell.
    #[inline]
    pub(crate) fn was_early_for(checker: *const ()) -> bool {
        EARLY.get() && TOLD.replace(checker) != checker
    }

    /// Remembers what the last command was making; answers with what was remembered.
    #[inline]
    pub(crate) fn swap_making(making: Pending) -> Pending {
        MAKING.replace(making)
    }

    /// The innermost frame of this thread, or null.
    #[inline]
    pub(crate) fn top() -> *const Frame {
        TOP.get()
    }

    #[inline]
    pub(crate) fn swap_top(frame: *const Frame) -> *const Frame {
        TOP.replace(frame)
    }

    #[inline(always)]
    pub(crate) fn enter_callback() -> InCallback {
        IN_CALLBACK.set(true);
        InCallback(())
    }

    #[inline]
    pub(crate) fn in_callback() -> bool {
        IN_CALLBACK.get()
    }

    impl Drop for InCallback {
        #[inline(always)]
        fn drop(&mut self) {
            IN_CALLBACK.set(false);
        }
    }

    /// Counted up from 1; the operating system's ids are used again after a thread ended.
    pub(crate) fn thread_number() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        match NUMBER.get() {
            0 => {
                let number = NEXT.fetch_add(1, Relaxed);
                NUMBER.set(number);
                number
            }
            number => number,
        }
    }

    /// Counted up from 1 over the process.
    pub(crate) fn next_serial() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Relaxed)
    }
}

#[cfg(not(feature = "std"))]
mod imp {
    use core::ptr;

    use super::{Frame, InCallback, Pending};

    pub(crate) const fn swap_making(_: Pending) -> Pending {
        None
    }
    pub(crate) const fn enter_command(_: *const Frame) -> *const Frame {
        ptr::null()
    }
    pub(crate) const fn has_issued() -> bool {
        false
    }
    pub(crate) const fn early_callback() {}
    pub(crate) const fn was_early_for(_: *const ()) -> bool {
        false
    }

    pub(crate) const fn top() -> *const Frame {
        ptr::null()
    }
    pub(crate) const fn swap_top(_: *const Frame) -> *const Frame {
        ptr::null()
    }
    pub(crate) const fn enter_callback() -> InCallback {
        InCallback(())
    }
    pub(crate) const fn in_callback() -> bool {
        false
    }
    pub(crate) const fn thread_number() -> u64 {
        0
    }
    pub(crate) const fn next_serial() -> u64 {
        0
    }
}
