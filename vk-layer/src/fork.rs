//! The child of a fork starts without accounts, checker and state file. Its commands on objects of the parent work.

use crate::once::OnceAcrossForks;
use crate::settings::complain;
use crate::{
    accounts, coverage, description, growth, guarding, hooks, leaks, once, report, state, tape,
    timeline,
};

pub(crate) fn watch() {
    static REGISTERED: OnceAcrossForks = OnceAcrossForks::new();
    REGISTERED.call_once(|| {
        // SAFETY: the library is never unloaded.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(start_afresh)) } != 0;
        if refused {
            complain(format_args!(
                "a forked child will report its parent's objects as well: the C library has no room for a handler"
            ));
        }
    });
}

extern "C" fn start_afresh() {
    once::after_fork();
    state::after_fork();
    accounts::after_fork();
    hooks::after_fork();
    report::after_fork();
    timeline::after_fork();
    tape::after_fork();
    leaks::after_fork();
    growth::after_fork();
    guarding::after_fork();
    coverage::after_fork();
    description::after_fork();
}

#[cfg(test)]
mod tests {
    use super::watch;
    use crate::once::forks;

    #[test]
    fn lc9_a_child_counts_the_fork_that_led_to_it() {
        watch();
        let before = forks();
        // SAFETY: the child calls nothing but the handler and `_exit`.
        let child = unsafe { libc::fork() };
        assert_ne!(child, -1, "no child");
        if child == 0 {
            let is_counted = forks() == before + 1;
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!is_counted)) }
        }
        let mut status = -1;
        // SAFETY: the child's number, and room for its status.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status, forks()), (child, 0, before));
    }
}
