//! A thread's entries: a direct-mapped cache of rows, of fixed size, so counting never allocates.

#![cfg_attr(not(feature = "std"), expect(dead_code, reason = "threads come and go only where there is std"))]

use super::entry::AccountEntry;
use super::row::FOLD_MIN;
use super::{ENTRIES, registry};
use crate::context::ContextNode;
use crate::scope::Scope;
use crate::sync::{AtomicPtr, AtomicU8, AtomicU32, Lock, Ordering, Relaxed as _};

#[repr(C, align(64))]
pub(crate) struct AccountTable {
    entries: [AccountEntry; ENTRIES],
    /// Held by the owner, or by a thread that ends the row's context, while an entry changes its row.
    pub(super) lock: Lock,
    /// The bit of a row's `touched`; past 64 threads several share one.
    pub(super) residue: AtomicU32,
    state: AtomicU8,
    /// The thread alone writes this and the next count, see `fork`.
    pub(crate) held: AtomicU32,
    /// Locks that no fork waits for ([`LockCount`](crate::support::LockCount)).
    pub(crate) other_locks: AtomicU32,
    pub(super) next: AtomicPtr<AccountTable>,
    pub(super) prev: AtomicPtr<AccountTable>,
}

const FRESH: u8 = 0;
const LISTED: u8 = 1;
const DEAD: u8 = 2;

impl AccountTable {
    pub(crate) const fn new() -> Self {
        Self {
            entries: [const { AccountEntry::new() }; ENTRIES],
            lock: Lock::new(),
            residue: AtomicU32::new(0),
            state: AtomicU8::new(FRESH),
            held: AtomicU32::new(0),
            other_locks: AtomicU32::new(0),
            next: AtomicPtr::new(core::ptr::null_mut()),
            prev: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Any 64 consecutive contexts of one scope have different entries, and so have the scopes of one context.
    #[inline]
    pub(crate) fn slot(&self, tag: u64) -> Option<&AccountEntry> {
        self.entries.get((tag >> 3).wrapping_add(tag << 3) as usize % ENTRIES)
    }

    #[inline]
    pub(crate) fn find(&self, tag: u64) -> Option<&AccountEntry> {
        // The owner thread needs no ordering with itself.
        self.slot(tag).filter(|entry| entry.tag.get() == tag)
    }

    /// Folds the former row's counts. `None` when the thread is ending.
    #[cold]
    pub(crate) fn open(&self, node: &ContextNode, scope: Scope) -> Option<&AccountEntry> {
        if !self.is_listed() && !self.attach() {
            return None;
        }
        let tag = node.tag(scope);
        let entry = self.slot(tag)?;
        let row = node.row(scope);
        let _table = self.lock.lock();
        retire(entry);
        node.note_scope(scope);
        row.touch(self.residue.get());
        let ceiling = {
            let row = row.lock();
            if node.is_budgeted() {
                row.note_hidden(node.slice().cast_signed().max(FOLD_MIN));
                0
            } else {
                row.next_threshold()
            }
        };
        entry.install(tag, core::ptr::from_ref(node).cast_mut(), ceiling);
        Some(entry)
    }

    /// False when the thread is ending and must count on the rows directly.
    pub(crate) fn attach(&self) -> bool {
        match self.state.get() {
            LISTED => true,
            FRESH => {
                // The hook's memory may come from a context: it counts on the rows.
                self.state.set(DEAD);
                if crate::threads::on_exit() {
                    registry::list(self);
                    self.state.set(LISTED);
                }
                self.is_listed()
            }
            _ => false,
        }
    }

    pub(crate) fn fold(&self) {
        if !self.is_listed() {
            return;
        }
        let _table = self.lock.lock();
        self.entries.iter().for_each(retire);
    }

    #[inline]
    pub(crate) fn is_listed(&self) -> bool {
        self.state.get() == LISTED
    }

    /// In the child of a fork. Refunds no lease: the charges are computed anew. Waits for no lock; what a held one
    /// guards stays uncounted.
    pub(super) fn inherit(&self) {
        let table = self.lock.try_lock();
        for entry in &self.entries {
            let (tag, node) = (entry.tag(), entry.node());
            if let Some(scope) = Scope::from_raw((tag & 7) as u32)
                && tag != 0
                && table.is_some()
                // SAFETY: an open entry's node has not ended (`retire`).
                && let Some(row) = unsafe { &*node }.row(scope).try_lock()
            {
                row.fold(&entry.drain());
            }
            let _ = entry.drain();
            entry.install(0, core::ptr::null_mut(), 0);
        }
        drop(table);
        self.lock.reset();
    }

    pub(crate) fn detach(&self) {
        self.fold();
        if self.state.swap(DEAD, Ordering::Relaxed) == LISTED {
            registry::unlist(self);
        }
    }

    /// For the thread that ends a context.
    pub(super) fn evict(&self, tag: u64) {
        let _table = self.lock.lock();
        if let Some(entry) = self.slot(tag)
            && entry.tag() == tag
        {
            retire(entry);
        }
    }
}

/// The table's lock is held: an ending context evicts its tags under that lock before its memory is freed.
fn retire(entry: &AccountEntry) {
    let tag = entry.tag();
    let Some(scope) = Scope::from_raw((tag & 7) as u32).filter(|_| tag != 0) else {
        return;
    };
    // SAFETY: a non-zero tag: the node cannot end before this lock is released.
    let node = unsafe { &*entry.node() };
    {
        let row = node.row(scope).lock();
        let counts = entry.drain();
        row.fold(&counts);
        entry.set_ceiling(entry.ceiling().saturating_sub(counts.delta()));
        entry.install(0, core::ptr::null_mut(), entry.ceiling());
    }
    let unused = entry.ceiling();
    if node.is_budgeted() && unused > 0 {
        node.refund(unused.cast_unsigned());
    }
}
