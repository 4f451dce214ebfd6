//! Moving whole contexts within their tree: in one step, or not at all.
//!
//! What moves is the links of the moved contexts and what is charged for them: their records, which lie in the parent's memory, and
//! what they and all below them hold. Nothing is copied, no block moves, and nothing is done for each context below, unless
//! limits of another kind apply there: a context that had no budget above it gets one, or leases are of another size.

use core::ptr::NonNull;

use super::node::{BUDGETED, CLOSED, ContextNode, ORPHANED, OWNED_BY_PARENT};
use super::refusal::Shortage;
use super::transfer::apart;
use super::{Context, ContextHandle, create, tree};
use crate::error::{HostError, Misuse};
use crate::rejected::Rejected;
use crate::scope::Scope;
use crate::sync::{AtomicPtr, Held, Ordering};

impl Context {
    /// Moves this context with all that is below it to another parent of the same tree, where it becomes the newest child
    /// (below its present parent it stays where it is). It keeps the allocator and the scope that it was made with.
    ///
    /// Budgets above both parents are not asked: nothing changes for them. Those above the new parent alone are charged with all
    /// that the moved contexts hold; the others get it back, with all totals left where they were. Leases that other threads hold
    /// in the moved contexts move along, so a [`Budget::exact`](crate::Budget::exact) above the new parent may refuse early until
    /// those threads use the contexts or settle.
    ///
    /// O(1) in what moves; O(depth) in the tree; O(contexts moved) where budgets of another size or kind begin to apply.
    ///
    /// # Errors
    /// Nothing was changed. [`Misuse::IsARoot`]; [`Misuse::OtherTree`]; [`Misuse::Cycle`] when `to` is this context or below it;
    /// [`Misuse::OtherBacking`] when the new parent draws on another allocator than the old one, which gave the context's record;
    /// [`HostError::Closed`] for either; [`HostError::OverBudget`]. [`Misuse::InUse`] when there was no budget so far and there is
    /// to be one, while handles or owners of contexts that move are elsewhere: threads could be allocating through them. A parent that
    /// was below a budget once counts as if it still were.
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
            let going = Going {
                old,
                newest: this,
                oldest: this,
                owner_is_here: true,
                values: (0, 0),
            };
            going.to(&held, above)?;
            old
        };
        // SAFETY: the moved context's reference on its old parent, which it has no more.
        unsafe { create::release(old) };
        Ok(())
    }

    /// Leaves the context to its parent, which ends it when it ends itself: a tree can be built without keeping an owner for each of
    /// its contexts. The handle is how it is used from then on; [`ContextHandle::claim`] makes an owner again.
    ///
    /// Where the parent has ended already, so has this context, and the handle is one to an ended context.
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
            // The owner's reference is the parent's now.
            core::mem::forget(self);
        }
        Ok(handle)
    }
}

impl ContextHandle {
    /// Makes an owner of a context that was [left](Context::leave) to its parent.
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

/// The lock of the tree that both are in.
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

/// Siblings that are to move, and values that go with them.
pub(crate) struct Going {
    pub(crate) old: NonNull<ContextNode>,
    pub(crate) newest: NonNull<ContextNode>,
    pub(crate) oldest: NonNull<ContextNode>,
    /// The caller has the owner of the (one) sibling, exclusively.
    pub(crate) owner_is_here: bool,
    /// Bytes and blocks of values, in the old parent's default scope.
    pub(crate) values: (u64, u64),
}

impl Going {
    /// Does something with all children of `from` and values that are to go along, the tree's lock held. False: there are no
    /// children. Where `act` has moved them, what they referred to as their parent is given back.
    pub(crate) fn all_of(
        from: &Context,
        to: &ContextHandle,
        values: (u64, u64),
        act: impl FnOnce(&Self, &Held<'_>, NonNull<ContextNode>) -> Result<(), HostError>,
    ) -> Result<bool, HostError> {
        let (source, old, above) = (from.node(), from.handle.node_ptr(), to.node_ptr());
        let held = source.root().tree_lock.lock();
        let link = |link: &AtomicPtr<ContextNode>| NonNull::new(link.load(Ordering::Relaxed));
        if source.flags() & CLOSED != 0 {
            return Err(HostError::Closed {
                context: source.id(),
            });
        }
        let (Some(newest), Some(oldest)) = (
            link(&source.tree.first_child),
            link(&source.tree.last_child),
        ) else {
            return Ok(false);
        };
        if !core::ptr::eq(source.root(), to.node().root()) {
            return Err(HostError::Misuse(Misuse::OtherTree));
        }
        if is_below(to.node(), source) {
            return Err(HostError::Misuse(Misuse::Cycle));
        }
        let going = Self {
            old,
            newest,
            oldest,
            owner_is_here: false,
            values,
        };
        act(&going, &held, above)?;
        if link(&source.tree.first_child).is_none() {
            for _ in going.siblings() {
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
        // SAFETY: whoever moves contexts refers to both parents.
        let old = unsafe { self.old.as_ref() };
        // SAFETY: as above.
        (old, unsafe { above.as_ref() })
    }

    fn siblings(&self) -> impl Iterator<Item = &ContextNode> {
        let oldest = self.oldest;
        // SAFETY: linked nodes are alive under the tree lock, which whoever uses this holds.
        let first = unsafe { self.newest.as_ref() };
        core::iter::successors(Some(first), move |node| {
            if core::ptr::eq(*node, oldest.as_ptr()) {
                return None;
            }
            // SAFETY: as above.
            unsafe { node.tree.next.load(Ordering::Relaxed).as_ref() }
        })
    }

    /// Whether they may move, but for room in budgets and cycles.
    pub(crate) fn check(
        &self,
        held: &Held<'_>,
        above: NonNull<ContextNode>,
    ) -> Result<(), HostError> {
        let (old, new) = self.parents(&above);
        if new.flags() & CLOSED != 0 {
            return Err(HostError::Closed { context: new.id() });
        }
        if !old.backing.same_as(&new.backing) {
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

    /// Moves them. Cycles have been ruled out. The old parent's references are the caller's to give back, one a sibling, when the
    /// lock is given back.
    pub(crate) fn to(&self, held: &Held<'_>, above: NonNull<ContextNode>) -> Result<(), HostError> {
        self.check(held, above)?;
        let (old, new) = self.parents(&above);
        let settled = self.charge(held, above).or_else(|_| {
            // The room may sit in this thread's own leases.
            new.fold_tree();
            self.charge(held, above)
        });
        settled.map_err(|shortage| shortage.error(held, new))?;
        self.count(old, new);
        // SAFETY: linked nodes are alive, and this tree's lock is held.
        tree::detach(old, unsafe { self.newest.as_ref() }, unsafe {
            self.oldest.as_ref()
        });
        tree::put_first(new, self.newest, self.oldest);
        for child in self.siblings() {
            create::retain(above);
            if child.is_budgeted()
                && child.budget.slice.load(Ordering::Relaxed) != child.due_slice()
            {
                tree::each_under(held, child, |node, _| node.follow_slice());
            }
        }
        Ok(())
    }

    /// Charges all that moves to where it goes, gives back what the moved contexts hold, and lets them look up to their new parent.
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
                child.budget.charged.load(Ordering::Relaxed)
            } else {
                0
            };
            below = below.saturating_add(charged);
            here = here.saturating_add(child.record().0);
        }
        let all = below.saturating_add(here);
        if let Some(shortage) = Shortage::first(apart(new, old), all) {
            return Err(shortage);
        }
        apart(new, old).for_each(|node| node.budget.add(all));
        // Their records and values are given back when they have been counted.
        apart(old, new).for_each(|node| node.budget.subtract(below));
        for child in self.siblings() {
            if begins(&child) {
                tree::post_order(
                    held,
                    child,
                    |node| !node.is_budgeted(),
                    |node| node.set_flags(BUDGETED),
                );
            }
            child.tree.parent.store(above.as_ptr(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Moves what was counted in the old parent: records and values.
    fn count(&self, old: &ContextNode, new: &ContextNode) {
        let mut here = 0u64;
        let mut hand_on = |scope, bytes, blocks| {
            here = here.saturating_add(bytes);
            // In this order nothing is counted twice at any moment.
            old.count_leaving(scope, bytes, blocks);
            new.count_arriving(scope, bytes, blocks);
        };
        for child in self.siblings() {
            let (bytes, blocks) = child.record();
            hand_on(child.home, bytes, blocks);
        }
        if self.values.0 > 0 {
            hand_on(old.scope, self.values.0, self.values.1);
        }
        old.refund_apart(new, here);
    }
}

/// True when nobody but the caller can be using the contexts of the subtree that have no budget so far.
fn is_quiet(held: &Held<'_>, top: &ContextNode, owner_is_here: bool) -> bool {
    let mut quiet = true;
    tree::post_order(
        held,
        top,
        |node| !node.is_budgeted(),
        |node| {
            if !node.is_budgeted() {
                let children = tree::children(node).count();
                let ownerless = node.flags() & ORPHANED != 0;
                let references = children.saturating_add(usize::from(!ownerless));
                let owner_is_known = ownerless
                    || node.flags() & OWNED_BY_PARENT != 0
                    || owner_is_here && core::ptr::eq(node, top);
                // Without any, it is just being ended: its thread counts what it gives back.
                let now = node.references.load(Ordering::Acquire);
                quiet &= owner_is_known && now == references && now != 0;
            }
        },
    );
    quiet
}

/// Writes down for each context of a quiet subtree what it holds itself.
fn weigh(held: &Held<'_>, top: &ContextNode) {
    tree::post_order(
        held,
        top,
        |node| !node.is_budgeted(),
        |node| {
            if !node.is_budgeted() {
                node.evict_entries();
                let live = Scope::ALL.map(|scope| node.folded_usage(scope).live_bytes);
                node.budget.charged.store(
                    live.into_iter().fold(0, u64::saturating_add),
                    Ordering::Relaxed,
                );
            }
        },
    );
}

/// Adds to each context of a weighed subtree what those below it hold. The budget lock is held.
fn sum_up(held: &Held<'_>, top: &ContextNode) {
    tree::post_order(
        held,
        top,
        |node| !node.is_budgeted(),
        |node| {
            if let Some(parent) = node.parent().filter(|_| !core::ptr::eq(node, top)) {
                parent
                    .budget
                    .add(node.budget.charged.load(Ordering::Relaxed));
            }
        },
    );
}
