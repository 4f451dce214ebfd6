//! The owners an engine knows: they are added and never go before the engine does.
//!
//! ```text
//!   newest --> owner --> owner --> owner             all of them, the oldest last
//!
//!   number --keyed hash--> 10 11 01 ..               by number, and by group: two bits of the hash choose one of four below;
//!      root --> owner 7 --10--> owner 3 --11--> ..   the first owner of a key stands there,
//!                  |                                 and the others of that key behind it, the newest first
//!                  +--> owner 7, newest --> owner 7, second
//! ```
//!
//! A log may number each object, so looking one up must not take time in proportion to their number.

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use alloc_core::HostError;

use super::owner::CallbackOwner;
use crate::keyed_hash::HashKey;
use crate::pinned::{Memory, free_pinned, place_with};

pub(crate) struct OwnerList<'h, 't> {
    memory: Memory<'h>,
    hash_key: HashKey,
    newest: AtomicPtr<OwnerNode<'t>>,
    by_number: AtomicPtr<OwnerNode<'t>>,
    by_group: AtomicPtr<OwnerNode<'t>>,
}

/// Pinned.
struct OwnerNode<'t> {
    owner: CallbackOwner<'t>,
    older: AtomicPtr<OwnerNode<'t>>,
    by_number: Links<'t>,
    by_group: Links<'t>,
}

/// The place of a node in an index.
struct Links<'t> {
    below: [AtomicPtr<OwnerNode<'t>>; 4],
    /// Of the first node of a key: the newest of the others.
    newest: AtomicPtr<OwnerNode<'t>>,
    /// Of the others: the one added before.
    older: AtomicPtr<OwnerNode<'t>>,
}

/// One of the two indices.
trait Index {
    fn key(owner: &CallbackOwner<'_>) -> u64;
    fn links<'a, 't>(node: &'a OwnerNode<'t>) -> &'a Links<'t>;
}

enum ByNumber {}
enum ByGroup {}

impl Index for ByNumber {
    fn key(owner: &CallbackOwner<'_>) -> u64 {
        owner.number().into()
    }

    fn links<'a, 't>(node: &'a OwnerNode<'t>) -> &'a Links<'t> {
        &node.by_number
    }
}

impl Index for ByGroup {
    fn key(owner: &CallbackOwner<'_>) -> u64 {
        owner.group
    }

    fn links<'a, 't>(node: &'a OwnerNode<'t>) -> &'a Links<'t> {
        &node.by_group
    }
}

// SAFETY: nodes are shared only, never changed but through atomics, and go with the list; all else is `Send` and `Sync`.
unsafe impl Send for OwnerList<'_, '_> {}
// SAFETY: as above.
unsafe impl Sync for OwnerList<'_, '_> {}

impl<'h, 't> OwnerList<'h, 't> {
    pub(crate) fn new(memory: Memory<'h>) -> Self {
        let [newest, by_number, by_group] = [const { AtomicPtr::new(ptr::null_mut()) }; 3];
        Self {
            memory,
            hash_key: HashKey::fresh(),
            newest,
            by_number,
            by_group,
        }
    }

    /// Adds the owner that `make` makes once there is memory for it.
    pub(crate) fn add(
        &self,
        make: impl FnOnce() -> CallbackOwner<'t>,
    ) -> Result<&CallbackOwner<'t>, HostError> {
        let older = AtomicPtr::new(ptr::null_mut());
        let node = || OwnerNode {
            owner: make(),
            older,
            by_number: Links::new(),
            by_group: Links::new(),
        };
        let place = place_with(self.memory, node)?;
        // SAFETY: just placed; it stays until the list goes, and is shared only.
        let node = unsafe { place.as_ref() };
        push(&self.newest, place, &node.older);
        self.index::<ByNumber>(&self.by_number, place, node);
        self.index::<ByGroup>(&self.by_group, place, node);
        Ok(&node.owner)
    }

    fn index<'a, I: Index>(
        &'a self,
        root: &'a AtomicPtr<OwnerNode<'t>>,
        place: NonNull<OwnerNode<'t>>,
        node: &'a OwnerNode<'t>,
    ) {
        let key = I::key(&node.owner);
        let mut hash = self.hash_key.hash(key);
        let mut slot = root;
        loop {
            let there = slot.compare_exchange(
                ptr::null_mut(),
                place.as_ptr(),
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            let Err(there) = there else { return };
            // SAFETY: not null, so a node of the list that is borrowed, which stays until that goes.
            let Some(there) = (unsafe { there.as_ref() }) else {
                return;
            };
            if I::key(&there.owner) == key {
                return push(&I::links(there).newest, place, &I::links(node).older);
            }
            let Some(next) = I::links(there).below(hash) else {
                return;
            };
            (slot, hash) = (next, hash << 2);
        }
    }

    /// The first owner of a key.
    fn first<'a, I: Index>(
        &'a self,
        root: &'a AtomicPtr<OwnerNode<'t>>,
        key: u64,
    ) -> Option<&'a OwnerNode<'t>> {
        let mut hash = self.hash_key.hash(key);
        let mut slot = root;
        loop {
            // SAFETY: null or a node of the list that is borrowed, which stays until that goes.
            let node = unsafe { slot.load(Ordering::Acquire).as_ref() }?;
            if I::key(&node.owner) == key {
                return Some(node);
            }
            (slot, hash) = (I::links(node).below(hash)?, hash << 2);
        }
    }

    /// All of a key but the first, the newest first.
    fn others<'a, I: Index>(
        first: &'a OwnerNode<'t>,
    ) -> impl Iterator<Item = &'a CallbackOwner<'t>> {
        follow(&I::links(first).newest, |node| &I::links(node).older)
    }

    /// All, the newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &CallbackOwner<'t>> {
        follow(&self.newest, |node| &node.older)
    }

    /// The newest owner of this number.
    #[inline]
    pub(crate) fn numbered(&self, number: u32) -> Option<&CallbackOwner<'t>> {
        let first = self.first::<ByNumber>(&self.by_number, number.into())?;
        Self::others::<ByNumber>(first)
            .next()
            .or(Some(&first.owner))
    }

    /// All owners of this number.
    pub(crate) fn of_number(&self, number: u32) -> impl Iterator<Item = &CallbackOwner<'t>> {
        let first = self.first::<ByNumber>(&self.by_number, number.into());
        first
            .into_iter()
            .flat_map(|first| Self::others::<ByNumber>(first).chain([&first.owner]))
    }

    /// How many owners have this number; no more are counted than `most`.
    pub(crate) fn count_of_number(&self, number: u32, most: usize) -> usize {
        self.of_number(number).take(most).count()
    }

    /// The oldest owner of the group.
    pub(crate) fn first_of_group(&self, group: u64) -> Option<&CallbackOwner<'t>> {
        self.first::<ByGroup>(&self.by_group, group)
            .map(|node| &node.owner)
    }

    /// All owners of the group.
    pub(crate) fn of_group(&self, group: u64) -> impl Iterator<Item = &CallbackOwner<'t>> {
        let first = self.first::<ByGroup>(&self.by_group, group);
        first
            .into_iter()
            .flat_map(|first| Self::others::<ByGroup>(first).chain([&first.owner]))
    }
}

impl<'t> Links<'t> {
    const fn new() -> Self {
        let [newest, older] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];
        Self {
            below: [const { AtomicPtr::new(ptr::null_mut()) }; 4],
            newest,
            older,
        }
    }

    fn below(&self, hash: u64) -> Option<&AtomicPtr<OwnerNode<'t>>> {
        self.below.get((hash >> 62) as usize)
    }
}

fn push<'t>(
    to: &AtomicPtr<OwnerNode<'t>>,
    node: NonNull<OwnerNode<'t>>,
    link: &AtomicPtr<OwnerNode<'t>>,
) {
    let mut next = to.load(Ordering::Acquire);
    loop {
        link.store(next, Ordering::Relaxed);
        match to.compare_exchange_weak(next, node.as_ptr(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(other) => next = other,
        }
    }
}

fn follow<'a, 't: 'a>(
    from: &'a AtomicPtr<OwnerNode<'t>>,
    link: impl Fn(&'a OwnerNode<'t>) -> &'a AtomicPtr<OwnerNode<'t>>,
) -> impl Iterator<Item = &'a CallbackOwner<'t>> {
    let mut from = from;
    core::iter::from_fn(move || {
        // SAFETY: null or a node of the list that is borrowed, which stays until that goes.
        let node = unsafe { from.load(Ordering::Acquire).as_ref() }?;
        from = link(node);
        Some(&node.owner)
    })
}

impl Drop for OwnerList<'_, '_> {
    fn drop(&mut self) {
        let mut next = NonNull::new(*self.newest.get_mut());
        while let Some(node) = next {
            // SAFETY: placed by `add` in this memory; the list is ours alone now.
            next = NonNull::new(unsafe { free_pinned(self.memory, node) }.older.into_inner());
        }
    }
}
