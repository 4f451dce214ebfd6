//! The one lock of this module is held for some system calls and during a fork: no thread is inside then, and freed
//! pages stay inaccessible in the child. It is never held over an allocator. A child that is made by a raw clone(2),
//! past the C library, is not seen.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::{process, report_stack, userfaultfd};
use crate::os::OsRefusal;

static FORKS: AtomicU32 = AtomicU32::new(0);
static HELD: AtomicBool = AtomicBool::new(false);

/// A lock held under another number has no holder in this process.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// One thread at a time, and no fork meanwhile.
pub(crate) fn without_forks<R>(f: impl FnOnce() -> R) -> R {
    struct Release;
    impl Drop for Release {
        fn drop(&mut self) {
            release();
        }
    }
    hold();
    let _release = Release;
    f()
}

pub(super) fn watch() -> Result<(), OsRefusal> {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    without_forks(|| {
        if WATCHED.load(Ordering::Relaxed) {
            return Ok(());
        }
        // SAFETY: functions of this library, which is not unloaded: its signal handler could not be either.
        let errno = unsafe { libc::pthread_atfork(Some(hold), Some(release), Some(after_in_child)) };
        if errno != 0 {
            let call = "pthread_atfork";
            return Err(OsRefusal::Call { call, errno });
        }
        WATCHED.store(true, Ordering::Relaxed);
        Ok(())
    })
}

extern "C" fn hold() {
    while HELD.swap(true, Ordering::Acquire) {
        // SAFETY: yields the processor.
        let _ = unsafe { libc::sched_yield() };
    }
}

extern "C" fn release() {
    HELD.store(false, Ordering::Release);
}

extern "C" fn after_in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    let (former, now) = process::renew_thread();
    report_stack::inherit(former, now);
    userfaultfd::watch_again();
    release();
}
