//! A picture of a tree of contexts at one moment.

mod capture;
mod json;
mod table;

use crate::account::Usage;
use crate::adapters::HostSource;
use crate::budget::BudgetUsage;
use crate::collections::TryVec;
use crate::error::ContextId;
use crate::scope::Scope;

/// A copy of a tree's accounts, in memory of an allocator of the caller's choice.
///
/// Taken in one step for the shape of the tree (its lock is held while it is copied); each account is exact when quiet.
/// [`Display`](core::fmt::Display) draws the tree with a column a scope, in which each row is the sum of its context and all below it;
/// [`write_json`](Snapshot::write_json) writes each context's own account. Both allocate nothing.
pub struct Snapshot<A: HostSource> {
    nodes: TryVec<SnapshotNode, A>,
    labels: TryVec<u8, A>,
    /// Whether its two blocks are known to be in the accounts that it shows.
    counted: bool,
}

/// One context of a [`Snapshot`].
#[derive(Clone, Copy, Debug)]
pub struct SnapshotNode {
    /// Its name for as long as the process lives.
    pub id: ContextId,
    /// The context above; `None` for the snapshot's top.
    pub parent: Option<ContextId>,
    /// How far below the top: 0 for the top itself.
    pub depth: usize,
    /// The name it was made with.
    pub name: &'static str,
    /// The scope of requests that name none.
    pub scope: Scope,
    /// True when nothing can be allocated from it any more; it is still here because something of it is.
    pub closed: bool,
    /// Its own account.
    pub usage: Usage,
    /// What contexts that were below it and are gone took in all; live is what they left behind for good.
    pub gone: Usage,
    /// The budget set on it.
    pub budget: Option<BudgetUsage>,
    label: (usize, usize),
}

impl<A: HostSource> Snapshot<A> {
    /// The bytes of its two blocks.
    fn copy_bytes(&self) -> usize {
        self.nodes
            .capacity()
            .saturating_mul(size_of::<SnapshotNode>())
            .saturating_add(self.labels.capacity())
    }

    /// The contexts, parents before children, older siblings first.
    #[must_use]
    pub fn nodes(&self) -> &[SnapshotNode] {
        self.nodes.as_slice()
    }

    /// The label of a context of this snapshot.
    #[must_use]
    pub fn label(&self, node: &SnapshotNode) -> Option<&str> {
        let bytes = self.labels.as_slice().get(node.label.0..node.label.1)?;
        core::str::from_utf8(bytes)
            .ok()
            .filter(|label| !label.is_empty())
    }

    /// The account of the whole tree, contexts that are gone included.
    #[must_use]
    pub fn total(&self) -> Usage {
        self.nodes().iter().fold(Usage::default(), |sum, node| {
            sum.plus(&node.usage).plus(&node.gone)
        })
    }

    /// The account of the context at `index` of [`nodes`](Snapshot::nodes) and all below it; zeros when there is none.
    #[must_use]
    pub fn subtree(&self, index: usize) -> Usage {
        let Some((top, rest)) = self.nodes().get(index..).and_then(<[_]>::split_first) else {
            return Usage::default();
        };
        let below = rest.iter().take_while(|node| node.depth > top.depth);
        below.fold(top.usage.plus(&top.gone), |sum, node| {
            sum.plus(&node.usage).plus(&node.gone)
        })
    }
}
