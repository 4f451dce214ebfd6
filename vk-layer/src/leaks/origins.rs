//! The origins: one for each call stack and kind of object. They are never freed, so that a block can keep the address of its own.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use alloc_core::TryMap;
use debug_guard::StackId;

use super::counts::LiveCount;
use crate::record::{Own, new_record, own};

/// A call stack of the program with what it has alive.
pub(crate) struct Origin {
    /// `None` of blocks that the driver allocated outside of hooked commands.
    pub(super) stack: Option<StackId>,
    pub(crate) command: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) objects: LiveCount,
    pub(crate) blocks: LiveCount,
    next: AtomicPtr<Origin>,
}

type Key = (Option<StackId>, &'static str);

pub(super) struct OriginTable {
    by_key: Mutex<TryMap<Key, &'static Origin, Own>>,
    newest: AtomicPtr<Origin>,
}

impl OriginTable {
    pub(super) const fn new() -> Self {
        Self {
            by_key: Mutex::new(TryMap::new_in(own())),
            newest: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// `None` when there is no memory for a new one.
    pub(super) fn get_or_insert(
        &self,
        stack: Option<StackId>,
        command: &'static str,
        kind: &'static str,
    ) -> Option<&'static Origin> {
        // Under the lock the system's allocator may be called, and nobody else.
        let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(origin) = by_key.get(&(stack, kind)) {
            return Some(origin);
        }
        by_key.try_reserve(1).ok()?;
        let new = new_record(Origin {
            stack,
            command,
            kind,
            objects: LiveCount::default(),
            blocks: LiveCount::default(),
            next: AtomicPtr::new(self.newest.load(Ordering::Relaxed)),
        })?;
        // SAFETY: just allocated, and never freed.
        let origin: &'static Origin = unsafe { new.as_ref() };
        by_key.try_insert((stack, kind), origin).ok()?;
        // Written under the lock alone.
        self.newest.store(new.as_ptr(), Ordering::Release);
        Some(origin)
    }

    /// All of them, the newest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'static Origin> + use<> {
        let at = |pointer: &AtomicPtr<Origin>| {
            // SAFETY: null, or a record that `get_or_insert` published, which stays for ever.
            unsafe { pointer.load(Ordering::Acquire).as_ref() }
        };
        std::iter::successors(at(&self.newest), move |origin: &&'static Origin| {
            at(&origin.next)
        })
    }
}
