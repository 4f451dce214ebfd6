//! What differs on Windows.

use std::hint::black_box;

/// A process whose heap is damaged may run for ever, under Wine.
pub(crate) const ENDS_WITH_A_BROKEN_HEAP: bool = false;

/// What the system calls a stack: nothing.
pub(crate) const STACK: Option<&str> = None;

/// An address on the stack of the calling thread.
pub(crate) fn on_a_stack() -> *mut u8 {
    let mut local = [0_u64; 8];
    black_box(&mut local).as_mut_ptr().cast()
}
