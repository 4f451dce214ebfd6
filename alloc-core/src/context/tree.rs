//! The tree of contexts: linking, unlinking and walking, all under the root's tree lock, none of it recursive.

use core::ptr::NonNull;

use super::node::{ABANDONED, CLOSED, Node};
use crate::account::{ScopeUsage, Usage};
use crate::scope::Scope;
use crate::sync::{AtomicU64, Held, Ordering};

/// Links a new node below `above`, as its newest child. Takes over the caller's reference on `above`.
pub(super) fn link(above: NonNull<Node>, new: NonNull<Node>) {
    // SAFETY: the caller's reference keeps it alive.
    let parent = unsafe { above.as_ref() };
    // SAFETY: new, and nobody else's yet.
    let child = unsafe { new.as_ref() };
    let _held = parent.root().tree_lock.lock();
    let first = parent.tree.first_child.load(Ordering::Relaxed);
    // Pointers to the whole node, not ones made from a reference: whoever ends it frees it through one of these.
    child.tree.parent.store(above.as_ptr(), Ordering::Relaxed);
    child.tree.next.store(first, Ordering::Relaxed);
    // SAFETY: linked nodes are alive: a node is unlinked, under the lock held here, before it goes.
    match unsafe { first.as_ref() } {
        Some(first) => first.tree.prev.store(new.as_ptr(), Ordering::Relaxed),
        None => parent.tree.last_child.store(new.as_ptr(), Ordering::Relaxed),
    }
    parent.tree.first_child.store(new.as_ptr(), Ordering::Relaxed);
    // A parent that was closed meanwhile closes its new child as well.
    child.set_flags(parent.flags() & (CLOSED | ABANDONED));
    if child.flags() & ABANDONED != 0 && child.backing.dies_with(&parent.backing) {
        child.backing.abandon();
    }
}

/// Takes a node that is ending out from under its parent and leaves its sums there.
pub(super) fn unlink(node: &Node) {
    let Some(parent) = node.parent() else { return };
    // Nobody counts for the node any more: the rows hold everything.
    let usage = Scope::ALL.map(|scope| node.row(scope).folded());
    let _held = parent.root().tree_lock.lock();
    let next = node.tree.next.load(Ordering::Relaxed);
    let prev = node.tree.prev.load(Ordering::Relaxed);
    // SAFETY: linked nodes are alive, see `link`.
    match unsafe { prev.as_ref() } {
        Some(prev) => prev.tree.next.store(next, Ordering::Relaxed),
        None => parent.tree.first_child.store(next, Ordering::Relaxed),
    }
    // SAFETY: as above.
    match unsafe { next.as_ref() } {
        Some(next) => next.tree.prev.store(prev, Ordering::Relaxed),
        None => parent.tree.last_child.store(prev, Ordering::Relaxed),
    }
    parent.foreign.inherit(&node.foreign);
    for (scope, own) in Scope::ALL.into_iter().zip(usage) {
        for gone in [own, node.closed_children.sum(scope)] {
            if gone != ScopeUsage::default() {
                parent.closed_children.add(scope, &gone);
            }
        }
    }
}

/// Calls `visit` with every node of the subtree, parents before children, oldest child first. `visit` gets the depth below
/// `top`. The tree lock is held meanwhile: `visit` must not call out.
pub(crate) fn each(top: &Node, visit: impl FnMut(&Node, usize)) {
    let held = top.root().tree_lock.lock();
    each_under(&held, top, visit);
}

/// As [`each`], with the tree's lock taken already.
fn each_under(_: &Held<'_>, top: &Node, mut visit: impl FnMut(&Node, usize)) {
    let (mut at, mut depth) = (top, 0usize);
    loop {
        visit(at, depth);
        // SAFETY: linked nodes are alive, see `link`.
        if let Some(child) = unsafe { at.tree.last_child.load(Ordering::Relaxed).as_ref() } {
            (at, depth) = (child, depth.saturating_add(1));
            continue;
        }
        loop {
            if core::ptr::eq(at, top) {
                return;
            }
            // SAFETY: linked nodes are alive, see `link`.
            if let Some(sibling) = unsafe { at.tree.prev.load(Ordering::Relaxed).as_ref() } {
                at = sibling;
                break;
            }
            let Some(parent) = at.parent() else { return };
            (at, depth) = (parent, depth.saturating_sub(1));
        }
    }
}

/// Closes the node and everything below it: no new allocation. Below a closed node everything is closed already (new children
/// take it over, see [`link`]), so closing a deep tree from the top down does not walk it again and again.
pub(super) fn close(top: &Node) {
    let held = top.root().tree_lock.lock();
    if top.flags() & CLOSED == 0 {
        each_under(&held, top, |node, _| node.set_flags(CLOSED));
    }
}

/// Closes the subtree and cuts off the backing of every node in it that has the same one as `top`.
pub(super) fn abandon(top: &Node) {
    each(top, |node, _| {
        node.set_flags(CLOSED);
        if node.backing.dies_with(&top.backing) {
            node.set_flags(ABANDONED);
            node.backing.abandon();
        }
    });
}

/// The account of one node by itself.
pub(crate) fn node_usage(node: &Node) -> Usage {
    Usage { scopes: Scope::ALL.map(|scope| node.usage(scope)), foreign: node.foreign.usage() }
}

/// What children of the node that are gone took in all.
pub(crate) fn gone_usage(node: &Node) -> Usage {
    Usage { scopes: Scope::ALL.map(|scope| node.closed_children.sum(scope)), foreign: node.foreign.gone() }
}

/// The accounts of a node and all below it, gone ones included in the totals.
pub(crate) fn subtree_usage(top: &Node) -> Usage {
    let mut sum = Usage::default();
    each(top, |node, _| {
        for own in [node_usage(node), gone_usage(node)] {
            sum.add(&own.scopes, &own.foreign);
        }
    });
    sum
}

impl super::node::ClosedSums {
    /// Adds what a context that is going took of `scope`; what it did not give back is lost.
    fn add(&self, scope: Scope, gone: &ScopeUsage) {
        let at = scope.index();
        for (cells, by) in [
            (&self.total_bytes, gone.total_bytes),
            (&self.total_blocks, gone.total_blocks),
            (&self.lost_bytes, gone.live_bytes),
            (&self.lost_blocks, gone.live_blocks),
        ] {
            if let Some(cell) = cells.get(at) {
                cell.store(cell.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
            }
        }
    }

    /// What children that are gone took of `scope`; `live_*` is what they lost.
    fn sum(&self, scope: Scope) -> ScopeUsage {
        let read = |cells: &[AtomicU64; Scope::COUNT]| cells.get(scope.index()).map_or(0, |c| c.load(Ordering::Relaxed));
        ScopeUsage {
            live_bytes: read(&self.lost_bytes),
            live_blocks: read(&self.lost_blocks),
            total_bytes: read(&self.total_bytes),
            total_blocks: read(&self.total_blocks),
            ..ScopeUsage::default()
        }
    }
}
