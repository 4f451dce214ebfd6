//! The child of a fork starts without accounts, checker and state file. Its commands on objects of the parent work.

use crate::once::OnceAcrossForks;
use crate::settings::complain;
use crate::{
    accounts, caller_module, coverage, description, file_name, growth, guarding, hooks, leaks, once, os, report, state,
    tape, timeline,
};

pub(crate) fn watch() {
    static REGISTERED: OnceAcrossForks = OnceAcrossForks::new();
    REGISTERED.call_once(|| {
        if !os::watch_forks(start_afresh) {
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
    caller_module::after_fork();
    file_name::after_fork();
}
