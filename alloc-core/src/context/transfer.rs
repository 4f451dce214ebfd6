//! Moving what blocks are charged to, without touching the blocks.

use super::node::{CLOSED, ContextNode};
use super::refusal::Shortage;
use super::{Context, ContextHandle};
use crate::account::{Counts, FOLD_MAX};
use crate::adapters::HostSource;
use crate::error::{HostError, Misuse};
use crate::scope::Scope;
use crate::sync::Held;
use crate::threads::with_table;

/// A context by reference or by handle: what memory can be charged to. Implemented for `&Context` and [`ContextHandle`] only.
pub trait ContextRef: HostSource + sealed::Sealed {}

pub(crate) mod sealed {
    use super::{Context, ContextHandle, ContextNode};

    /// Access to the node; not for others to implement.
    pub trait Sealed {
        #[doc(hidden)]
        fn sealed_node(&self) -> NodeRef<'_>;
    }

    /// Opaque outside of this crate.
    #[derive(Clone, Copy)]
    pub struct NodeRef<'a>(pub(crate) &'a ContextNode);

    impl Sealed for &Context {
        fn sealed_node(&self) -> NodeRef<'_> {
            NodeRef(self.node())
        }
    }
    impl Sealed for ContextHandle {
        fn sealed_node(&self) -> NodeRef<'_> {
            NodeRef(self.node())
        }
    }
}

impl ContextRef for &Context {}
impl ContextRef for ContextHandle {}

/// What must hold for memory of one context's default scope to become another's.
///
/// # Errors
/// [`Misuse::SameContext`], [`Misuse::OtherBacking`], [`Misuse::OtherScope`], [`HostError::Closed`].
pub(crate) fn check_transfer(from: &ContextNode, to: &ContextNode) -> Result<(), HostError> {
    if core::ptr::eq(from, to) {
        return Err(HostError::Misuse(Misuse::SameContext));
    }
    if !from.backing.same_as(&to.backing) {
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

/// Charges `blocks` blocks of `bytes` bytes in all, taken from `from` in its default scope, to `to`. From then on they are given
/// back through `to`, in the same scope. Budgets above both are not asked: nothing changes for them.
///
/// # Errors
/// Nothing was changed: as [`check_transfer`], but for one context and itself, where there is nothing to do;
/// [`HostError::OverBudget`].
pub(crate) fn transfer(
    from: &ContextNode,
    to: &ContextNode,
    blocks: u64,
    bytes: u64,
) -> Result<(), HostError> {
    if core::ptr::eq(from, to) || bytes == 0 {
        return Ok(());
    }
    check_transfer(from, to)?;
    if !to.is_budgeted() && !from.is_budgeted() {
        from.count_leaving(from.scope, bytes, blocks);
        to.count_arriving(to.scope, bytes, blocks);
        return Ok(());
    }
    // Nobody moves a context meanwhile: what is above both stays above both.
    let held = to.root().tree_lock.lock();
    to.charge_apart(&held, from, bytes)?;
    from.count_leaving(from.scope, bytes, blocks);
    to.count_arriving(to.scope, bytes, blocks);
    from.refund_apart(to, bytes);
    Ok(())
}

/// Whether budgets above `to` and not above `from` have room for `bytes`.
///
/// # Errors
/// [`HostError::OverBudget`].
pub(crate) fn check_room(
    from: &ContextNode,
    to: &ContextNode,
    bytes: u64,
) -> Result<(), HostError> {
    if to.is_budgeted() {
        let held = to.root().tree_lock.lock();
        to.charge_apart(&held, from, bytes)?;
        to.refund_apart(from, bytes);
    }
    Ok(())
}

/// The charged nodes from `node` up that are not above `other`. The budget lock is held.
pub(super) fn apart<'n>(
    node: &'n ContextNode,
    other: &ContextNode,
) -> impl Iterator<Item = &'n ContextNode> + use<'n> {
    let same_tree = core::ptr::eq(node.root(), other.root());
    let (here, there) = (
        node.charged().count(),
        if same_tree {
            other.charged().count()
        } else {
            0
        },
    );
    let mine = node.charged().skip(here.saturating_sub(there));
    let theirs = other.charged().skip(there.saturating_sub(here));
    let common = mine
        .zip(theirs)
        .find(|(mine, theirs)| core::ptr::eq(*mine, *theirs))
        .map(|(common, _)| core::ptr::from_ref(common));
    node.charged()
        .take_while(move |at| common != Some(core::ptr::from_ref(*at)))
}

impl ContextNode {
    /// Charges `bytes` to every budget from here up that is not above `other` as well. All or nothing.
    fn charge_apart(
        &self,
        held: &Held<'_>,
        other: &ContextNode,
        bytes: u64,
    ) -> Result<(), HostError> {
        let charge = || {
            let _held = self.root().budget_lock.lock();
            if let Some(shortage) = Shortage::first(apart(self, other), bytes) {
                return Err(shortage);
            }
            apart(self, other).for_each(|node| node.budget.add(bytes));
            Ok(())
        };
        let charged = charge().or_else(|_| {
            // The room may sit in this thread's own leases.
            self.fold_tree();
            charge()
        });
        charged.map_err(|shortage| shortage.error(held, self))
    }

    /// Gives back what every budget from here up that is not above `other` was charged. The tree lock is held.
    pub(super) fn refund_apart(&self, other: &ContextNode, bytes: u64) {
        let _held = self.root().budget_lock.lock();
        apart(self, other).for_each(|node| node.budget.subtract(bytes));
    }

    /// Gives back the calling thread's leases of the tree.
    pub(super) fn fold_tree(&self) {
        with_table(|table| {
            if let Some(table) = table {
                table.fold_tree(self.root());
            }
        });
    }

    /// Counts blocks that become another context's. What is charged for them is the caller's to refund.
    pub(super) fn count_leaving(&self, scope: Scope, bytes: u64, blocks: u64) {
        if !self.is_budgeted() {
            return self.count_free(scope, bytes, blocks);
        }
        with_table(|table| {
            let entry = table.and_then(|table| {
                table
                    .find(self.slot(scope), self.tag(scope))
                    .or_else(|| table.open(self, scope))
            });
            let Some(entry) = entry else {
                let counts = Counts {
                    free_bytes: bytes,
                    free_blocks: blocks,
                    ..Counts::default()
                };
                return self.count_directly(scope, &counts);
            };
            // No lease: the room goes with the blocks.
            entry.set_ceiling(entry.ceiling().saturating_sub_unsigned(bytes));
            if entry.record_free(bytes, blocks) < -FOLD_MAX {
                self.fold(scope, entry);
            }
        });
    }

    /// Counts blocks that were another context's. Where there is a budget they have been charged.
    pub(super) fn count_arriving(&self, scope: Scope, bytes: u64, blocks: u64) {
        if self.is_budgeted() {
            self.conclude(scope, bytes, blocks, true);
        } else {
            self.count_allocation(scope, bytes, blocks);
        }
    }
}
