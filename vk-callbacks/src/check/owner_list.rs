//! The owners of an engine: they stay until the engine ends.
//!
//! ```text
//!   newest --> owner --> owner --> owner             all, the newest first
//!
//!   number --keyed hash--> 10 11 01 ..               by number, and by group: two bits of the hash choose one of four below;
//!      root --> owner 7 --10--> owner 3 --11--> ..   there is the first owner of a key,
//!                  |                                 with the others of that key behind it, the newest first
//!                  +--> owner 7, newest --> owner 7, second
//! ```
//!
//! A log may number each object, so a lookup must not take time in proportion to their number.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use alloc_core::HostError;

use super::owner::CallbackOwner;
use crate::keyed_hash::HashKey;
use crate::pinned::{Memory, free_list, place_with, push_front};

pub(crate) struct OwnerList<'h, 't> {
    memory: Memory<'h>,
    hash_key: HashKey,
    newest: AtomicPtr<OwnerNode<'t>>,
    by_number: AtomicPtr<OwnerNode<'t>>,
    by_group: AtomicPtr<OwnerNode<'t>>,
}

struct OwnerNode<'t> {
    owner: CallbackOwner<'t>,
    older: AtomicPtr<OwnerNode<'t>>,
    by_number: Links<'t>,
    by_group: Links<'t>,
}

/// The place of a node in an index.
struct Links<'t> {
    below: [AtomicPtr<OwnerNode<'t>>; 4],
    /// In the first node of a key: the newest of the others.
    newest: AtomicPtr<OwnerNode<'t>>,
    /// In the others: the one added before.
    older: AtomicPtr<OwnerNode<'t>>,
}

/// One of the two indices.
#[derive(Clone, Copy)]
enum Index {
    ByNumber,
    ByGroup,
}

impl Index {
    #[inline]
    fn key(self, owner: &CallbackOwner<'_>) -> u64 {
        match self {
            Self::ByNumber => owner.number().into(),
            Self::ByGroup => owner.group,
        }
    }

    #[inline]
    fn links<'a, 't>(self, node: &'a OwnerNode<'t>) -> &'a Links<'t> {
        match self {
            Self::ByNumber => &node.by_number,
            Self::ByGroup => &node.by_group,
        }
    }
}

// SAFETY: nodes are only shared, change through atomics alone, and end with the list; all else is `Send` and `Sync`.
unsafe impl Send for OwnerList<'_, '_> {}
// SAFETY: as above.
unsafe impl Sync for OwnerList<'_, '_> {}

impl<'h, 't> OwnerList<'h, 't> {
    pub(crate) fn new(memory: Memory<'h>) -> Self {
        Self {
            memory,
            hash_key: HashKey::fresh(),
            newest: AtomicPtr::new(ptr::null_mut()),
            by_number: AtomicPtr::new(ptr::null_mut()),
            by_group: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Adds the owner that `make` creates after its memory was allocated.
    pub(crate) fn add(
        &self,
        make: impl FnOnce() -> CallbackOwner<'t>,
    ) -> Result<&CallbackOwner<'t>, HostError> {
        let node = || OwnerNode {
            owner: make(),
            older: AtomicPtr::new(ptr::null_mut()),
            by_number: Links::new(),
            by_group: Links::new(),
        };
        let place = place_with(self.memory, node)?;
        // SAFETY: just placed; it stays until the list ends, and is only shared.
        let node = unsafe { place.as_ref() };
        // SAFETY: in no list yet, with its own link; it stays until the list ends.
        unsafe { push_front(&self.newest, place, &node.older) };
        self.add_to(Index::ByNumber, place, node);
        self.add_to(Index::ByGroup, place, node);
        Ok(&node.owner)
    }

    #[inline]
    fn root(&self, index: Index) -> &AtomicPtr<OwnerNode<'t>> {
        match index {
            Index::ByNumber => &self.by_number,
            Index::ByGroup => &self.by_group,
        }
    }

    fn add_to<'a>(&'a self, index: Index, place: NonNull<OwnerNode<'t>>, node: &'a OwnerNode<'t>) {
        let key = index.key(&node.owner);
        let mut hash = self.hash_key.hash(key);
        let mut slot = self.root(index);
        loop {
            let there = slot.compare_exchange(
                ptr::null_mut(),
                place.as_ptr(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            let Err(there) = there else { return };
            // SAFETY: not null, so a node of the borrowed list, which stays until the list ends.
            let Some(there) = (unsafe { there.as_ref() }) else {
                return;
            };
            let links = index.links(there);
            if index.key(&there.owner) == key {
                // SAFETY: in no list of this index yet, with its own link there; it stays until the list ends.
                return unsafe { push_front(&links.newest, place, &index.links(node).older) };
            }
            let Some(next) = links.below(hash) else {
                return;
            };
            (slot, hash) = (next, hash << 2);
        }
    }

    /// The first owner of a key.
    #[inline]
    fn first(&self, index: Index, key: u64) -> Option<&OwnerNode<'t>> {
        let mut hash = self.hash_key.hash(key);
        let mut slot = self.root(index);
        loop {
            // SAFETY: null or a node of the borrowed list, which stays until the list ends.
            let node = unsafe { slot.load(Ordering::Acquire).as_ref() }?;
            if index.key(&node.owner) == key {
                return Some(node);
            }
            (slot, hash) = (index.links(node).below(hash)?, hash << 2);
        }
    }

    /// All owners of a key: the newest first, but the oldest of all, which is the first of its key, last.
    fn of_key(&self, index: Index, key: u64) -> impl Iterator<Item = &CallbackOwner<'t>> {
        self.first(index, key).into_iter().flat_map(move |first| {
            follow(&index.links(first).newest, move |node| {
                &index.links(node).older
            })
            .chain([&first.owner])
        })
    }

    /// All owners, the newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &CallbackOwner<'t>> {
        follow(&self.newest, |node| &node.older)
    }

    /// The newest owner of this number.
    #[inline]
    pub(crate) fn numbered(&self, number: u32) -> Option<&CallbackOwner<'t>> {
        self.of_number(number).next()
    }

    pub(crate) fn of_number(&self, number: u32) -> impl Iterator<Item = &CallbackOwner<'t>> {
        self.of_key(Index::ByNumber, number.into())
    }

    /// The oldest owner of the group.
    pub(crate) fn first_of_group(&self, group: u64) -> Option<&CallbackOwner<'t>> {
        self.first(Index::ByGroup, group).map(|node| &node.owner)
    }

    pub(crate) fn of_group(&self, group: u64) -> impl Iterator<Item = &CallbackOwner<'t>> {
        self.of_key(Index::ByGroup, group)
    }
}

impl<'t> Links<'t> {
    const fn new() -> Self {
        Self {
            below: [const { AtomicPtr::new(ptr::null_mut()) }; 4],
            newest: AtomicPtr::new(ptr::null_mut()),
            older: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn below(&self, hash: u64) -> Option<&AtomicPtr<OwnerNode<'t>>> {
        self.below.get((hash >> 62) as usize)
    }
}

fn follow<'a, 't: 'a>(
    from: &'a AtomicPtr<OwnerNode<'t>>,
    link: impl Fn(&'a OwnerNode<'t>) -> &'a AtomicPtr<OwnerNode<'t>>,
) -> impl Iterator<Item = &'a CallbackOwner<'t>> {
    let mut from = from;
    core::iter::from_fn(move || {
        // SAFETY: null or a node of the borrowed list, which stays until the list ends.
        let node = unsafe { from.load(Ordering::Acquire).as_ref() }?;
        from = link(node);
        Some(&node.owner)
    })
}

impl Drop for OwnerList<'_, '_> {
    fn drop(&mut self) {
        // SAFETY: `add` placed the nodes in this memory; the list is not shared any more.
        unsafe { free_list(self.memory, &self.newest, |node| node.older.into_inner()) };
    }
}
