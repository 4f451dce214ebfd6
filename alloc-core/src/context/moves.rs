//! A move changes the links of the moved contexts and the charges for their records and for all memory of their
//! subtrees, in one step, or not at all.

use core::ptr::NonNull;

use super::budget_charge::{has_room, with_leases};
use super::node::{BUDGETED, CLOSED, ContextNode};
use super::transfer::unshared_budgets;
use super::{Context, ContextHandle, create, node, tree};
use crate::error::{HostError, Misuse};
use crate::scope::Scope;
use crate::sync::{AtomicPtr, Held, Ordering, Relaxed as _};
use crate::threads::fold_thread;

impl Context {
    /// Moves this context and all below it to another parent of the same tree, as its newest child. A context that is a
    /// value of its parent stays one: [`remove`](ContextHandle::remove) it first, or it ends with its former parent.
    ///
    /// Budgets above both parents do not change; those above the new parent alone are charged for all memory that
    /// moves; those above the old one alone get a refund. Totals stay where they were counted. Leases of other threads
    /// move along: a [`Budget::exact`](crate::Budget::exact) above the new parent may refuse early until those threads
    /// use the contexts again.
    ///
    /// O(depth) in the tree; O(contexts moved) where budgets of another size or kind begin to apply.
    ///
    /// # Errors
    /// Nothing was changed. [`Misuse::IsARoot`]; [`Misuse::OtherTree`]; [`Misuse::Cycle`] when `to` is this context or
    /// below it; [`Misuse::OtherBacking`] when the parents have different allocators; [`HostError::Closed`] for either;
    /// [`HostError::OverBudget`]. [`Misuse::InUse`] when the move brings a first budget while handles, or contexts
    /// below, could let other threads allocate; a parent that was once below a budget counts as if it still were.
    pub fn reparent(&mut self, to: &ContextHandle) -> Result<(), HostError> {
        let (this, above) = (self.handle.node_ptr(), to.node_ptr());
        let (node, new) = (self.node(), to.node());
        if node.is_root() {
            return Err(HostError::Misuse(Misuse::IsARoot));
        }
        let old = {
            if !core::ptr::eq(node.root(), new.root()) {
                return Err(HostError::Misuse(Misuse::OtherTree));
            }
            let held = node.root().tree_lock.lock();
            let Some(old) = node.parent_ptr() else {
                return Err(HostError::Misuse(Misuse::IsARoot));
            };
            if node.flags() & CLOSED != 0 {
                return Err(HostError::Closed { context: node.id() });
            }
            if is_below(new, node) {
                return Err(HostError::Misuse(Misuse::Cycle));
            }
            if old == above {
                return Ok(());
            }
            let context_move = ContextMove { old, newest: this, oldest: this, owner_is_here: true, values: (0, 0) };
            context_move.apply(&held, above)?;
            old
        };
        // SAFETY: the moved context's reference on its old parent.
        unsafe { create::release(old) };
        Ok(())
    }
}

/// The tree lock is held.
fn is_below(node: &ContextNode, top: &ContextNode) -> bool {
    core::iter::successors(Some(node), |node| node.parent()).any(|node| core::ptr::eq(node, top))
}

pub(crate) struct ContextMove {
    pub(crate) old: NonNull<ContextNode>,
    pub(crate) newest: NonNull<ContextNode>,
    pub(crate) oldest: NonNull<ContextNode>,
    /// The caller has the owner of the only sibling, exclusively.
    pub(crate) owner_is_here: bool,
    /// Bytes and blocks of values, in the old parent's default scope.
    pub(crate) values: (u64, u64),
}

impl ContextMove {
    /// Calls `act` with the tree's lock held; false when there are no children.
    pub(crate) fn of_children(
        from: &Context,
        to: &ContextHandle,
        values: (u64, u64),
        act: impl FnOnce(&Self, &Held<'_>, NonNull<ContextNode>) -> Result<(), HostError>,
    ) -> Result<bool, HostError> {
        let (source, old, above) = (from.node(), from.handle.node_ptr(), to.node_ptr());
        let held = source.root().tree_lock.lock();
        let link = |link: &AtomicPtr<ContextNode>| NonNull::new(link.get());
        if source.flags() & CLOSED != 0 {
            return Err(HostError::Closed { context: source.id() });
        }
        let (Some(newest), Some(oldest)) = (link(&source.tree.children.newest), link(&source.tree.children.oldest))
        else {
            return Ok(false);
        };
        if !core::ptr::eq(source.root(), to.node().root()) {
            return Err(HostError::Misuse(Misuse::OtherTree));
        }
        if is_below(to.node(), source) {
            return Err(HostError::Misuse(Misuse::Cycle));
        }
        let context_move = Self { old, newest, oldest, owner_is_here: false, values };
        act(&context_move, &held, above)?;
        if link(&source.tree.children.newest).is_none() {
            for _ in context_move.siblings() {
                // SAFETY: each had a reference on its old parent, on which the caller has another.
                unsafe { create::release(old) };
            }
        }
        Ok(true)
    }

    fn parents<'n>(&'n self, above: &'n NonNull<ContextNode>) -> (&'n ContextNode, &'n ContextNode) {
        // SAFETY: the caller refers to both parents.
        let old = unsafe { self.old.as_ref() };
        // SAFETY: the caller refers to both parents.
        (old, unsafe { above.as_ref() })
    }

    fn siblings(&self) -> impl Iterator<Item = &ContextNode> {
        let oldest = self.oldest;
        // SAFETY: the link rule; the caller holds the lock.
        let first = unsafe { self.newest.as_ref() };
        core::iter::successors(Some(first), move |node| {
            if core::ptr::eq(*node, oldest.as_ptr()) {
                return None;
            }
            // SAFETY: the link rule; the caller holds the lock.
            unsafe { node.tree.next.get().as_ref() }
        })
    }

    /// Cycles and room in budgets are not checked. The tree lock is held.
    pub(crate) fn check(&self, _: &Held<'_>, above: NonNull<ContextNode>) -> Result<(), HostError> {
        let (old, new) = self.parents(&above);
        if new.flags() & CLOSED != 0 {
            return Err(HostError::Closed { context: new.id() });
        }
        if !old.shares_backing(new) {
            return Err(HostError::Misuse(Misuse::OtherBacking));
        }
        // Without handles and contexts below, only the owner can be using a context.
        let is_quiet = |child: &ContextNode| {
            self.owner_is_here
                && child.tree.children.newest.get().is_null()
                && child.references.load(Ordering::Acquire) == 1
        };
        if new.is_budgeted() && !self.siblings().all(|child| child.is_budgeted() || is_quiet(child)) {
            return Err(HostError::Misuse(Misuse::InUse));
        }
        Ok(())
    }

    /// The caller has excluded cycles, and releases one reference of the old parent per sibling.
    pub(crate) fn apply(&self, held: &Held<'_>, above: NonNull<ContextNode>) -> Result<(), HostError> {
        self.check(held, above)?;
        let (old, new) = self.parents(&above);
        let charged = self.charge(above).or_else(|_| {
            // This thread's own leases may hold the missing bytes.
            fold_thread();
            self.charge(above)
        });
        charged.map_err(|error| with_leases(error, held, new))?;
        self.count(old, new);
        // SAFETY: the link rule; the lock is held.
        old.tree.children.detach(unsafe { self.newest.as_ref() }, unsafe { self.oldest.as_ref() });
        new.tree.children.put_first(self.newest, self.oldest);
        for child in self.siblings() {
            node::retain(above);
            if child.is_budgeted() && child.budget.slice.get() != child.due_slice() {
                tree::each_under(held, child, |node, _| node.update_slice());
            }
        }
        Ok(())
    }

    fn charge(&self, above: NonNull<ContextNode>) -> Result<(), HostError> {
        let (old, new) = self.parents(&above);
        let begins = |child: &&ContextNode| new.is_budgeted() && !child.is_budgeted();
        for child in self.siblings().filter(begins) {
            child.evict_entries();
            let live = Scope::ALL.map(|scope| child.folded_usage(scope).live_bytes);
            let charged = live.into_iter().fold(child.lost_bytes(), u64::saturating_add);
            child.budget.charged.set(charged);
        }
        let _budget = new.root().budget_lock.lock();
        let (mut below, mut here) = (0u64, self.values.0);
        for child in self.siblings() {
            let charged = if new.is_budgeted() || child.is_budgeted() { child.budget.charged.get() } else { 0 };
            below = below.saturating_add(charged);
            here = here.saturating_add(child.record().0);
        }
        let all = below.saturating_add(here);
        has_room(unshared_budgets(new, old), all)?;
        unshared_budgets(new, old).for_each(|node| node.budget.add(all));
        // `count` refunds the records and values after it has counted them.
        unshared_budgets(old, new).for_each(|node| node.budget.subtract(below));
        for child in self.siblings() {
            if begins(&child) {
                child.set_flags(BUDGETED);
            }
            child.tree.parent.set(above.as_ptr());
        }
        Ok(())
    }

    fn count(&self, old: &ContextNode, new: &ContextNode) {
        let mut here = 0u64;
        let mut move_counts = |scope, bytes, blocks| {
            here = here.saturating_add(bytes);
            // In this order nothing is counted twice.
            old.count_leaving(scope, bytes, blocks);
            new.count_arriving(scope, bytes, blocks);
        };
        for child in self.siblings() {
            let (bytes, blocks) = child.record();
            move_counts(child.home, bytes, blocks);
        }
        if self.values.0 > 0 {
            move_counts(old.scope, self.values.0, self.values.1);
        }
        old.refund_unshared(new, here);
    }
}
