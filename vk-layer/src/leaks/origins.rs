//! The origins: one for each call stack and kind of object. They are never freed, so that a block can store a reference to its origin.

use std::sync::{Mutex, PoisonError};

use alloc_core::TryMap;
use debug_guard::StackId;

use super::counts::LiveCount;
use crate::record::{Own, own};
use crate::record_list::RecordList;

/// A call stack of the program, with the counts of its live objects and blocks.
pub(crate) struct Origin {
    /// `None` of blocks that the driver allocated outside of hooked commands.
    pub(super) stack: Option<StackId>,
    pub(crate) command: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) objects: LiveCount,
    pub(crate) blocks: LiveCount,
}

type Key = (Option<StackId>, &'static str);

pub(super) struct OriginTable {
    by_key: Mutex<TryMap<Key, &'static Origin, Own>>,
    all: RecordList<Origin>,
}

impl OriginTable {
    pub(super) const fn new() -> Self {
        Self {
            by_key: Mutex::new(TryMap::new_in(own())),
            all: RecordList::new(),
        }
    }

    /// `None` when there is no memory for a new one.
    pub(super) fn get_or_insert(
        &self,
        stack: Option<StackId>,
        command: &'static str,
        kind: &'static str,
    ) -> Option<&'static Origin> {
        // Under the lock only the system's allocator is called.
        let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(origin) = by_key.get(&(stack, kind)) {
            return Some(origin);
        }
        by_key.try_reserve(1).ok()?;
        let origin = self.all.push(Origin {
            stack,
            command,
            kind,
            objects: LiveCount::default(),
            blocks: LiveCount::default(),
        })?;
        by_key.try_insert((stack, kind), origin).ok()?;
        Some(origin)
    }

    /// All of them, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'static Origin> + use<> {
        self.all.iter()
    }
}
