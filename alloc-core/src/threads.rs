//! Everything that needs to know which thread is running: the one module that names `std`.
//!
//! Without feature `std` there are no thread-locals: operations count on the shared rows directly, under their locks.

use core::fmt;
use core::marker::PhantomData;

use crate::account::{self, AccountEntry, AccountTable};
use crate::context::Refusal;
use crate::requester::Requester;

#[cfg(feature = "std")]
mod local {
    use core::cell::Cell;
    use std::thread_local;

    use super::{AccountTable, Refusal, Requester};

    thread_local! {
        // Const-made and without Drop: one address computation, and still there while other thread-locals are destroyed.
        static TABLE: AccountTable = const { AccountTable::new() };
        // Cold: only its destructor matters.
        static EXIT: Exit = const { Exit };
        static LOCKS: Cell<usize> = const { Cell::new(0) };
        static REQUESTER: Cell<*const Requester<'static>> = const { Cell::new(core::ptr::null()) };
        static REFUSAL: Cell<Option<Refusal>> = const { Cell::new(None) };
    }

    struct Exit;

    impl Drop for Exit {
        fn drop(&mut self) {
            TABLE.with(AccountTable::detach);
        }
    }

    /// Whether thread-locals stay untouched, since [`super::forgo_thread_locals`].
    #[cfg(feature = "loaded-library")]
    pub(super) static FORGONE: core::sync::atomic::AtomicBool =
        core::sync::atomic::AtomicBool::new(false);

    #[inline]
    fn are_forgone() -> bool {
        #[cfg(feature = "loaded-library")]
        return FORGONE.load(core::sync::atomic::Ordering::Relaxed);
        #[cfg(not(feature = "loaded-library"))]
        false
    }

    #[inline]
    pub(crate) fn with_table<R>(f: impl FnOnce(Option<&AccountTable>) -> R) -> R {
        if are_forgone() {
            return f(None);
        }
        TABLE.with(|table| f(Some(table)))
    }

    /// The requester of the call that this thread is in; null outside of any.
    #[inline]
    pub(crate) fn requester() -> *const Requester<'static> {
        if are_forgone() {
            return core::ptr::null();
        }
        REQUESTER.get()
    }

    /// Answers with the one before.
    #[inline]
    pub(crate) fn swap_requester(origin: *const Requester<'static>) -> *const Requester<'static> {
        if are_forgone() {
            return core::ptr::null();
        }
        REQUESTER.replace(origin)
    }

    /// The last refusal of this thread.
    pub(crate) fn refusal() -> Option<Refusal> {
        if are_forgone() {
            return None;
        }
        REFUSAL.get()
    }

    pub(crate) fn note_refusal(refusal: Refusal) {
        if !are_forgone() {
            REFUSAL.set(Some(refusal));
        }
    }

    pub(crate) fn on_exit() -> bool {
        EXIT.try_with(|_| ()).is_ok()
    }

    pub(crate) fn relax(tries: u32) {
        if tries.is_multiple_of(64) {
            std::thread::yield_now()
        } else {
            core::hint::spin_loop()
        }
    }

    #[inline]
    pub(crate) fn lock_acquired() {
        if super::AUDIT && !are_forgone() {
            LOCKS.with(|n| n.set(n.get().saturating_add(1)));
        }
    }

    #[inline]
    pub(crate) fn lock_released() {
        if super::AUDIT && !are_forgone() {
            LOCKS.with(|n| n.set(n.get().saturating_sub(1)));
        }
    }

    pub(crate) fn locks() -> usize {
        if are_forgone() {
            return 0;
        }
        LOCKS.with(Cell::get)
    }
}

#[cfg(not(feature = "std"))]
mod local {
    use super::{AccountTable, Refusal, Requester};

    #[inline]
    pub(crate) fn with_table<R>(f: impl FnOnce(Option<&AccountTable>) -> R) -> R {
        f(None)
    }
    pub(crate) fn requester() -> *const Requester<'static> {
        core::ptr::null()
    }
    pub(crate) fn swap_requester(_: *const Requester<'static>) -> *const Requester<'static> {
        core::ptr::null()
    }
    pub(crate) fn refusal() -> Option<Refusal> {
        None
    }
    pub(crate) fn note_refusal(_: Refusal) {}
    pub(crate) fn on_exit() -> bool {
        false
    }
    pub(crate) fn relax(_: u32) {
        core::hint::spin_loop();
    }
    #[inline]
    pub(crate) fn lock_acquired() {}
    #[inline]
    pub(crate) fn lock_released() {}
    pub(crate) fn locks() -> usize {
        0
    }
}

/// The calling thread's table of counts. In a library that is loaded at run time each access to thread-local storage is a call; this value
/// can be passed on instead.
///
/// It stays on its thread:
/// ```compile_fail,E0277
/// # use alloc_core::ThreadTable;
/// ThreadTable::with(|table| std::thread::scope(|scope| scope.spawn(move || table).join().is_ok()));
/// ```
/// Nor can another thread use it:
/// ```compile_fail,E0277
/// # use alloc_core::ThreadTable;
/// ThreadTable::with(|table| std::thread::scope(|scope| scope.spawn(|| drop(&table)).join().is_ok()));
/// ```
#[derive(Clone, Copy)]
pub struct ThreadTable<'t> {
    /// `None` without thread-local storage: operations count on the shared rows.
    table: Option<&'t AccountTable>,
    /// No other thread writes the table.
    of_this_thread: PhantomData<*const ()>,
}

impl ThreadTable<'_> {
    /// Calls `f` with the calling thread's table.
    #[inline]
    pub fn with<R>(f: impl FnOnce(ThreadTable<'_>) -> R) -> R {
        with_table(|table| {
            f(ThreadTable {
                table,
                of_this_thread: PhantomData,
            })
        })
    }

    /// For a place in the same thread's own storage.
    ///
    /// # Safety
    /// It is used by the calling thread alone, and no longer than the thread lives.
    #[must_use]
    pub unsafe fn for_this_thread(self) -> ThreadTable<'static> {
        // SAFETY: a table lies in the thread's own storage, which stays where it is until the thread has ended.
        let table = self
            .table
            .map(|table| unsafe { &*core::ptr::from_ref(table) });
        ThreadTable {
            table,
            of_this_thread: PhantomData,
        }
    }

    /// The entry for `tag`, if it is open. `slot` is the tag's.
    #[inline]
    pub(crate) fn find(&self, slot: usize, tag: u64) -> Option<&AccountEntry> {
        self.table.and_then(|table| table.find(slot, tag))
    }
}

impl fmt::Debug for ThreadTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadTable").finish_non_exhaustive()
    }
}

/// A number that only the calling thread has at this moment; 0 where threads cannot be told apart.
pub(crate) fn id() -> usize {
    with_table(|table| table.map_or(0, |table| core::ptr::from_ref(table).addr()))
}

pub(crate) use local::{
    lock_acquired, lock_released, note_refusal, on_exit, refusal, relax, requester, swap_requester,
    with_table,
};

#[cfg(feature = "std")]
const AUDIT: bool = cfg!(any(debug_assertions, feature = "lock-audit"));

/// Makes this copy of the crate use no thread-local storage: it counts in the shared rows, as without feature `std`. Irreversible.
///
/// For a library that is opened at run time. The dynamic linker allocates such a library's thread-local storage with `malloc`, 4 KiB per
/// thread, at the thread's first call into it, and so bypasses the library's allocators. Call this first, when the library is opened.
#[cfg(all(feature = "std", feature = "loaded-library"))]
pub fn forgo_thread_locals() {
    local::FORGONE.store(true, core::sync::atomic::Ordering::Relaxed);
}

/// Lists the calling thread for counting now instead of at its first operation.
///
/// Listing uses no allocator of this crate, but registering a thread-exit hook makes libc allocate one small block per thread. That happens
/// here, or at the thread's first operation, which may be a free. Call it at a thread's start where that matters. Without feature `std` it
/// does nothing.
///
/// True when the thread is listed; false without `std`, and on a thread whose thread-locals are being destroyed, which counts in the shared
/// rows.
pub fn attach_thread() -> bool {
    with_table(|table| table.is_some_and(AccountTable::attach))
}

/// Folds the calling thread's counts and refunds its unused leases.
///
/// For workers about to park. Queries are exact without it; only the refund helps other threads.
pub fn fold_thread() {
    with_table(|table| {
        if let Some(table) = table {
            table.fold();
        }
    });
}

/// In the child of a fork: resets the list of threads to the calling one, so that roots created from now on work as in a new process.
///
/// Two locks that the parent's other threads may have held are released: the list's, and that of the calling thread's own table. Locks of
/// trees, rows, budgets and owned values stay held for ever if such a thread held them: using a context from before the fork, even for a
/// free, may then wait for ever. Nor do such contexts count exactly: unfolded counts of all threads are lost, the caller's included, and
/// their leases stay leased.
///
/// It allocates nothing, waits for no lock and calls no other code, as a handler of `pthread_atfork` must. Without thread-locals (no feature
/// `std`, or `forgo_thread_locals`) no thread is listed; the list's lock is released as well, since queries acquire it.
///
/// # Safety
/// No other thread of the process uses this crate: in the child of a fork none but the caller exists.
pub unsafe fn after_fork() {
    with_table(|table| match table {
        Some(table) => table.after_fork(),
        None => account::after_fork(),
    });
}

/// How many locks that guard Steward's state the calling thread holds.
///
/// Always 0 when a host allocator, a driver or a destructor is entered (law 5); test allocators assert it. Counted in debug
/// builds and with feature `lock-audit`; otherwise, and without `std`, always 0.
#[must_use]
pub fn held_state_locks() -> usize {
    local::locks()
}
