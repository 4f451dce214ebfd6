//! Moving whole contexts within their tree: in one step, or not at all.
//!
//! A move changes the links of the moved contexts and the charges for them: for their records, which lie in the parent's memory, and for all
//! memory of their subtrees. No block is copied or moved. The contexts below are visited only where other limits begin to apply: a first
//! budget, or slices of another size.

use core::ptr::NonNull;

use super::node::{BUDGETED, CLOSED, ContextNode, ORPHANED, OWNED_BY_PARENT};
use super::transfer::unshared_budgets;
use super::{Context, ContextHandle, create, node, tree};
use crate::adapters::HostSource;
use crate::error::{HostError, Misuse};
use crate::refusal::Shortage;
use crate::rejected::Rejected;
use crate::scope::Scope;
use crate::sync::{AtomicPtr, Held, Ordering, Relaxed as _};

impl Context {
    /// Moves this context and all below it to another parent of the same tree, where it becomes the newest child. Below its present parent
    /// it keeps its place. It keeps its allocator and scope.
    ///
    /// Budgets above both parents do not change. Those above the new parent alone are charged for all memory of the moved contexts; those
    /// above the old parent alone get a refund. Totals stay where they were counted. Leases of other threads in the moved contexts move
    /// along, so that a [`Budget::exact`](crate::Budget::exact) above the new parent may refuse early until those threads use the contexts
    /// again.
    ///
    /// O(1) in what moves; O(depth) in the tree; O(contexts moved) where budgets of another size or kind begin to apply.
    ///
    /// # Errors
    /// Nothing was changed. [`Misuse::IsARoot`]; [`Misuse::OtherTree`]; [`Misuse::Cycle`] when `to` is this context or below it;
    /// [`Misuse::OtherBacking`] when the new parent has another allocator than the old one, which the context's record came from;
    /// [`HostError::Closed`] for either; [`HostError::OverBudget`]. [`Misuse::InUse`] when the move brings a first budget while other
    /// handles or owners of the moved contexts exist, through which threads could be allocating. A parent that was once below a budget
    /// counts as if it still were.
    pub fn reparent(&mut self, to: &ContextHandle) -> Result<(), HostError> {
        let (this, above) = (self.handle.node_ptr(), to.node_ptr());
        let (node, new) = (self.node(), to.node());
        if node.is_root() {
            return Err(HostError::Misuse(Misuse::IsARoot));
        }
        let old = {
            let held = lock_both_in(node, new)?;
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
            let context_move = ContextMove {
                old,
                newest: this,
                oldest: this,
                owner_is_here: true,
                values: (0, 0),
            };
            context_move.apply(&held, above)?;
            old
        };
        // SAFETY: the moved context's former reference on its old parent.
        unsafe { create::release(old) };
        Ok(())
    }

    /// Makes the parent the owner of this context, so that the context ends with its parent and a tree needs no owner for each context.
    /// Returns the handle to use from then on; [`ContextHandle::claim`] makes an owner again.
    ///
    /// When the parent has already ended, so has this context.
    ///
    /// # Errors
    /// The context, with [`Misuse::IsARoot`].
    pub fn leave(self) -> Result<ContextHandle, Rejected<Context, HostError>> {
        if self.node().is_root() {
            return Err(Rejected {
                value: self,
                error: HostError::Misuse(Misuse::IsARoot),
            });
        }
        let handle = self.handle();
        let left = {
            let node = self.node();
            let _held = node.root().tree_lock.lock();
            let open = node.flags() & CLOSED == 0;
            if open {
                node.set_flags(OWNED_BY_PARENT);
            }
            open
        };
        if left {
            // The parent now has the owner's reference.
            core::mem::forget(self);
        }
        Ok(handle)
    }
}

impl ContextHandle {
    /// Returns an owner of a context that was [left](Context::leave) to its parent.
    ///
    /// # Errors
    /// [`Misuse::HasOwner`] when the context has an owner; [`HostError::Closed`].
    pub fn claim(&self) -> Result<Context, HostError> {
        let node = self.node();
        let _held = node.root().tree_lock.lock();
        if node.flags() & CLOSED != 0 {
            return Err(HostError::Closed { context: node.id() });
        }
        if node.flags() & OWNED_BY_PARENT == 0 {
            return Err(HostError::Misuse(Misuse::HasOwner));
        }
        node.clear_flags(OWNED_BY_PARENT);
        Ok(Context::owning(self.node_ptr()))
    }
}

/// Locks the tree that both are in.
fn lock_both_in<'n>(one: &'n ContextNode, other: &ContextNode) -> Result<Held<'n>, HostError> {
    if !core::ptr::eq(one.root(), other.root()) {
        return Err(HostError::Misuse(Misuse::OtherTree));
    }
    Ok(one.root().tree_lock.lock())
}

/// True when `node` is `top` or below it. The tree lock is held.
fn is_below(node: &ContextNode, top: &ContextNode) -> bool {
    core::iter::successors(Some(node), |node| node.parent()).any(|node| core::ptr::eq(node, top))
}

/// A move of siblings, and of values with them.
pub(crate) struct ContextMove {
    pub(crate) old: NonNull<ContextNode>,
    pub(crate) newest: NonNull<ContextNode>,
    pub(crate) oldest: NonNull<ContextNode>,
    /// The caller has the owner of the (one) sibling, exclusively.
    pub(crate) owner_is_here: bool,
    /// Bytes and blocks of values, in the old parent's default scope.
    pub(crate) values: (u64, u64),
}

impl ContextMove {
    /// Calls `act` with a move of all children of `from` and of `values`, with the tree's lock held. False when there are no children. When
    /// `act` has moved the children, releases their references on the old parent.
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
            return Err(HostError::Closed {
                context: source.id(),
            });
        }
        let (Some(newest), Some(oldest)) = (
            link(&source.tree.children.newest),
            link(&source.tree.children.oldest),
        ) else {
            return Ok(false);
        };
        if !core::ptr::eq(source.root(), to.node().root()) {
            return Err(HostError::Misuse(Misuse::OtherTree));
        }
        if is_below(to.node(), source) {
            return Err(HostError::Misuse(Misuse::Cycle));
        }
        let context_move = Self {
            old,
            newest,
            oldest,
            owner_is_here: false,
            values,
        };
        act(&context_move, &held, above)?;
        if link(&source.tree.children.newest).is_none() {
            for _ in context_move.siblings() {
                // SAFETY: each had a reference on its old parent. It is not the last one: the caller has another.
                unsafe { create::release(old) };
            }
        }
        Ok(true)
    }

    /// The old parent and the new one.
    fn parents<'n>(
        &'n self,
        above: &'n NonNull<ContextNode>,
    ) -> (&'n ContextNode, &'n ContextNode) {
        // SAFETY: the caller of a move refers to both parents.
        let old = unsafe { self.old.as_ref() };
        // SAFETY: the caller of a move refers to both parents.
        (old, unsafe { above.as_ref() })
    }

    fn siblings(&self) -> impl Iterator<Item = &ContextNode> {
        let oldest = self.oldest;
        // SAFETY: linked nodes are alive under the tree lock, which the caller holds.
        let first = unsafe { self.newest.as_ref() };
        core::iter::successors(Some(first), move |node| {
            if core::ptr::eq(*node, oldest.as_ptr()) {
                return None;
            }
            // SAFETY: linked nodes are alive under the tree lock, which the caller holds.
            unsafe { node.tree.next.get().as_ref() }
        })
    }

    /// Checks everything except cycles and room in budgets.
    pub(crate) fn check(
        &self,
        held: &Held<'_>,
        above: NonNull<ContextNode>,
    ) -> Result<(), HostError> {
        let (old, new) = self.parents(&above);
        if new.flags() & CLOSED != 0 {
            return Err(HostError::Closed { context: new.id() });
        }
        if !old.shares_backing(new) {
            return Err(HostError::Misuse(Misuse::OtherBacking));
        }
        if new.is_budgeted()
            && !self
                .siblings()
                .all(|child| child.is_budgeted() || is_quiet(held, child, self.owner_is_here))
        {
            return Err(HostError::Misuse(Misuse::InUse));
        }
        Ok(())
    }

    /// Moves the siblings. The caller has excluded cycles, and must release one reference of the old parent per sibling after the lock.
    pub(crate) fn apply(
        &self,
        held: &Held<'_>,
        above: NonNull<ContextNode>,
    ) -> Result<(), HostError> {
        self.check(held, above)?;
        let (old, new) = self.parents(&above);
        let charged = self.charge(held, above).or_else(|_| {
            // This thread's own leases may hold the missing bytes.
            new.fold_tree();
            self.charge(held, above)
        });
        charged.map_err(|shortage| shortage.error(held, new))?;
        self.count(old, new);
        // SAFETY: linked nodes are alive, and this tree's lock is held.
        old.tree
            .children
            .detach(unsafe { self.newest.as_ref() }, unsafe {
                self.oldest.as_ref()
            });
        new.tree.children.put_first(self.newest, self.oldest);
        for child in self.siblings() {
            node::retain(above);
            if child.is_budgeted() && child.budget.slice.get() != child.due_slice() {
                tree::each_under(held, child, |node, _| node.update_slice());
            }
        }
        Ok(())
    }

    /// Charges the budgets above the new parent for everything that moves, refunds the old ones for the subtrees, and sets the new parent.
    fn charge(&self, held: &Held<'_>, above: NonNull<ContextNode>) -> Result<(), Shortage> {
        let (old, new) = self.parents(&above);
        let begins = |child: &&ContextNode| new.is_budgeted() && !child.is_budgeted();
        self.siblings()
            .filter(begins)
            .for_each(|child| weigh(held, child));
        let _budget = new.root().budget_lock.lock();
        let (mut below, mut here) = (0u64, self.values.0);
        for child in self.siblings() {
            if begins(&child) {
                sum_up(held, child);
            }
            let charged = if new.is_budgeted() || child.is_budgeted() {
                child.budget.charged.get()
            } else {
                0
            };
            below = below.saturating_add(charged);
            here = here.saturating_add(child.record().0);
        }
        let all = below.saturating_add(here);
        if let Some(shortage) = Shortage::first(unshared_budgets(new, old), all) {
            return Err(shortage);
        }
        unshared_budgets(new, old).for_each(|node| node.budget.add(all));
        // `count` refunds the records and values after it has counted them.
        unshared_budgets(old, new).for_each(|node| node.budget.subtract(below));
        for child in self.siblings() {
            if begins(&child) {
                tree::unbudgeted_post_order(held, child, |node| node.set_flags(BUDGETED));
            }
            child.tree.parent.set(above.as_ptr());
        }
        Ok(())
    }

    /// Moves the counts of records and values from the old parent to the new one.
    fn count(&self, old: &ContextNode, new: &ContextNode) {
        let mut here = 0u64;
        let mut move_counts = |scope, bytes, blocks| {
            here = here.saturating_add(bytes);
            // In this order nothing is counted twice at any moment.
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

/// True when only the caller can be using the unbudgeted contexts of the subtree.
fn is_quiet(held: &Held<'_>, top: &ContextNode, owner_is_here: bool) -> bool {
    let mut quiet = true;
    tree::unbudgeted_post_order(held, top, |node| {
        if !node.is_budgeted() {
            let children = node.tree.children.iter().count();
            let ownerless = node.flags() & ORPHANED != 0;
            let references = children.saturating_add(usize::from(!ownerless));
            let owner_is_known = ownerless
                || node.flags() & OWNED_BY_PARENT != 0
                || owner_is_here && core::ptr::eq(node, top);
            // A node without references is being ended by another thread, which still counts frees.
            let now = node.references.load(Ordering::Acquire);
            quiet &= owner_is_known && now == references && now != 0;
        }
    });
    quiet
}

/// Sets the charge of each context of a quiet subtree to its own live bytes.
fn weigh(held: &Held<'_>, top: &ContextNode) {
    tree::unbudgeted_post_order(held, top, |node| {
        if !node.is_budgeted() {
            node.evict_entries();
            let live = Scope::ALL.map(|scope| node.folded_usage(scope).live_bytes);
            node.budget
                .charged
                .set(live.into_iter().fold(0, u64::saturating_add));
        }
    });
}

/// Adds to the charge of each context of a weighed subtree the charges of those below it. The budget lock is held.
fn sum_up(held: &Held<'_>, top: &ContextNode) {
    tree::unbudgeted_post_order(held, top, |node| {
        if let Some(parent) = node.parent().filter(|_| !core::ptr::eq(node, top)) {
            parent.budget.add(node.budget.charged.get());
        }
    });
}

/// A context, by reference or handle, that memory can be charged to. Implemented for `&Context` and [`ContextHandle`] only.
pub trait ContextRef: HostSource + sealed::Sealed {}

pub(crate) mod sealed {
    use super::{Context, ContextHandle};

    /// Other crates cannot implement it.
    pub trait Sealed {
        #[doc(hidden)]
        fn context_handle(&self) -> &ContextHandle;
    }

    impl Sealed for &Context {
        fn context_handle(&self) -> &ContextHandle {
            &self.handle
        }
    }
    impl Sealed for ContextHandle {
        fn context_handle(&self) -> &ContextHandle {
            self
        }
    }
}

impl ContextRef for &Context {}
impl ContextRef for ContextHandle {}
