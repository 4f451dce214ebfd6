use super::budget_charge::{has_room, with_leases};
use super::node::{CLOSED, ContextNode};
use crate::account::{Counts, FOLD_MAX};
use crate::error::{HostError, Misuse};
use crate::scope::Scope;
use crate::sync::Held;
use crate::threads::fold_thread;

/// The memory belongs to the default scope of `from`.
pub(crate) fn check_transfer(from: &ContextNode, to: &ContextNode) -> Result<(), HostError> {
    if core::ptr::eq(from, to) {
        return Err(HostError::Misuse(Misuse::SameContext));
    }
    if !from.shares_backing(to) {
        return Err(HostError::Misuse(Misuse::OtherBacking));
    }
    if from.scope != to.scope {
        return Err(HostError::Misuse(Misuse::OtherScope));
    }
    if to.flags() & CLOSED != 0 {
        return Err(HostError::Closed { context: to.id() });
    }
    Ok(())
}

/// The blocks are in `from`'s default scope; `to` frees them from then on, in the same scope. A refusal changes
/// nothing.
pub(crate) fn transfer(from: &ContextNode, to: &ContextNode, blocks: u64, bytes: u64) -> Result<(), HostError> {
    if core::ptr::eq(from, to) || bytes == 0 {
        return Ok(());
    }
    check_transfer(from, to)?;
    if !to.is_budgeted() && !from.is_budgeted() {
        from.count_leaving(from.scope, bytes, blocks);
        to.count_arriving(to.scope, bytes, blocks);
        return Ok(());
    }
    // Under the tree lock the common budgets stay the same.
    let held = to.root().tree_lock.lock();
    to.charge_unshared(&held, from, bytes)?;
    from.count_leaving(from.scope, bytes, blocks);
    to.count_arriving(to.scope, bytes, blocks);
    from.refund_unshared(to, bytes);
    Ok(())
}

pub(crate) fn check_room(from: &ContextNode, to: &ContextNode, bytes: u64) -> Result<(), HostError> {
    if to.is_budgeted() {
        let held = to.root().tree_lock.lock();
        to.charge_unshared(&held, from, bytes)?;
        to.refund_unshared(from, bytes);
    }
    Ok(())
}

/// The nodes from `node` up that are not above `other`. The budget lock is held.
pub(super) fn unshared_budgets<'n>(
    node: &'n ContextNode,
    other: &ContextNode,
) -> impl Iterator<Item = &'n ContextNode> + use<'n> {
    let same_tree = core::ptr::eq(node.root(), other.root());
    let (here, there) = (node.charged().count(), if same_tree { other.charged().count() } else { 0 });
    let mine = node.charged().skip(here.saturating_sub(there));
    let theirs = other.charged().skip(there.saturating_sub(here));
    let common = mine
        .zip(theirs)
        .find(|(mine, theirs)| core::ptr::eq(*mine, *theirs))
        .map(|(common, _)| core::ptr::from_ref(common));
    node.charged().take_while(move |at| common != Some(core::ptr::from_ref(*at)))
}

impl ContextNode {
    fn charge_unshared(&self, held: &Held<'_>, other: &ContextNode, bytes: u64) -> Result<(), HostError> {
        let charge = || {
            let _held = self.root().budget_lock.lock();
            has_room(unshared_budgets(self, other), bytes)?;
            unshared_budgets(self, other).for_each(|node| node.budget.add(bytes));
            Ok(())
        };
        let charged = charge().or_else(|_| {
            // This thread's own leases may hold the missing bytes.
            fold_thread();
            charge()
        });
        charged.map_err(|error| with_leases(error, held, self))
    }

    /// The tree lock is held.
    pub(super) fn refund_unshared(&self, other: &ContextNode, bytes: u64) {
        let _held = self.root().budget_lock.lock();
        unshared_budgets(self, other).for_each(|node| node.budget.subtract(bytes));
    }

    /// The caller refunds the blocks' charge.
    pub(super) fn count_leaving(&self, scope: Scope, bytes: u64, blocks: u64) {
        if !self.is_budgeted() {
            return self.count_free(scope, bytes, blocks);
        }
        self.with_opened_entry(scope, |entry| {
            let Some(entry) = entry else {
                let counts = Counts { free_bytes: bytes, free_blocks: blocks, ..Counts::default() };
                return self.count_directly(scope, &counts);
            };
            // The bytes leave the lease with the blocks.
            entry.set_ceiling(entry.ceiling().saturating_sub_unsigned(bytes));
            if entry.record_free(bytes, blocks) < -FOLD_MAX {
                self.fold(scope, entry);
            }
        });
    }

    /// The budgets have already been charged.
    pub(super) fn count_arriving(&self, scope: Scope, bytes: u64, blocks: u64) {
        if self.is_budgeted() {
            self.conclude(scope, bytes, blocks, true);
        } else {
            self.count_allocation(scope, bytes, blocks);
        }
    }
}
