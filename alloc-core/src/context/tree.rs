//! The tree of contexts: linking, unlinking and walking, all under the root's tree lock, none of it recursive.

use core::ptr::NonNull;

use super::node::{
    ABANDONED, BUDGETS, CLOSED, ContextNode, DRAINED, FOREIGN, GONE, NodeList, ORPHANED,
    OWNED_BY_PARENT,
};
use crate::account::{ScopeUsage, Usage};
use crate::scope::Scope;
use crate::sync::{AtomicPtr, AtomicU64, Held, Lock, Ordering, Relaxed as _, fence};

/// The roots of the process. The lock is held together with no other.
static ROOTS: (Lock, NodeList) = (Lock::new(), NodeList::new());

/// Lists a new root.
pub(super) fn list_root(root: NonNull<ContextNode>) {
    let _held = ROOTS.0.lock();
    ROOTS.1.put_first(root, root);
}

fn unlist_root(root: &ContextNode) {
    let _held = ROOTS.0.lock();
    ROOTS.1.detach(root, root);
}

/// In the child of a fork: charges all budgets with what is live. No entry is open, so nothing is leased. Waits for no lock; a tree with a
/// lock that is held stays as it is.
pub(crate) fn recharge() {
    ROOTS.0.reset();
    for root in ROOTS.1.iter() {
        if root.uses(BUDGETS)
            && let Some(held) = root.tree_lock.try_lock()
            && let Some(_budget) = root.budget_lock.try_lock()
        {
            each_under(&held, root, |node, _| {
                if node.is_budgeted()
                    && let Some(live) = node.try_live_bytes()
                {
                    let lost = Scope::ALL.map(|scope| node.closed_children.sum(scope).live_bytes);
                    let charged = lost.into_iter().fold(live, u64::saturating_add);
                    node.budget.charged.set(charged);
                }
            });
            post_order(
                &held,
                root,
                |_| true,
                |node| {
                    if let Some(parent) = node.parent().filter(|parent| parent.is_budgeted()) {
                        parent.budget.add(node.budget.charged.get());
                    }
                },
            );
        }
    }
}

/// Links a new node below `above`, as its newest child, which keeps the caller's reference on `above`.
pub(super) fn link(above: NonNull<ContextNode>, new: NonNull<ContextNode>) {
    // SAFETY: the caller's reference keeps it alive.
    let parent = unsafe { above.as_ref() };
    // SAFETY: new, and not yet visible to other threads.
    let child = unsafe { new.as_ref() };
    let _held = parent.root().tree_lock.lock();
    // Pointers to the whole node, not ones made from a reference: the node is freed through one of these.
    child.tree.parent.set(above.as_ptr());
    parent.tree.children.put_first(new, new);
    // A parent that was closed meanwhile closes its new child as well.
    if parent.flags() & CLOSED != 0 {
        child.set_flags(CLOSED);
    }
    if parent.flags() & ABANDONED != 0 && child.backing.dies_with(parent.backing) {
        child.set_flags(ABANDONED);
    }
    // A limit above may have changed since the child was made.
    if child.is_budgeted() {
        child.budget.slice.set(child.due_slice());
    }
}

/// Unlinks an ending node and adds its sums to its parent's. Returns the parent, whose reference the caller must release.
pub(super) fn unlink(node: &ContextNode) -> Option<NonNull<ContextNode>> {
    if node.is_root() {
        unlist_root(node);
        return None;
    }
    // All entries are evicted: the rows hold everything.
    let usage = Scope::ALL.map(|scope| node.folded_usage(scope));
    let _held = node.root().tree_lock.lock();
    // Read under the lock: another context may adopt the children of a context, ending ones included.
    let above = node.parent_ptr()?;
    // SAFETY: the node's own reference on its parent.
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
    /// Links a chain of siblings, from its newest to its oldest, before all others.
    pub(super) fn put_first(&self, newest: NonNull<ContextNode>, oldest: NonNull<ContextNode>) {
        let first = self.newest.get();
        // SAFETY: linked nodes are alive: a node is unlinked, under the lock held here, before it is freed.
        match unsafe { first.as_ref() } {
            Some(first) => first.tree.prev.set(oldest.as_ptr()),
            None => self.oldest.set(oldest.as_ptr()),
        }
        // SAFETY: the chain's nodes are about to be linked, hence alive.
        unsafe { oldest.as_ref() }.tree.next.set(first);
        // SAFETY: linked nodes are alive, see `put_first`.
        unsafe { newest.as_ref() }
            .tree
            .prev
            .set(core::ptr::null_mut());
        self.newest.set(newest.as_ptr());
    }

    /// Unlinks a chain of siblings.
    pub(super) fn detach(&self, newest: &ContextNode, oldest: &ContextNode) {
        let (newer, older) = (newest.tree.prev.get(), oldest.tree.next.get());
        // SAFETY: linked nodes are alive, see `put_first`.
        match unsafe { newer.as_ref() } {
            Some(newer) => newer.tree.next.set(older),
            None => self.newest.set(older),
        }
        // SAFETY: linked nodes are alive, see `put_first`.
        match unsafe { older.as_ref() } {
            Some(older) => older.tree.prev.set(newer),
            None => self.oldest.set(newer),
        }
    }

    /// The nodes, newest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ContextNode> {
        // SAFETY: linked nodes are alive, see `put_first`.
        let at = |link: &AtomicPtr<ContextNode>| unsafe { link.get().as_ref() };
        core::iter::successors(at(&self.newest), move |node| at(&node.tree.next))
    }
}

/// Calls `visit` with every node of the subtree and its depth below `top`, parents before children, oldest child first. The tree lock is
/// held meanwhile: `visit` must make no call out of the library.
pub(crate) fn each(top: &ContextNode, visit: impl FnMut(&ContextNode, usize)) {
    let held = top.root().tree_lock.lock();
    each_under(&held, top, visit);
}

/// As [`each`], with the tree's lock held.
pub(super) fn each_under(
    _: &Held<'_>,
    top: &ContextNode,
    mut visit: impl FnMut(&ContextNode, usize),
) {
    let (mut at, mut depth) = (top, 0usize);
    loop {
        visit(at, depth);
        // SAFETY: linked nodes are alive, see `put_first`.
        if let Some(child) = unsafe { at.tree.children.oldest.get().as_ref() } {
            (at, depth) = (child, depth.saturating_add(1));
            continue;
        }
        loop {
            if core::ptr::eq(at, top) {
                return;
            }
            // SAFETY: linked nodes are alive, see `put_first`.
            if let Some(sibling) = unsafe { at.tree.prev.get().as_ref() } {
                at = sibling;
                break;
            }
            let Some(parent) = at.parent() else { return };
            (at, depth) = (parent, depth.saturating_sub(1));
        }
    }
}

/// Calls `visit` with the nodes of the subtree, children before parents, without those below budgeted nodes. `visit` must make no call out
/// of the library.
pub(super) fn unbudgeted_post_order(
    held: &Held<'_>,
    top: &ContextNode,
    visit: impl FnMut(&ContextNode),
) {
    post_order(held, top, |node| !node.is_budgeted(), visit);
}

/// Calls `visit` with the nodes of the subtree, children before parents, and those below a node only if it is `open`.
fn post_order(
    _: &Held<'_>,
    top: &ContextNode,
    open: impl Fn(&ContextNode) -> bool,
    mut visit: impl FnMut(&ContextNode),
) {
    let child = |at: &ContextNode| at.tree.children.newest.get();
    let down = |mut at| {
        // SAFETY: linked nodes are alive, see `put_first`.
        while let Some(child) = unsafe { child(at).as_ref() }.filter(|_| open(at)) {
            at = child;
        }
        at
    };
    let mut at = down(top);
    loop {
        // SAFETY: linked nodes are alive, see `put_first`. Read before the visit, which may make the node budgeted.
        let (next, parent) = (unsafe { at.tree.next.get().as_ref() }, at.parent());
        visit(at);
        if core::ptr::eq(at, top) {
            return;
        }
        at = match (next, parent) {
            (Some(sibling), _) => down(sibling),
            (None, Some(parent)) => parent,
            (None, None) => return,
        };
    }
}

/// Closes the node and everything below it: no new allocation. Everything below a closed node is closed already ([`link`] closes new
/// children), so closing a deep tree from the top down walks it once.
pub(super) fn close(top: &ContextNode) {
    let held = top.root().tree_lock.lock();
    if top.flags() & CLOSED == 0 {
        each_under(&held, top, |node, _| node.set_flags(CLOSED));
    }
}

/// Returns the next node, children before parents and newer ones before older, that has values or is left to its parent, or else `top`.
/// The caller gets a reference to it. Marks skipped nodes as drained: they and the nodes below them own nothing.
///
/// All are closed. `after` is the node that the last call returned, still referenced by the caller; `None` begins the walk.
pub(super) fn next_to_drain(
    top: NonNull<ContextNode>,
    after: Option<NonNull<ContextNode>>,
) -> NonNull<ContextNode> {
    // SAFETY: the caller refers to it.
    let root = unsafe { top.as_ref() }.root();
    let _held = root.tree_lock.lock();
    let mut at = match after {
        Some(done) => past(done).unwrap_or(top),
        None => {
            // Pairs with the fence in `owned::table`: of a thread that closes a context and one that adds the first value, one sees the
            // other's write.
            fence(Ordering::SeqCst);
            lowest(top)
        }
    };
    loop {
        // SAFETY: linked nodes are alive, see `put_first`.
        let node = unsafe { at.as_ref() };
        let busy = node.flags() & OWNED_BY_PARENT != 0 || !node.owned.get().is_null();
        if (at == top || busy) && super::node::retain_living(node) {
            return at;
        }
        node.set_flags(DRAINED);
        at = past(at).unwrap_or(top);
    }
}

/// Descends to the newest child, its newest child, and so on.
fn lowest(mut at: NonNull<ContextNode>) -> NonNull<ContextNode> {
    loop {
        match undrained(
            // SAFETY: linked nodes are alive, see `put_first`.
            unsafe { at.as_ref() }.tree.children.newest.get(),
        ) {
            Some(child) => at = child,
            None => return at,
        }
    }
}

/// The node after `done` in post-order.
fn past(done: NonNull<ContextNode>) -> Option<NonNull<ContextNode>> {
    // SAFETY: linked nodes are alive, see `put_first`.
    let done = unsafe { done.as_ref() };
    match undrained(done.tree.next.get()) {
        Some(older) => Some(lowest(older)),
        None => done.parent_ptr(),
    }
}

/// This sibling or the next older one that is not drained.
fn undrained(at: *mut ContextNode) -> Option<NonNull<ContextNode>> {
    find_sibling(at, |node| node.flags() & DRAINED == 0)
}

/// This sibling or the next older one that is `wanted`, as the pointer that it was linked with: its new owner may have to free it, and a
/// pointer made from a reference must not. The tree lock is held.
pub(super) fn find_sibling(
    mut at: *mut ContextNode,
    wanted: impl Fn(&ContextNode) -> bool,
) -> Option<NonNull<ContextNode>> {
    // SAFETY: linked nodes are alive, see `put_first`.
    while let Some(node) = unsafe { at.as_ref() } {
        if wanted(node) {
            return NonNull::new(at);
        }
        at = node.tree.next.get();
    }
    None
}

/// Marks the node as drained and ownerless if its parent owned it. Returns whether the parent did.
pub(super) fn end_of_drain(node: &ContextNode) -> bool {
    let _held = node.root().tree_lock.lock();
    let left = node.flags() & OWNED_BY_PARENT != 0;
    node.clear_flags(OWNED_BY_PARENT);
    node.set_flags(if left { DRAINED | ORPHANED } else { DRAINED });
    left
}

/// Closes the subtree and cuts off the backing of every node in it that may have the same one as `top`.
pub(super) fn abandon(top: &ContextNode) {
    each(top, |node, _| {
        node.set_flags(CLOSED);
        if node.backing.dies_with(top.backing) {
            node.set_flags(ABANDONED);
        }
    });
}

/// The account of one node, without those below.
pub(crate) fn node_usage(node: &ContextNode) -> Usage {
    Usage {
        scopes: Scope::ALL.map(|scope| node.usage(scope)),
        foreign: node.foreign.usage(),
    }
}

/// As [`node_usage`]; `None` where it would have to wait for a lock.
pub(crate) fn try_node_usage(node: &ContextNode) -> Option<Usage> {
    let mut usage = Usage {
        scopes: [ScopeUsage::default(); Scope::COUNT],
        foreign: node.foreign.usage(),
    };
    for (place, scope) in usage.scopes.iter_mut().zip(Scope::ALL) {
        *place = node.try_usage(scope)?;
    }
    Some(usage)
}

/// The sums of ended children of the node.
pub(crate) fn gone_usage(node: &ContextNode) -> Usage {
    Usage {
        scopes: Scope::ALL.map(|scope| node.closed_children.sum(scope)),
        foreign: node.foreign.gone(),
    }
}

/// The accounts of a node and all below it; the totals include ended ones.
pub(crate) fn subtree_usage(top: &ContextNode) -> Usage {
    subtree_usage_under(&top.root().tree_lock.lock(), top)
}

/// As [`subtree_usage`], with the tree's lock held.
pub(super) fn subtree_usage_under(held: &Held<'_>, top: &ContextNode) -> Usage {
    let mut sum = Usage::default();
    each_under(held, top, |node, _| {
        for (place, scope) in sum.scopes.iter_mut().zip(Scope::ALL) {
            if node.counts_in(scope) {
                *place = place.plus(&node.usage(scope));
            }
        }
        if node.uses(FOREIGN) {
            sum.add(
                &[ScopeUsage::default(); Scope::COUNT],
                &node.foreign.usage(),
            );
        }
        if node.uses(GONE) {
            let gone = gone_usage(node);
            sum.add(&gone.scopes, &gone.foreign);
        }
    });
    sum
}

impl super::node::ClosedSums {
    /// Adds the sums of an ending context for `scope`. Its live bytes are lost.
    fn add(&self, scope: Scope, gone: &ScopeUsage) {
        let at = scope.index();
        for (cells, by) in [
            (&self.total_bytes, gone.total_bytes),
            (&self.total_blocks, gone.total_blocks),
            (&self.lost_bytes, gone.live_bytes),
            (&self.lost_blocks, gone.live_blocks),
        ] {
            if let Some(cell) = cells.get(at) {
                cell.set(cell.get().wrapping_add(by));
            }
        }
    }

    /// The sums of ended children for `scope`; `live_*` are their lost bytes and blocks.
    fn sum(&self, scope: Scope) -> ScopeUsage {
        let read =
            |cells: &[AtomicU64; Scope::COUNT]| cells.get(scope.index()).map_or(0, |c| c.get());
        ScopeUsage {
            live_bytes: read(&self.lost_bytes),
            live_blocks: read(&self.lost_blocks),
            total_bytes: read(&self.total_bytes),
            total_blocks: read(&self.total_blocks),
            ..ScopeUsage::default()
        }
    }
}
