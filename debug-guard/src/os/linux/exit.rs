//! The end of the process.

/// Runs `call` when the process exits, but not if it is aborted or ended by a signal. If the C library has no room, it is not run.
pub(crate) fn at_exit(call: extern "C" fn()) {
    // SAFETY: a function without arguments that lives as long as the process.
    let _ = unsafe { libc::atexit(call) };
}

/// Ends the process with `code`. Runs nothing else, not even functions of [`at_exit`].
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: does not come back.
    unsafe { libc::_exit(code) }
}
