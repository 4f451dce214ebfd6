//! Children made by fork.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A busy machine takes a tenth of a second for a fork that waits for other threads.
const LIMIT: Duration = Duration::from_secs(10);

/// Runs `meanwhile` on `threads` threads again and again, with a number that grows, and forks `forks` times, or for ten
/// seconds. Each child, which has none of these threads, runs `child` with the number of the fork, and ends without
/// handlers. The caller's process should have no other threads.
///
/// # Panics
/// If a child panics, or runs for 10 seconds: then it waits for a lock of a thread that it does not have.
pub fn fork_while(threads: usize, forks: u64, meanwhile: impl Fn(u64) + Sync, child: impl Fn(u64)) {
    let (is_over, is_ready) = (AtomicBool::new(false), Barrier::new(threads + 1));
    let failed = thread::scope(|scope| {
        for thread in 0..threads {
            let (meanwhile, is_over, is_ready) = (&meanwhile, &is_over, &is_ready);
            scope.spawn(move || {
                meanwhile(thread as u64);
                is_ready.wait();
                let mut turn = thread as u64;
                while !is_over.load(Ordering::Relaxed) {
                    turn += 1;
                    meanwhile(turn);
                }
            });
        }
        is_ready.wait();
        let begin = Instant::now();
        let failed = (0..forks)
            .take_while(|_| begin.elapsed() < LIMIT)
            .map(|number| (number, in_child(|| child(number))))
            .find(|(_, status)| *status != 0);
        is_over.store(true, Ordering::Relaxed);
        failed
    });
    assert_eq!(failed, None, "fork and status; 14: the child waited");
}

/// Runs `work` in a forked child. Returns its status, as `waitpid` has it.
fn in_child(work: impl FnOnce()) -> i32 {
    // SAFETY: what the child does until it ends needs no lock but those that the handlers of forks see to.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: a number of seconds.
            unsafe { libc::alarm(10) };
            let done = catch_unwind(AssertUnwindSafe(work));
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the child's number, and room for its status.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(waited, child, "-1: there is no child");
            status
        }
    }
}
