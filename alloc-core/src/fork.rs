//! A thread counts the locks that it holds: in its table, or, where that is not listed, in [`UNLISTED`]. A fork closes
//! the gate, so that a thread without a lock gets none, and waits until no thread holds one. The child finds every
//! structure whole, and folds what the threads that it lacks had counted.

use crate::account::{self, AccountTable};
use crate::context::tree;
use crate::sync::{AtomicUsize, Ordering, Relaxed as _};
use crate::threads;

/// 0 if open, else the thread that forks ([`threads::id`]); 1 where threads cannot be told apart.
static GATE: AtomicUsize = AtomicUsize::new(0);
/// Threads that hold locks and are not listed; where threads cannot be told apart, locks.
static UNLISTED: AtomicUsize = AtomicUsize::new(0);

/// A bit of a table's `held`, beside the number of locks.
const IS_UNLISTED: u32 = 1 << 31;

/// True if the thread holds no other lock: then it must call [`may_hold_locks`] before it acquires one. Sequentially
/// consistent: the thread sees that the gate is closed, or the thread that forks sees the count.
#[inline]
pub(crate) fn enter(table: Option<&AccountTable>) -> bool {
    let Some(table) = table else {
        if cfg!(feature = "std") {
            UNLISTED.fetch_add(1, Ordering::SeqCst);
        }
        return cfg!(feature = "std");
    };
    let held = table.held.get();
    if held != 0 {
        table.held.set(held.wrapping_add(1));
    } else if table.is_listed() {
        table.held.store(1, Ordering::SeqCst);
    } else {
        UNLISTED.fetch_add(1, Ordering::SeqCst);
        table.held.set(IS_UNLISTED | 1);
    }
    held == 0
}

#[inline]
pub(crate) fn leave(table: Option<&AccountTable>) {
    let Some(table) = table else {
        if cfg!(feature = "std") {
            // In the child of a fork the lock may be its parent's, and not counted any more.
            let less = |count: usize| count.checked_sub(1);
            let _ = UNLISTED.fetch_update(Ordering::Release, Ordering::Relaxed, less);
        }
        return;
    };
    let held = table.held.get().wrapping_sub(1);
    if held == IS_UNLISTED {
        table.held.set(0);
        UNLISTED.fetch_sub(1, Ordering::Release);
    } else {
        table.held.store(held, Ordering::Release);
    }
}

pub(crate) fn held(table: &AccountTable) -> usize {
    (table.held.get() & !IS_UNLISTED) as usize
}

/// False while another thread forks.
#[inline]
pub(crate) fn may_hold_locks() -> bool {
    let gate = GATE.load(Ordering::SeqCst);
    gate == 0 || is_forking(gate)
}

/// Other handlers of the forking thread's fork may use contexts.
#[cold]
fn is_forking(gate: usize) -> bool {
    gate == threads::id()
}

#[cold]
pub(crate) fn wait_for_gate() {
    let mut tries = 0_u32;
    while !may_hold_locks() {
        tries = tries.wrapping_add(1);
        threads::relax(tries);
    }
}

/// The child's one thread has this table.
pub(crate) fn in_child(own: Option<&AccountTable>) {
    let unlisted = own.is_some_and(|own| own.held.get() & IS_UNLISTED != 0);
    UNLISTED.set(usize::from(unlisted));
    GATE.set(0);
    account::inherit(own);
    tree::recharge();
}

/// Registers the handlers of forks, once. Every root does; crates that use a [`StateLock`](crate::support::StateLock)
/// without a context call it themselves.
///
/// The handlers wait for locks, and run in reverse order before a fork: a lock that a program holds over calls of this
/// crate, and acquires in a handler of its own, must be watched after the first root was created.
pub fn watch_forks() {
    #[cfg(all(feature = "std", unix, not(miri)))]
    handlers::watch();
}

#[cfg(all(feature = "std", unix, not(miri)))]
mod handlers {
    use core::ffi::c_int;
    use std::time::{Duration, Instant};

    use super::{GATE, Ordering, UNLISTED, account, held, in_child, threads};
    use crate::sync::{AtomicU8, Relaxed as _};

    type Handler = Option<extern "C" fn()>;

    unsafe extern "C" {
        fn pthread_atfork(before: Handler, in_parent: Handler, in_child: Handler) -> c_int;
    }

    pub(super) fn watch() {
        static WATCHED: AtomicU8 = AtomicU8::new(0);
        if WATCHED.get() == 0 && WATCHED.swap(1, Ordering::Relaxed) == 0 {
            // SAFETY: the C library forgets the handlers of a library that is unloaded.
            let refused = unsafe { pthread_atfork(Some(before), Some(after), Some(child)) } != 0;
            // The next root tries again.
            WATCHED.set(u8::from(!refused));
        }
    }

    extern "C" fn before() {
        if threads::with_table(|own| own.is_some_and(|own| held(own) != 0)) {
            // The thread of a signal handler cannot wait for those that wait for its lock.
            return;
        }
        let own = threads::id().max(1);
        let began = Instant::now();
        loop {
            wait_until(|| GATE.compare_exchange(0, own, Ordering::SeqCst, Ordering::Relaxed).is_ok());
            let mut turns = 0_u32;
            let mut is_stuck = false;
            wait_until(|| {
                let unlisted = UNLISTED.load(Ordering::SeqCst) != 0;
                turns = turns.saturating_add(1);
                is_stuck = unlisted && turns > PATIENCE;
                is_stuck || !unlisted && !account::is_a_lock_held()
            });
            if !is_stuck {
                return;
            }
            // Where threads cannot be told apart, one that holds a lock waits at the gate for its second: let it pass,
            // and sleep, so that it does on a busy machine too.
            GATE.store(0, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
            if began.elapsed() >= LONGEST_WAIT {
                return;
            }
        }
    }

    const PATIENCE: u32 = 256;
    /// On a busy machine a turn takes milliseconds.
    const LONGEST_WAIT: Duration = Duration::from_secs(3);

    fn wait_until(mut is_done: impl FnMut() -> bool) {
        let mut tries = 0_u32;
        while !is_done() {
            tries = tries.wrapping_add(1);
            threads::relax(tries);
        }
    }

    extern "C" fn after() {
        if GATE.get() == threads::id().max(1) {
            GATE.store(0, Ordering::Release);
        }
    }

    extern "C" fn child() {
        threads::with_table(in_child);
    }
}
