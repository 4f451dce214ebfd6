//! Forks: no thread is inside this module during one, and freed pages stay inaccessible in the child.
//!
//! Markers and protections are inherited; userfaultfd is not. A child that is made by a raw clone(2), past the C library, is not seen.

use core::sync::atomic::{AtomicU32, Ordering};

use super::lock::{LockState, STATE};
use super::{process, report_stack, userfault};
use crate::os::OsRefusal;

static FORKS: AtomicU32 = AtomicU32::new(0);

/// The number of forks between this process and the one that first used a guard. A lock held under another number has no holder here.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Once a process.
pub(super) fn watch(state: &mut LockState) -> Result<(), OsRefusal> {
    if !state.fork_watched {
        // SAFETY: functions of this library, which is not unloaded: its signal handler could not be either.
        let answer = unsafe {
            libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child))
        };
        if answer != 0 {
            return Err(OsRefusal::Call {
                call: "pthread_atfork",
                errno: answer,
            });
        }
        state.fork_watched = true;
    }
    Ok(())
}

extern "C" fn before() {
    STATE.hold();
}

extern "C" fn after_in_parent() {
    STATE.release();
}

extern "C" fn after_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    let (former, now) = process::renew_thread();
    report_stack::inherit(former, now);
    userfault::watch_again();
    STATE.release();
}
