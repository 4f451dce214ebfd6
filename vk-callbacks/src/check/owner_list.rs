//! The owners an engine knows: they are added and never go before the engine does.
//!
//! ```text
//!   newest --> owner --> owner --> owner        all of them
//!   [0] [1] .. [63]                             by number, for what comes with every call
//!        |
//!        +--> owner --> owner
//! ```

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use alloc_core::HostError;

use super::owner::Owner;
use crate::placed::{Memory, place, take_back};

/// A driver's objects have some thirty kinds; a log may number each object.
const HEADS: usize = 64;

pub(crate) struct OwnerList<'h, 't> {
    memory: Memory<'h>,
    newest: AtomicPtr<Node<'t>>,
    heads: [AtomicPtr<Node<'t>>; HEADS],
}

/// Pinned.
struct Node<'t> {
    owner: Owner<'t>,
    older: AtomicPtr<Node<'t>>,
    /// The next one of its head.
    beside: AtomicPtr<Node<'t>>,
}

// SAFETY: nodes are shared only, never changed but through atomics, and go with the list; all else is `Send` and `Sync`.
unsafe impl Send for OwnerList<'_, '_> {}
// SAFETY: as above.
unsafe impl Sync for OwnerList<'_, '_> {}

impl<'h, 't> OwnerList<'h, 't> {
    pub(crate) const fn new(memory: Memory<'h>) -> Self {
        let newest = AtomicPtr::new(ptr::null_mut());
        Self { memory, newest, heads: [const { AtomicPtr::new(ptr::null_mut()) }; HEADS] }
    }

    pub(crate) fn add(&self, owner: Owner<'t>) -> Result<&Owner<'t>, HostError> {
        let [older, beside] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];
        let place = place(self.memory, Node { owner, older, beside })?;
        // SAFETY: just placed; it stays until the list goes, and is shared only.
        let node = unsafe { place.as_ref() };
        push(&self.newest, place, &node.older);
        if let Some(head) = self.head(node.owner.number()) {
            push(head, place, &node.beside);
        }
        Ok(&node.owner)
    }

    /// All, the newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Owner<'t>> {
        follow(&self.newest, |node| &node.older)
    }

    /// The newest owner of this number.
    #[inline]
    pub(crate) fn numbered(&self, number: u32) -> Option<&Owner<'t>> {
        follow(self.head(number)?, |node| &node.beside).find(|owner| owner.number() == number)
    }

    fn head(&self, number: u32) -> Option<&AtomicPtr<Node<'t>>> {
        self.heads.get(number as usize % HEADS)
    }
}

fn push<'t>(to: &AtomicPtr<Node<'t>>, node: NonNull<Node<'t>>, link: &AtomicPtr<Node<'t>>) {
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
    from: &'a AtomicPtr<Node<'t>>,
    link: impl Fn(&'a Node<'t>) -> &'a AtomicPtr<Node<'t>>,
) -> impl Iterator<Item = &'a Owner<'t>> {
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
            next = NonNull::new(unsafe { take_back(self.memory, node) }.older.into_inner());
        }
    }
}
