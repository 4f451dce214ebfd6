//! The *link rule* of the SAFETY comments: linked nodes are alive, since a node is unlinked, under the tree lock,
//! before it is freed; whoever follows a link holds that lock.

use core::ptr::NonNull;

use super::node::{ABANDONED, BUDGETS, CLOSED, ContextNode, DRAINED, FOREIGN, GONE, NodeList};
use crate::account::{AccountRow, ScopeUsage, Usage, read_row};
use crate::scope::Scope;
use crate::sync::{AtomicPtr, Held, Lock, Ordering, Relaxed as _, fence};

/// The lock is held together with no other.
static ROOTS: (Lock, NodeList) = (Lock::new(), NodeList::new());

pub(super) fn list_root(root: NonNull<ContextNode>) {
    let _held = ROOTS.0.lock();
    ROOTS.1.put_first(root, root);
}

fn unlist_root(root: &ContextNode) {
    let _held = ROOTS.0.lock();
    ROOTS.1.detach(root, root);
}

/// In the child of a fork; a tree whose lock is held stays as it is.
pub(crate) fn recharge() {
    ROOTS.0.reset();
    for root in ROOTS.1.iter() {
        if root.uses(BUDGETS)
            && let Some(held) = root.tree_lock.try_lock()
            && let Some(_budget) = root.budget_lock.try_lock()
        {
            each_under(&held, root, |node, _| {
                if node.is_budgeted() {
                    // A row that is locked for ever has at most what was charged.
                    let live = node.try_live_bytes().unwrap_or_else(|| node.budget.charged.get());
                    let own = live.saturating_add(node.lost_bytes());
                    node.budget.charged.set(0);
                    node.charged().for_each(|above| above.budget.add(own));
                }
            });
        }
    }
}

/// The new node keeps the caller's reference on `above`.
pub(super) fn link(above: NonNull<ContextNode>, new: NonNull<ContextNode>) {
    // SAFETY: the caller's reference.
    let parent = unsafe { above.as_ref() };
    // SAFETY: not yet visible to other threads.
    let child = unsafe { new.as_ref() };
    let _held = parent.root().tree_lock.lock();
    // The node is freed through one of these pointers: they must not be made from a reference.
    child.tree.parent.set(above.as_ptr());
    parent.tree.children.put_first(new, new);
    if parent.flags() & CLOSED != 0 {
        child.set_flags(CLOSED);
    }
    if parent.flags() & ABANDONED != 0 && child.backing.dies_with(parent.backing) {
        child.set_flags(ABANDONED);
    }
    // A limit above may have changed.
    if child.is_budgeted() {
        child.budget.slice.set(child.due_slice());
    }
}

/// Returns the parent, whose reference the caller must release.
pub(super) fn unlink(node: &ContextNode) -> Option<NonNull<ContextNode>> {
    if node.is_root() {
        unlist_root(node);
        return None;
    }
    let usage = Scope::ALL.map(|scope| node.folded_usage(scope));
    let _held = node.root().tree_lock.lock();
    // Another context may adopt the children of an ending context.
    let above = node.parent_ptr()?;
    // SAFETY: the node's reference on its parent.
    let parent = unsafe { above.as_ref() };
    parent.tree.children.detach(node, node);
    if node.uses(FOREIGN) || node.uses(GONE) {
        parent.note(GONE);
        parent.foreign.inherit(&node.foreign);
    }
    for (scope, own) in Scope::ALL.into_iter().zip(usage) {
        if node.counts_in(scope) {
            parent.note(GONE);
            parent.closed_children.add(scope, &own);
        }
        if node.uses(GONE) {
            let below = node.closed_children.sum(scope);
            parent.closed_children.add(scope, &below);
        }
    }
    Some(above)
}

impl NodeList {
    pub(super) fn put_first(&self, newest: NonNull<ContextNode>, oldest: NonNull<ContextNode>) {
        let first = self.newest.get();
        // SAFETY: the link rule.
        match unsafe { first.as_ref() } {
            Some(first) => first.tree.prev.set(oldest.as_ptr()),
            None => self.oldest.set(oldest.as_ptr()),
        }
        // SAFETY: about to be linked, hence alive.
        unsafe { oldest.as_ref() }.tree.next.set(first);
        // SAFETY: about to be linked, hence alive.
        unsafe { newest.as_ref() }.tree.prev.set(core::ptr::null_mut());
        self.newest.set(newest.as_ptr());
    }

    pub(super) fn detach(&self, newest: &ContextNode, oldest: &ContextNode) {
        let (newer, older) = (newest.tree.prev.get(), oldest.tree.next.get());
        // SAFETY: the link rule.
        match unsafe { newer.as_ref() } {
            Some(newer) => newer.tree.next.set(older),
            None => self.newest.set(older),
        }
        // SAFETY: the link rule.
        match unsafe { older.as_ref() } {
            Some(older) => older.tree.prev.set(newer),
            None => self.oldest.set(newer),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ContextNode> {
        // SAFETY: the link rule.
        let at = |link: &AtomicPtr<ContextNode>| unsafe { link.get().as_ref() };
        core::iter::successors(at(&self.newest), move |node| at(&node.tree.next))
    }
}

/// Calls `visit` with each node's depth below `top`, parents before children, oldest child first. The tree lock is
/// held: `visit` must make no call out of the library.
pub(crate) fn each(top: &ContextNode, visit: impl FnMut(&ContextNode, usize)) {
    let held = top.root().tree_lock.lock();
    each_under(&held, top, visit);
}

pub(super) fn each_under(_: &Held<'_>, top: &ContextNode, mut visit: impl FnMut(&ContextNode, usize)) {
    let (mut at, mut depth) = (top, 0usize);
    loop {
        visit(at, depth);
        // SAFETY: the link rule.
        if let Some(child) = unsafe { at.tree.children.oldest.get().as_ref() } {
            (at, depth) = (child, depth.saturating_add(1));
            continue;
        }
        loop {
            if core::ptr::eq(at, top) {
                return;
            }
            // SAFETY: the link rule.
            if let Some(sibling) = unsafe { at.tree.prev.get().as_ref() } {
                at = sibling;
                break;
            }
            let Some(parent) = at.parent() else { return };
            (at, depth) = (parent, depth.saturating_sub(1));
        }
    }
}

/// A deep tree that is closed from the top down is walked once: everything below a closed node is closed already.
pub(crate) fn close(top: &ContextNode) {
    let held = top.root().tree_lock.lock();
    if top.flags() & CLOSED == 0 {
        each_under(&held, top, |node, _| node.set_flags(CLOSED));
    }
}

/// Returns, with a reference, the next node that has values, in post-order, or else `top`. Marks skipped nodes as
/// drained.
///
/// All are closed. `after` is the node that the last call returned, still referenced by the caller.
pub(super) fn next_to_drain(top: NonNull<ContextNode>, after: Option<NonNull<ContextNode>>) -> NonNull<ContextNode> {
    // SAFETY: the caller's reference.
    let root = unsafe { top.as_ref() }.root();
    let _held = root.tree_lock.lock();
    let mut at = match after {
        Some(done) => past(done).unwrap_or(top),
        None => {
            // Pairs with the fence in `owned::table`.
            fence(Ordering::SeqCst);
            lowest(top)
        }
    };
    loop {
        // SAFETY: the link rule.
        let node = unsafe { at.as_ref() };
        if (at == top || !node.owned.get().is_null()) && super::node::retain_living(node) {
            return at;
        }
        node.set_flags(DRAINED);
        at = past(at).unwrap_or(top);
    }
}

fn lowest(mut at: NonNull<ContextNode>) -> NonNull<ContextNode> {
    loop {
        match undrained(
            // SAFETY: the link rule.
            unsafe { at.as_ref() }.tree.children.newest.get(),
        ) {
            Some(child) => at = child,
            None => return at,
        }
    }
}

fn past(done: NonNull<ContextNode>) -> Option<NonNull<ContextNode>> {
    // SAFETY: the link rule.
    let done = unsafe { done.as_ref() };
    match undrained(done.tree.next.get()) {
        Some(older) => Some(lowest(older)),
        None => done.parent_ptr(),
    }
}

/// The result is the pointer that the node was linked with, through which the node may be freed. The tree lock is held.
fn undrained(mut at: *mut ContextNode) -> Option<NonNull<ContextNode>> {
    // SAFETY: the link rule.
    while let Some(node) = unsafe { at.as_ref() } {
        if node.flags() & DRAINED == 0 {
            return NonNull::new(at);
        }
        at = node.tree.next.get();
    }
    None
}

/// Cuts off each node whose backing may be that of `top`.
pub(super) fn abandon(top: &ContextNode) {
    each(top, |node, _| {
        node.set_flags(CLOSED);
        if node.backing.dies_with(top.backing) {
            node.set_flags(ABANDONED);
        }
    });
}

pub(crate) fn node_usage(node: &ContextNode) -> Usage {
    usage_by(node, |row, tag| Some(read_row(row, tag))).unwrap_or_default()
}

pub(super) fn usage_by(node: &ContextNode, read: impl Fn(&AccountRow, u64) -> Option<ScopeUsage>) -> Option<Usage> {
    let mut usage = Usage { foreign: node.foreign_usage(), ..Usage::default() };
    for (place, scope) in usage.scopes.iter_mut().zip(Scope::ALL) {
        if node.counts_in(scope) {
            *place = read(node.row(scope), node.tag(scope))?;
        }
    }
    Some(usage)
}

pub(crate) fn gone_usage(node: &ContextNode) -> Usage {
    if !node.uses(GONE) {
        return Usage::default();
    }
    Usage { scopes: Scope::ALL.map(|scope| node.closed_children.sum(scope)), foreign: node.foreign.gone() }
}

/// The totals include ended nodes.
pub(crate) fn subtree_usage(top: &ContextNode) -> Usage {
    subtree_usage_under(&top.root().tree_lock.lock(), top)
}

pub(super) fn subtree_usage_under(held: &Held<'_>, top: &ContextNode) -> Usage {
    let mut sum = Usage::default();
    each_under(held, top, |node, _| {
        sum.add(&node_usage(node));
        sum.add(&gone_usage(node));
    });
    sum
}
