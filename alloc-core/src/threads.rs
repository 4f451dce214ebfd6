//! Everything that needs to know which thread is running: the one module that names `std`.
//!
//! Without feature `std` there are no thread-locals: operations count on the shared rows directly, under their locks.

use crate::account::Table;
use crate::origin::Origin;

#[cfg(feature = "std")]
mod local {
    use core::cell::Cell;
    use std::thread_local;

    use super::{Origin, Table};

    thread_local! {
        // Const-made and without Drop: one address computation, and still there while other thread-locals are destroyed.
        static TABLE: Table = const { Table::new() };
        // Cold: only its destructor matters.
        static EXIT: Exit = const { Exit };
        static LOCKS: Cell<usize> = const { Cell::new(0) };
        static ORIGIN: Cell<*const Origin<'static>> = const { Cell::new(core::ptr::null()) };
    }

    struct Exit;

    impl Drop for Exit {
        fn drop(&mut self) {
            TABLE.with(Table::detach);
        }
    }

    #[inline]
    pub(crate) fn with_table<R>(f: impl FnOnce(Option<&Table>) -> R) -> R {
        TABLE.with(|table| f(Some(table)))
    }

    /// Whose request this thread is in; null outside of any.
    #[inline]
    pub(crate) fn origin() -> *const Origin<'static> {
        ORIGIN.get()
    }

    /// Answers with the one before.
    #[inline]
    pub(crate) fn swap_origin(origin: *const Origin<'static>) -> *const Origin<'static> {
        ORIGIN.replace(origin)
    }

    pub(crate) fn on_exit() -> bool {
        EXIT.try_with(|_| ()).is_ok()
    }

    pub(crate) fn relax(tries: u32) {
        if tries.is_multiple_of(64) { std::thread::yield_now() } else { core::hint::spin_loop() }
    }

    #[inline]
    pub(crate) fn lock_taken() {
        if super::AUDIT {
            LOCKS.with(|n| n.set(n.get().saturating_add(1)));
        }
    }

    #[inline]
    pub(crate) fn lock_given_back() {
        if super::AUDIT {
            LOCKS.with(|n| n.set(n.get().saturating_sub(1)));
        }
    }

    pub(crate) fn locks() -> usize {
        LOCKS.with(Cell::get)
    }
}

#[cfg(not(feature = "std"))]
mod local {
    use super::{Origin, Table};

    #[inline]
    pub(crate) fn with_table<R>(f: impl FnOnce(Option<&Table>) -> R) -> R {
        f(None)
    }
    pub(crate) fn origin() -> *const Origin<'static> {
        core::ptr::null()
    }
    pub(crate) fn swap_origin(_: *const Origin<'static>) -> *const Origin<'static> {
        core::ptr::null()
    }
    pub(crate) fn on_exit() -> bool {
        false
    }
    pub(crate) fn relax(_: u32) {
        core::hint::spin_loop();
    }
    #[inline]
    pub(crate) fn lock_taken() {}
    #[inline]
    pub(crate) fn lock_given_back() {}
    pub(crate) fn locks() -> usize {
        0
    }
}

/// A number that only the calling thread has at this moment; 0 where threads cannot be told apart.
pub(crate) fn id() -> usize {
    with_table(|table| table.map_or(0, |table| core::ptr::from_ref(table).addr()))
}

pub(crate) use local::{lock_given_back, lock_taken, on_exit, origin, relax, swap_origin, with_table};

#[cfg(feature = "std")]
const AUDIT: bool = cfg!(any(debug_assertions, feature = "lock-audit"));

/// Lists the calling thread for counting now rather than at its first allocation.
///
/// Listing takes no memory of any allocator of ours, but registering a thread-exit hook makes libc take one small block per
/// thread; that happens here, or at the thread's first operation, which may be a free. Call it at a thread's start where
/// that matters. Without feature `std` it does nothing.
///
/// True when the thread is listed; false without `std`, and on a thread whose thread-locals are being destroyed: such a thread
/// counts on the shared rows.
pub fn attach_thread() -> bool {
    with_table(|table| table.is_some_and(Table::attach))
}

/// Folds what the calling thread has counted and gives its unused budget leases back.
///
/// For workers about to park. Queries are exact without it; only budgets gain.
pub fn settle_thread() {
    with_table(|table| {
        if let Some(table) = table {
            table.settle();
        }
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
