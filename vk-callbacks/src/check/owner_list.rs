//! The owners of an engine: they stay until the engine ends.
//!
//! ```text
//!   table: number --> newest --> .. --> oldest       those of a number, and those of a group, linked in the same way
//! ```
//!
//! A log may number each object, so a lookup must not take time in proportion to their number.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use alloc_core::HostError;

use super::owner::CallbackOwner;
use super::table::{ShardedTable, TableEntry};
use crate::pinned::{Memory, PinnedList};

pub(crate) struct OwnerList<'h, 't> {
    all: PinnedList<'h, OwnerNode<'t>>,
    by_key: ShardedTable<'h, OwnerEntry<'t>, 1>,
}

/// **Invariant:** the links are null or lead to nodes of the same list, which stay until it ends.
struct OwnerNode<'t> {
    owner: CallbackOwner<'t>,
    /// The older one of its number, and of its group.
    older: [AtomicPtr<OwnerNode<'t>>; 2],
}

const OF_NUMBER: usize = 0;
const OF_GROUP: usize = 1;

#[derive(Clone, Copy)]
struct OwnerEntry<'t> {
    key: u64,
    newest: NonNull<OwnerNode<'t>>,
    oldest: NonNull<OwnerNode<'t>>,
}

// SAFETY: nodes are only shared, change through atomics alone, and are `Sync`.
unsafe impl Send for OwnerEntry<'_> {}

impl TableEntry for OwnerEntry<'_> {
    fn key(&self) -> u64 {
        self.key
    }

    fn same(&self, other: &Self) -> bool {
        self.key == other.key
    }

    fn gone(&self) -> bool {
        false
    }
}

fn key_of_number(number: u32) -> u64 {
    1 << 33 | u64::from(number)
}

impl<'h, 't> OwnerList<'h, 't> {
    pub(crate) fn new(memory: Memory<'h>) -> Self {
        Self { all: PinnedList::new(memory), by_key: ShardedTable::new(memory, false, usize::MAX) }
    }

    pub(crate) fn reserve(&mut self, owners: usize) -> Result<(), HostError> {
        self.by_key.reserve(owners.saturating_mul(2))
    }

    pub(crate) fn add(&self, make: impl FnOnce() -> CallbackOwner<'t>) -> Result<&CallbackOwner<'t>, HostError> {
        let rooms = [self.by_key.promise()?, self.by_key.promise()?];
        let node = self.all.push(|| OwnerNode { owner: make(), older: Default::default() })?;
        let newest = NonNull::from(node);
        let keys = [key_of_number(node.owner.number()), node.owner.group];
        for ((room, key), older) in rooms.iter().zip(keys).zip(&node.older) {
            // Under the table's lock: whoever is put first stays the oldest.
            let first = OwnerEntry { key, newest, oldest: newest };
            room.put(first, |there| {
                older.store(there.newest.as_ptr(), Ordering::Relaxed);
                there.newest = newest;
            });
        }
        Ok(&node.owner)
    }

    /// All owners, the newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &CallbackOwner<'t>> {
        self.all.iter().map(|node| &node.owner)
    }

    pub(crate) fn all_of_number(&self, number: u32) -> impl Iterator<Item = &CallbackOwner<'t>> {
        self.all_of::<OF_NUMBER>(key_of_number(number))
    }

    /// It does not follow the links: a log may put all its owners into one group.
    pub(crate) fn first_of_group(&self, group: u64) -> Option<&CallbackOwner<'t>> {
        let oldest = self.entry(group)?.oldest;
        // SAFETY: a node of the borrowed list (invariant of `OwnerNode`).
        Some(unsafe { &oldest.as_ref().owner })
    }

    pub(crate) fn all_of_group(&self, group: u64) -> impl Iterator<Item = &CallbackOwner<'t>> {
        self.all_of::<OF_GROUP>(group)
    }

    fn all_of<const LINK: usize>(&self, key: u64) -> impl Iterator<Item = &CallbackOwner<'t>> {
        let newest = self.entry(key).map(|there| there.newest.as_ptr());
        let mut next = newest.unwrap_or(null_mut());
        core::iter::from_fn(move || {
            // SAFETY: null or a node of the borrowed list (invariant of `OwnerNode`).
            let node = unsafe { next.as_ref() }?;
            let older = node.older.get(LINK);
            next = older.map_or(null_mut(), |older| older.load(Ordering::Acquire));
            Some(&node.owner)
        })
    }

    #[inline]
    fn entry(&self, key: u64) -> Option<OwnerEntry<'t>> {
        let like = OwnerEntry { key, newest: NonNull::dangling(), oldest: NonNull::dangling() };
        self.by_key.with(&like, |there| *there)
    }
}
