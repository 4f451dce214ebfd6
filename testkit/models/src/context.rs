//! A node of the tree, as far as the accounts know it, which notices when it is used after its end.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU8, Ordering};

use crate::account::{AccountRow, evict};
use crate::scope::Scope;

pub(crate) struct ContextNode {
    serial: u64,
    rows: [AccountRow; Scope::COUNT],
    /// A bit for each scope that was counted in: the others have no entries to evict.
    holds: AtomicU8,
    /// Read at each use, written at the end: loom reports a use that is not ordered before the end.
    alive: UnsafeCell<bool>,
}

// SAFETY: the rows are atomics, and loom watches over `alive`.
unsafe impl Sync for ContextNode {}
// SAFETY: the rows are atomics, and loom watches over `alive`.
unsafe impl Send for ContextNode {}

impl ContextNode {
    /// Never freed, so that a mutant cannot do real harm.
    pub(crate) fn new(serial: u64) -> &'static Self {
        let rows = [const { AccountRow::new() }; Scope::COUNT];
        Box::leak(Box::new(Self { serial, rows, holds: AtomicU8::new(0), alive: UnsafeCell::new(true) }))
    }

    fn used(&self) {
        // SAFETY: loom panics where a write is not ordered with this.
        let alive = self.alive.with(|alive| unsafe { *alive });
        assert!(alive, "a node was used after its end");
    }

    /// As the last reference to a node does: no thread's table may name it after this.
    pub(crate) fn end(&self) {
        if self.holds.load(Ordering::Relaxed) != 0 {
            evict(Scope::ALL.map(|scope| (&self.rows[scope.index()], self.serial << 3 | scope.index() as u64)));
        }
        // SAFETY: loom panics where a use is not ordered with this.
        self.alive.with_mut(|alive| unsafe { *alive = false });
    }

    pub(crate) fn note_scope(&self, scope: Scope) {
        self.used();
        self.holds.fetch_or(1 << scope.index(), Ordering::Relaxed);
    }

    pub(crate) fn tag(&self, scope: Scope) -> u64 {
        self.used();
        self.serial << 3 | scope.index() as u64
    }

    pub(crate) fn row(&self, scope: Scope) -> &AccountRow {
        self.used();
        &self.rows[scope.index()]
    }

    pub(crate) fn is_budgeted(&self) -> bool {
        self.used();
        false
    }

    pub(crate) fn slice(&self) -> u64 {
        0
    }

    pub(crate) fn root(&self) -> &Self {
        self
    }

    /// Unbudgeted nodes have no leases.
    pub(crate) fn refund(&self, _: u64) {
        unreachable!("nothing was leased");
    }
}
