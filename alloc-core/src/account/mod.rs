//! Every thread counts in its own cache lines (`entry`, `table`). They are folded into the context's shared rows
//! (`row`) on a threshold, on eviction, at thread exit and when the context ends. Queries add rows and open entries
//! (`registry`): exact as soon as the threads pause.

mod entry;
mod foreign;
mod registry;
mod row;
mod table;
mod usage;

pub(crate) use entry::{AccountEntry, Counts};
pub(crate) use foreign::ForeignCells;
pub use foreign::{ForeignKind, ForeignUsage};
#[cfg(all(feature = "std", unix, not(miri)))]
pub(crate) use registry::is_a_lock_held;
pub(crate) use registry::{evict, inherit, read_row, try_read_row};
pub(crate) use row::{AccountRow, FOLD_MAX, FOLD_MIN};
pub(crate) use table::AccountTable;
pub use usage::{ScopeUsage, Usage};

/// A thread that uses more (context, scope) pairs at once pays a fold for each replaced entry.
pub(crate) const ENTRIES: usize = 64;

#[cfg(all(test, feature = "std"))]
mod tests {
    use core::alloc::Layout;
    use std::alloc::System;
    use std::time::Duration;

    use testkit::Child;

    use super::registry::hold;
    use super::{AccountRow, Counts, ScopeUsage, try_read_row};
    use crate::{Context, ContextOptions, FromGlobalAlloc, Scope};

    #[test]
    fn lc9_a_question_that_waits_for_no_lock_is_not_answered_while_one_is_held() {
        let (row, tag) = (AccountRow::new(), 8);
        assert_eq!(try_read_row(&row, tag), Some(ScopeUsage::default()), "nothing was counted");
        row.touch_directly();
        row.lock().fold(&Counts { alloc_bytes: 48, alloc_blocks: 1, ..Counts::default() });
        {
            let _held = row.lock();
            assert!(try_read_row(&row, tag).is_none());
        }
        {
            let _held = hold();
            assert!(try_read_row(&row, tag).is_none());
        }
        // Other tests may hold the registry's lock for a moment.
        let answer = loop {
            if let Some(answer) = try_read_row(&row, tag) {
                break answer;
            }
            std::thread::yield_now();
        };
        assert_eq!((answer.live_bytes, answer.live_blocks), (48, 1));
    }

    /// With feature `loaded-library` the child has no thread-locals.
    #[test]
    #[cfg_attr(miri, ignore = "a process of its own")]
    fn lc9_a_fork_frees_the_registrys_lock_also_without_thread_locals() {
        const NAME: &str = "lc9_a_fork_frees_the_registrys_lock_also_without_thread_locals";
        if !Child::is_child(NAME) {
            Child::this_test(NAME).run().assert_code(0);
            return;
        }
        #[cfg(feature = "loaded-library")]
        crate::forgo_thread_locals();
        let (row, tag) = (AccountRow::new(), 8);
        row.touch_directly();
        row.lock().fold(&Counts { alloc_bytes: 48, alloc_blocks: 1, ..Counts::default() });
        core::mem::forget(hold());
        assert!(try_read_row(&row, tag).is_none());
        // SAFETY: this test is alone in its process.
        unsafe { crate::after_fork() };
        let answer = try_read_row(&row, tag).expect("nobody holds a lock");
        assert_eq!((answer.live_bytes, answer.live_blocks), (48, 1));
    }

    #[test]
    #[cfg_attr(miri, ignore = "a process of its own")]
    fn lc9_after_a_fork_no_entry_leads_to_a_row_that_another_thread_had_locked() {
        const NAME: &str = "lc9_after_a_fork_no_entry_leads_to_a_row_that_another_thread_had_locked";
        if !Child::is_child(NAME) {
            let child = Child::this_test(NAME).limit(Duration::from_secs(20));
            child.run().assert_code(0);
            return;
        }
        static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;
        let count_in = |name| {
            let root = Context::root_static(&SYSTEM, ContextOptions::new(name)).expect("memory");
            let (layout, scope) = (Layout::new::<u64>(), Scope::Object);
            let block = root.try_allocate(layout, scope).expect("memory");
            // SAFETY: just allocated.
            unsafe { root.free(block, layout, scope) };
            root
        };
        let parents = count_in("parent");
        core::mem::forget(parents.node().row(Scope::Object).lock());
        // SAFETY: this test is alone in its process.
        unsafe { crate::after_fork() };
        for _ in 0..super::ENTRIES {
            count_in("child").close_root().expect("nothing is left");
        }
        core::mem::forget(parents);
    }
}
