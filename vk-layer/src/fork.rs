//! The child of a fork starts without accounts, checker and state file. Its commands on objects of the parent work: alloc-core sees to
//! its own locks.

use crate::once::OnceAcrossForks;
use crate::settings::complain;
use crate::{
    accounts, coverage, description, guarding, hooks, leaks, once, report, state, timeline,
};

/// Registers the handler in which a child starts afresh.
pub(crate) fn watch() {
    static REGISTERED: OnceAcrossForks = OnceAcrossForks::new();
    REGISTERED.call_once(|| {
        // SAFETY: the library is never unloaded, so that the function is there at every fork.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(start_afresh)) } != 0;
        if refused {
            complain(format_args!(
                "a forked child will report its parent's objects as well: the C library has no room for a handler"
            ));
        }
    });
}

/// In the child, on its one thread: stores and no more, as such a handler must.
extern "C" fn start_afresh() {
    once::after_fork();
    state::after_fork();
    accounts::after_fork();
    hooks::after_fork();
    report::after_fork();
    timeline::after_fork();
    leaks::after_fork();
    guarding::after_fork();
    coverage::after_fork();
    description::after_fork();
}
