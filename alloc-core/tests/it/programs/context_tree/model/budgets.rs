//! What budgets must allow, and what a refusal must say.

use alloc_core::{ContextId, HostError};

use super::{Tree, TreeNode};

impl Tree<'_> {
    /// Whether there is room for `bytes` more in context `at`: it is open, and every budget above has as much. On the
    /// program's own thread they must be had then: it gives its leases back before it is refused, and other threads
    /// hold none, for those that a program starts have ended. On one of those they may be refused early, see
    /// [`Tree::check_early_refusal`].
    pub(in crate::programs::context_tree) fn fits(&self, at: usize, bytes: u64) -> bool {
        self.lacking(at, bytes).is_none() && !self.nodes[&at].closed
    }

    /// The first budget from `at` up that has no room for `bytes` more.
    fn lacking(&self, at: usize, bytes: u64) -> Option<usize> {
        std::iter::successors(Some(at), |at| self.nodes[at].parent)
            .find(|at| self.nodes[at].limit.is_some_and(|limit| self.live_below(*at) + bytes > limit.bytes))
    }

    pub(super) fn live_below(&self, at: usize) -> u64 {
        self.subtree(at).iter().map(|at| self.nodes[at].live()).sum()
    }

    /// Context `at` refused `bytes` that do not fit: it is closed, or the budget that was short says by how much. On
    /// another thread than the program's, which may hold leases, a budget further down may have been short before.
    pub(in crate::programs::context_tree) fn check_reason(
        &self,
        at: usize,
        bytes: u64,
        elsewhere: bool,
        error: HostError,
    ) {
        if self.nodes[&at].closed {
            return assert_eq!(error, HostError::Closed { context: self.nodes[&at].id });
        }
        let HostError::OverBudget { context, short_by, leased_elsewhere } = error else {
            panic!("{bytes} bytes from context {at}: {error}")
        };
        let named = self.budget_above(at, context);
        if !elsewhere {
            assert_eq!(
                (Some(named), leased_elsewhere),
                (self.lacking(at, bytes), 0),
                "{bytes} bytes from context {at}: {error}"
            );
        }
        let limit = self.nodes[&named].limit.map_or(0, |limit| limit.bytes);
        assert_eq!(
            limit + short_by,
            self.live_below(named) + leased_elsewhere + bytes,
            "{bytes} bytes from context {at}: {error}"
        );
    }

    /// Context `at` refused `bytes` on a thread that the program started, although they fit: early, by what the
    /// program's own thread holds leased and is not using. That is at most a slice for each context and scope below the
    /// budget that was ever used; an exact one leases none.
    pub(in crate::programs::context_tree) fn check_early_refusal(&self, at: usize, bytes: u64, error: HostError) {
        self.check_reason(at, bytes, true, error);
        let HostError::OverBudget { context, short_by, leased_elsewhere } = error else { unreachable!("checked") };
        let named = self.budget_above(at, context);
        let limit = self.nodes[&named].limit.filter(|limit| !limit.exact);
        let slice = limit.map_or(0, |limit| (limit.bytes / 256).min(64 << 10));
        let used = |node: &TreeNode| node.counts.iter().filter(|counts| counts.total_blocks > 0).count() as u64;
        let entries: u64 = self.subtree(named).iter().map(|at| used(&self.nodes[at])).sum();
        let bound = slice * entries;
        assert!(
            short_by <= leased_elsewhere && leased_elsewhere <= bound,
            "at most {bound} bytes can be leased: {error}"
        );
    }

    /// The context of this id, `at` or above it, that has a budget.
    fn budget_above(&self, at: usize, id: ContextId) -> usize {
        let named = std::iter::successors(Some(at), |at| self.nodes[at].parent).find(|at| self.nodes[at].id == id);
        named
            .filter(|at| self.nodes[at].limit.is_some())
            .unwrap_or_else(|| panic!("no budget of {id} above context {at}"))
    }
}
