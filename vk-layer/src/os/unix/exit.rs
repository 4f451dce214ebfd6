use crate::report::write_at_the_end;

/// Returns whether the call will be made when the process exits.
pub(crate) fn at_exit(call: extern "C" fn()) -> bool {
    // SAFETY: the library is never unloaded.
    unsafe { libc::atexit(call) == 0 }
}

#[used]
// SAFETY: the section has addresses of such functions, and the library is never unloaded.
#[unsafe(link_section = ".fini_array")]
static AT_THE_END: extern "C" fn() = write_at_the_end;
