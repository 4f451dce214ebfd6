//! The owners of an engine: they stay until the engine ends.
//!
//! ```text
//!   newest --> owner --> owner --> owner             all, the newest first
//!   table: number --> newest --> .. --> oldest       those of a number, and those of a group, linked in the same way
//! ```
//!
//! A log may number each object, so a lookup must not take time in proportion to their number.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use alloc_core::HostError;

use super::owner::CallbackOwner;
use super::table::{ShardedTable, TableEntry};
use crate::pinned::{Memory, free_list, place_with, push_front};

pub(crate) struct OwnerList<'h, 't> {
    memory: Memory<'h>,
    newest: AtomicPtr<OwnerNode<'t>>,
    by_number: ShardedTable<'h, OwnerEntry<'t>, 1>,
    by_group: ShardedTable<'h, OwnerEntry<'t>, 1>,
}

struct OwnerNode<'t> {
    owner: CallbackOwner<'t>,
    older: AtomicPtr<OwnerNode<'t>>,
    older_of_number: AtomicPtr<OwnerNode<'t>>,
    older_of_group: AtomicPtr<OwnerNode<'t>>,
}

/// The owners of a key.
#[derive(Clone, Copy)]
struct OwnerEntry<'t> {
    key: u64,
    newest: NonNull<OwnerNode<'t>>,
    oldest: NonNull<OwnerNode<'t>>,
}

// SAFETY: nodes are only shared, and change through atomics alone.
unsafe impl Send for OwnerEntry<'_> {}
// SAFETY: nodes are only shared, change through atomics alone, and end with the list; all else is `Send` and `Sync`.
unsafe impl Send for OwnerList<'_, '_> {}
// SAFETY: as above.
unsafe impl Sync for OwnerList<'_, '_> {}

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

impl<'h, 't> OwnerList<'h, 't> {
    pub(crate) fn new(memory: Memory<'h>) -> Self {
        Self {
            memory,
            newest: AtomicPtr::new(ptr::null_mut()),
            by_number: ShardedTable::new(memory, false, usize::MAX),
            by_group: ShardedTable::new(memory, false, usize::MAX),
        }
    }

    /// Allocates the first room of the tables.
    ///
    /// # Errors
    /// The refusal of the memory.
    pub(crate) fn reserve(&mut self, owners: usize) -> Result<(), HostError> {
        self.by_number.reserve(owners)?;
        self.by_group.reserve(owners)
    }

    /// Adds the owner that `make` creates after its memory was allocated.
    pub(crate) fn add(
        &self,
        make: impl FnOnce() -> CallbackOwner<'t>,
    ) -> Result<&CallbackOwner<'t>, HostError> {
        let rooms = (self.by_number.promise()?, self.by_group.promise()?);
        let null = || AtomicPtr::new(ptr::null_mut());
        let node = || OwnerNode {
            owner: make(),
            older: null(),
            older_of_number: null(),
            older_of_group: null(),
        };
        let place = place_with(self.memory, node)?;
        // SAFETY: just placed; it stays until the list ends, and is only shared.
        let node = unsafe { place.as_ref() };
        // SAFETY: in no list yet, with its own link; it stays until the list ends.
        unsafe { push_front(&self.newest, place, &node.older) };
        let entry = |key| OwnerEntry {
            key,
            newest: place,
            oldest: place,
        };
        let before = |there: &mut OwnerEntry<'t>, older: &AtomicPtr<_>| {
            older.store(there.newest.as_ptr(), Ordering::Relaxed);
            there.newest = place;
        };
        rooms.0.put(entry(node.owner.number().into()), |there| {
            before(there, &node.older_of_number)
        });
        rooms.1.put(entry(node.owner.group), |there| {
            before(there, &node.older_of_group)
        });
        Ok(&node.owner)
    }

    /// All owners, the newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &CallbackOwner<'t>> {
        follow(self.newest.load(Ordering::Acquire), |node| &node.older)
    }

    /// The owners of this number, the newest first.
    pub(crate) fn of_number(&self, number: u32) -> impl Iterator<Item = &CallbackOwner<'t>> {
        follow(
            find(&self.by_number, number.into(), |there| there.newest),
            |node| &node.older_of_number,
        )
    }

    pub(crate) fn of_group(&self, group: u64) -> impl Iterator<Item = &CallbackOwner<'t>> {
        follow(find(&self.by_group, group, |there| there.newest), |node| {
            &node.older_of_group
        })
    }

    /// The oldest owner of the group.
    pub(crate) fn first_of_group(&self, group: u64) -> Option<&CallbackOwner<'t>> {
        follow(find(&self.by_group, group, |there| there.oldest), |node| {
            &node.older_of_group
        })
        .next()
    }
}

/// A node of the key's entry; null without an entry.
fn find<'t>(
    table: &ShardedTable<'_, OwnerEntry<'t>, 1>,
    key: u64,
    node: impl Fn(&OwnerEntry<'t>) -> NonNull<OwnerNode<'t>>,
) -> *mut OwnerNode<'t> {
    let like = OwnerEntry {
        key,
        newest: NonNull::dangling(),
        oldest: NonNull::dangling(),
    };
    table
        .with(&like, |there| node(there))
        .map_or(ptr::null_mut(), NonNull::as_ptr)
}

fn follow<'a, 't: 'a>(
    first: *mut OwnerNode<'t>,
    older: impl Fn(&'a OwnerNode<'t>) -> &'a AtomicPtr<OwnerNode<'t>>,
) -> impl Iterator<Item = &'a CallbackOwner<'t>> {
    let mut next = first;
    core::iter::from_fn(move || {
        // SAFETY: null or a node of the borrowed list, which stays until the list ends.
        let node = unsafe { next.as_ref() }?;
        next = older(node).load(Ordering::Acquire);
        Some(&node.owner)
    })
}

impl Drop for OwnerList<'_, '_> {
    fn drop(&mut self) {
        // SAFETY: `add` placed the nodes in this memory; the list is not shared any more.
        unsafe { free_list(self.memory, &self.newest, |node| node.older.into_inner()) };
    }
}
