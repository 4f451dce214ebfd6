//! The end of the process.

/// `call` is run when the process exits; not when it is aborted or ended by a signal. Before `main` returns any number of times may be
/// asked; where there is no room for one more it is not run.
pub(crate) fn at_exit(call: extern "C" fn()) {
    // SAFETY: a function without arguments that lives as long as the process.
    let _ = unsafe { libc::atexit(call) };
}

/// Ends the process with `code`; nothing else is run, not even what was asked for by [`at_exit`].
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: does not come back.
    unsafe { libc::_exit(code) }
}
