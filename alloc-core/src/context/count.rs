//! Counting in a thread's entry, and folding it into the context's row.

use super::node::ContextNode;
use crate::account::{AccountEntry, Counts, FOLD_MAX, FOLD_MIN};
use crate::scope::Scope;
use crate::threads::with_table;

impl ContextNode {
    /// Calls `f` with the thread's entry for `scope`, if it is open.
    #[inline(always)]
    pub(super) fn with_entry<R>(
        &self,
        scope: Scope,
        f: impl FnOnce(Option<&AccountEntry>) -> R,
    ) -> R {
        with_table(|table| f(table.and_then(|table| table.find(self.slot(scope), self.tag(scope)))))
    }

    /// As [`with_entry`](Self::with_entry), opening the entry; `None` when the thread is ending or there are no thread-locals.
    #[inline]
    pub(super) fn with_opened_entry<R>(
        &self,
        scope: Scope,
        f: impl FnOnce(Option<&AccountEntry>) -> R,
    ) -> R {
        with_table(|table| {
            f(table.and_then(|table| {
                table
                    .find(self.slot(scope), self.tag(scope))
                    .or_else(|| table.open(self, scope))
            }))
        })
    }

    #[inline]
    pub(crate) fn count_allocation(&self, scope: Scope, bytes: u64, blocks: u64) {
        self.with_entry(scope, |entry| match entry {
            Some(entry) => {
                if entry.record_alloc(bytes, blocks) {
                    self.fold(scope, entry);
                }
            }
            None => self.count_miss(scope, bytes, blocks, true),
        });
    }

    #[inline]
    pub(crate) fn count_free(&self, scope: Scope, bytes: u64, blocks: u64) {
        self.with_entry(scope, |entry| match entry {
            Some(entry) => {
                let delta = entry.record_free(bytes, blocks);
                if self.is_exact() {
                    // The block's charge is refunded at once; the row need not change for that.
                    entry.set_ceiling(entry.ceiling().saturating_sub_unsigned(bytes));
                    self.refund(bytes);
                }
                if self.is_due(entry, delta) {
                    self.fold(scope, entry);
                }
            }
            None => self.count_miss(scope, bytes, blocks, false),
        });
    }

    /// The thread has no open entry for this row.
    #[cold]
    pub(super) fn count_miss(&self, scope: Scope, bytes: u64, blocks: u64, allocated: bool) {
        with_table(
            |table| match table.and_then(|table| table.open(self, scope)) {
                Some(entry) => {
                    let fold = if allocated {
                        entry.record_alloc(bytes, blocks)
                    } else {
                        let delta = entry.record_free(bytes, blocks);
                        self.is_budgeted() || entry.ceiling().saturating_add(delta) < 0
                    };
                    if fold {
                        self.fold(scope, entry);
                    }
                }
                None => {
                    let mut counts = Counts::default();
                    if allocated {
                        (counts.alloc_bytes, counts.alloc_blocks) = (bytes, blocks);
                    } else {
                        (counts.free_bytes, counts.free_blocks) = (bytes, blocks);
                    }
                    self.count_directly(scope, &counts);
                    if !allocated && self.is_budgeted() {
                        self.refund(bytes);
                    }
                }
            },
        );
    }

    /// Folds the thread's entry into the row and sets its next ceiling; refunds the part of the lease above a slice.
    #[cold]
    pub(crate) fn fold(&self, scope: Scope, entry: &AccountEntry) {
        let budgeted = self.is_budgeted();
        let mut excess = 0;
        {
            let row = self.row(scope).lock();
            let counts = entry.drain();
            row.fold(&counts);
            if budgeted {
                let unused = entry.ceiling().saturating_sub(counts.delta());
                let slice = self.slice().cast_signed();
                let keep = if unused > slice { slice / 2 } else { unused };
                excess = unused.saturating_sub(keep);
                entry.set_ceiling(keep);
                row.note_hidden(slice.max(FOLD_MIN));
            } else {
                entry.set_ceiling(row.next_threshold());
            }
        }
        if excess > 0 {
            self.refund(excess.cast_unsigned());
        }
    }

    /// True when the entry must be folded after a free. Unbudgeted: -delta exceeds the ceiling, which is the fold threshold. Budgeted: the
    /// unused lease exceeds a slice, or the unfolded frees do.
    #[inline]
    fn is_due(&self, entry: &AccountEntry, delta: i64) -> bool {
        if self.is_budgeted() {
            let slice = self.slice().cast_signed();
            entry.ceiling().wrapping_sub(delta) > slice || delta < -slice.clamp(FOLD_MIN, FOLD_MAX)
        } else {
            entry.ceiling().wrapping_add(delta) < 0
        }
    }

    /// Folds this thread's entry, if it is open.
    pub(super) fn fold_own(&self, scope: Scope) {
        self.with_entry(scope, |entry| {
            if let Some(entry) = entry {
                self.fold(scope, entry);
            }
        });
    }
}
