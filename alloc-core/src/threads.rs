//! Only this module and `fork` name `std`. Without feature `std` there are no thread-locals: operations count on the
//! shared rows, under their locks.

use core::fmt;
use core::marker::PhantomData;

use crate::account::{AccountEntry, AccountTable};
use crate::fork;
use crate::refusal::Refusal;
use crate::requester::Requester;
use crate::sync::Relaxed as _;

#[cfg(feature = "std")]
mod local {
    use core::cell::Cell;
    use std::thread_local;

    use super::{AccountTable, Refusal, Requester};

    thread_local! {
        // Without Drop it is still there while other thread-locals are destroyed.
        static TABLE: AccountTable = const { AccountTable::new() };
        static EXIT: Exit = const { Exit };
        static REQUESTER: Cell<*const Requester<'static>> = const { Cell::new(core::ptr::null()) };
        static REFUSAL: Cell<Option<Refusal>> = const { Cell::new(None) };
    }

    struct Exit;

    impl Drop for Exit {
        fn drop(&mut self) {
            TABLE.with(AccountTable::detach);
        }
    }

    #[cfg(feature = "loaded-library")]
    pub(super) static FORGONE: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);

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
        let table = TABLE.with(core::ptr::from_ref);
        // SAFETY: the thread's own storage has no destructor and outlives `f`.
        f(Some(unsafe { &*table }))
    }

    #[inline]
    pub(crate) fn requester() -> *const Requester<'static> {
        if are_forgone() {
            return core::ptr::null();
        }
        REQUESTER.get()
    }

    #[inline]
    pub(crate) fn swap_requester(origin: *const Requester<'static>) -> *const Requester<'static> {
        if are_forgone() {
            return core::ptr::null();
        }
        REQUESTER.replace(origin)
    }

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
        if tries.is_multiple_of(64) { std::thread::yield_now() } else { core::hint::spin_loop() }
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
}

/// The calling thread's table of counts, to be passed on: in a library that is loaded at run time each access to
/// thread-local storage is a call.
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
    table: Option<&'t AccountTable>,
    /// No other thread writes the table.
    of_this_thread: PhantomData<*const ()>,
}

impl ThreadTable<'_> {
    /// Calls `f` with the calling thread's table.
    #[inline]
    pub fn with<R>(f: impl FnOnce(ThreadTable<'_>) -> R) -> R {
        with_table(|table| f(ThreadTable { table, of_this_thread: PhantomData }))
    }

    /// Extends the table's lifetime, for a place in the same thread's own storage.
    ///
    /// # Safety
    /// Used by the calling thread alone, and no longer than it lives.
    #[must_use]
    pub unsafe fn for_this_thread(self) -> ThreadTable<'static> {
        // SAFETY: the thread's own storage outlives the result.
        let table = self.table.map(|table| unsafe { &*core::ptr::from_ref(table) });
        ThreadTable { table, of_this_thread: PhantomData }
    }

    #[inline]
    pub(crate) fn find(&self, tag: u64) -> Option<&AccountEntry> {
        self.table.and_then(|table| table.find(tag))
    }
}

impl fmt::Debug for ThreadTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadTable").finish_non_exhaustive()
    }
}

/// No other thread has this number at this moment; 0 where threads cannot be told apart.
pub(crate) fn id() -> usize {
    with_table(|table| table.map_or(0, |table| core::ptr::from_ref(table).addr()))
}

/// True if the thread holds no other lock.
#[inline]
pub(crate) fn lock_entered() -> bool {
    with_table(fork::enter)
}

/// 1: acquired, -1: released, a lock that no fork waits for.
#[inline]
pub(crate) fn count_other_lock(change: i32) {
    with_table(|table| {
        if let Some(table) = table {
            let count = table.other_locks.get();
            table.other_locks.set(count.wrapping_add_signed(change));
        }
    });
}

#[inline]
pub(crate) fn lock_left() {
    with_table(fork::leave);
}

pub(crate) use local::{note_refusal, on_exit, refusal, relax, requester, swap_requester, with_table};

/// Makes this copy of the crate use no thread-local storage: it counts in the shared rows, as without feature `std`.
/// Irreversible.
///
/// For a library opened at run time: the dynamic linker allocates its thread-local storage with `malloc`, 4 KiB a
/// thread, past the library's allocators. Call this first, when the library is opened.
#[cfg(all(feature = "std", feature = "loaded-library"))]
pub fn forgo_thread_locals() {
    local::FORGONE.store(true, core::sync::atomic::Ordering::Relaxed);
}

/// Lists the calling thread for counting now instead of at its first operation, which may be a free: libc allocates one
/// small block a thread for its exit hook.
///
/// True when the thread is listed; false without feature `std`, and on a thread whose thread-locals are being
/// destroyed, which counts in the shared rows.
pub fn attach_thread() -> bool {
    with_table(|table| table.is_some_and(AccountTable::attach))
}

/// Folds the calling thread's counts and refunds its unused leases, for workers about to park. Queries are exact
/// without it.
pub fn fold_thread() {
    with_table(|table| {
        if let Some(table) = table {
            table.fold();
        }
    });
}

/// Makes contexts usable in the child of a fork.
///
/// With feature `std` on a Unix, `pthread_atfork` calls it from the first root on, and the fork waits until no other
/// thread holds a lock of this crate. Only a child made by a raw `clone` must call it itself; then a lock may have been
/// held, and using its context may wait for ever.
///
/// What threads of the parent had counted is folded, what they leased refunded, and budgets are charged with what is
/// live. Their blocks, owners and handles stay: nothing in the child frees them. A block that was being allocated or
/// freed at the fork is counted or not. A fork within a call of a root's own allocator leaves that call's bytes out of
/// the budgets.
///
/// It allocates nothing, waits for no lock and calls no other code.
///
/// # Safety
/// No other thread of the process uses this crate: in the child of a fork none but the caller exists.
pub unsafe fn after_fork() {
    with_table(fork::in_child);
}

/// How many locks that guard Steward's state the calling thread holds.
///
/// 0 when a host allocator, a driver or a destructor is entered (law 5): test allocators assert it. Without
/// thread-locals always 0.
#[must_use]
pub fn held_state_locks() -> usize {
    with_table(|table| table.map_or(0, |table| fork::held(table) + table.other_locks.get() as usize))
}
