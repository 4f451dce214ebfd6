//! What the kernel and the C library of Linux add: forks, signals, mappings, system calls, names of stacks.

mod library;
mod limits;
mod many;
mod process;

/// A process whose heap is damaged ends, one way or the other.
pub(crate) const ENDS_WITH_A_BROKEN_HEAP: bool = true;

/// What the system calls the stack of [`on_a_stack`].
pub(crate) const STACK: Option<&str> = Some("[stack]");

/// Sixteen bytes that the kernel put on the stack of the main thread; other stacks have no name.
pub(crate) fn on_a_stack() -> *mut u8 {
    // SAFETY: asks for a number.
    let random = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    std::ptr::with_exposed_provenance_mut(random & !7)
}
