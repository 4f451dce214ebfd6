//! Whose callbacks are watched: a list that only grows, each entry pinned in the checker's memory.

#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use alloc_core::Scope;

use super::options::CheckedOwner;
use crate::command::OwnerId;

/// One set of callbacks.
pub(crate) struct Owner<'t> {
    /// None where a log does not say whose.
    pub(crate) id: Option<OwnerId>,
    pub(crate) kind: &'t str,
    /// Equal for callbacks that are compatible.
    pub(crate) group: u64,
    /// The owner it lies below; only a log says so.
    pub(crate) parent: u64,
    /// Objects made with them less objects ended.
    pub(crate) objects: AtomicI64,
    /// Of a pool: successful commands that made objects from it.
    pub(crate) filled: AtomicU64,
    /// Of a pool: a command on it asked for memory of scope object, of anybody.
    pub(crate) drawn: AtomicBool,
    /// Internal memory that was notified, in bytes, by scope.
    internal: [AtomicU64; Scope::COUNT],
}

impl<'t> Owner<'t> {
    pub(crate) fn new(of: CheckedOwner) -> Owner<'static> {
        let group = if of.group == 0 { own_group(of.id) } else { u64::from(of.group) };
        Owner::with(Some(of.id), of.kind, group, 0)
    }

    pub(crate) fn of_log(id: Option<OwnerId>, kind: &'t str, parent: u64) -> Self {
        Self::with(id, kind, id.map_or(0, own_group), parent)
    }

    fn with(id: Option<OwnerId>, kind: &'t str, group: u64, parent: u64) -> Self {
        Self {
            id,
            kind,
            group,
            parent,
            objects: AtomicI64::new(0),
            filled: AtomicU64::new(0),
            drawn: AtomicBool::new(false),
            internal: [const { AtomicU64::new(0) }; Scope::COUNT],
        }
    }

    /// The number of its id, 0 for none.
    pub(crate) const fn number(&self) -> u32 {
        match self.id {
            Some(id) => id.get(),
            None => 0,
        }
    }

    pub(crate) fn internal_taken(&self, scope: Scope, bytes: u64) {
        if let Some(cell) = self.internal.get(scope.index()) {
            cell.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// False when less was taken than is given back; then nothing is left.
    pub(crate) fn internal_given(&self, scope: Scope, bytes: u64) -> bool {
        let Some(cell) = self.internal.get(scope.index()) else { return true };
        let before = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| Some(taken.saturating_sub(bytes)));
        before.is_ok_and(|taken| taken >= bytes)
    }

    /// What is left of the scope; it is forgotten.
    pub(crate) fn internal_left(&self, scope: Scope) -> u64 {
        self.internal.get(scope.index()).map_or(0, |cell| cell.swap(0, Ordering::Relaxed))
    }
}

/// A group that no application declared.
fn own_group(id: OwnerId) -> u64 {
    1 << 32 | u64::from(id.get())
}
