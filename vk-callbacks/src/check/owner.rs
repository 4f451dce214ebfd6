//! Whose callbacks are watched: a list that only grows, each entry pinned in the checker's memory.

#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

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
    /// An object made with them was told of.
    pub(crate) told: AtomicBool,
    /// Internal memory was notified through them.
    pub(crate) notified: AtomicBool,
    /// Creating commands that asked them and whose objects nobody has told of yet.
    making: AtomicU32,
    /// Of a pool: successful commands that made objects from it.
    pub(crate) filled: AtomicU64,
    /// Of a pool: a command on it asked for memory of scope object, of anybody.
    pub(crate) drawn: AtomicBool,
    /// Internal memory that was notified, in bytes, by scope; of a group, its oldest owner has the sums.
    internal: [AtomicU64; Scope::COUNT],
}

impl<'t> Owner<'t> {
    /// `known`: the group of the very same callbacks.
    pub(crate) fn new(of: CheckedOwner, known: Option<u64>) -> Owner<'static> {
        let own = known.unwrap_or_else(|| own_group(of.id));
        let group = if of.group == 0 { own } else { u64::from(of.group) };
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
            told: AtomicBool::new(false),
            notified: AtomicBool::new(false),
            making: AtomicU32::new(0),
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
            cell.fetch_add(bytes, Ordering::Release);
        }
    }

    /// False when less was taken than is given back; then nothing is left.
    pub(crate) fn internal_given(&self, scope: Scope, bytes: u64) -> bool {
        let Some(cell) = self.internal.get(scope.index()) else { return true };
        let before = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| Some(taken.saturating_sub(bytes)));
        before.is_ok_and(|taken| taken >= bytes)
    }

    /// What was taken of the scope and not given back.
    pub(crate) fn internal_left(&self, scope: Scope) -> u64 {
        self.internal.get(scope.index()).map_or(0, |cell| cell.load(Ordering::Acquire))
    }

    /// A creating command asks them for the first time. Before what it takes is put on record.
    pub(crate) fn making(&self) {
        self.making.fetch_add(1, Ordering::AcqRel);
    }

    /// What that command made has been told, or nobody will.
    pub(crate) fn made(&self) {
        let _ = self.making.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |making| making.checked_sub(1));
    }

    /// No object that was made with them lives, and none is being made. Who looks at a record first and asks then is not misled by
    /// one that another thread is making: it counted before the record came, and the object counts before it does no more.
    pub(crate) fn serves_nobody(&self) -> bool {
        self.making.load(Ordering::Acquire) == 0 && self.objects.load(Ordering::Acquire) <= 0
    }

    /// What was notified through them is nobody's any more: that of objects which nobody tells of could be there for as long as it likes.
    pub(crate) fn has_ended(&self) -> bool {
        self.serves_nobody() && (self.told.load(Ordering::Acquire) || !self.notified.load(Ordering::Acquire))
    }
}

/// A command that is making an object, or has made one that nobody has told of yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Making {
    /// The owner's number.
    pub(crate) owner: u32,
    /// It may make several: then that one was told does not end it, the thread's next command does.
    pub(crate) many: bool,
}

/// A group that no application declared.
fn own_group(id: OwnerId) -> u64 {
    1 << 32 | u64::from(id.get())
}
