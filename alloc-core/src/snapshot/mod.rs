//! A copy of the accounts of a tree of contexts.

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
/// The tree's lock is held during the copy, so that its shape is consistent; each account is exact when quiet.
/// [`Display`](core::fmt::Display) draws the tree with a column for each scope, in which each row is the sum of its context and all below;
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
    /// The context's id.
    pub id: ContextId,
    /// The context above; `None` for the snapshot's top.
    pub parent: Option<ContextId>,
    /// The depth below the top: 0 for the top itself.
    pub depth: usize,
    /// The name given at creation.
    pub name: &'static str,
    /// The scope of requests that name none.
    pub scope: Scope,
    /// True when the context is closed; its record stays until the last block, handle and child are gone.
    pub closed: bool,
    /// Its own account.
    pub usage: Usage,
    /// The sums of ended contexts below it; their live bytes and blocks are lost.
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

    /// The account of the whole tree, ended contexts included.
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
