//! The end of the process: guards list their leaks if the options request it.

use core::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::os;
use crate::report;

/// Registers the list at exit, once a process.
pub(super) fn register() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, SeqCst) {
        os::at_exit(report_at_exit);
    }
}

extern "C" fn report_at_exit() {
    let mut code = None;
    let _: Option<()> = report::query(|guard| {
        let own = guard.at_exit();
        code = code.or(own);
        None
    });
    if let Some(code) = code {
        os::exit_now(code);
    }
}
