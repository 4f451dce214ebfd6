//! Copying the tree: room is made before the lock is taken, never under it.

use super::{Snapshot, SnapshotNode};
use crate::adapters::HostSource;
use crate::collections::TryVec;
use crate::context::{CLOSED, Context, ContextNode, tree};
use crate::error::HostError;

impl<A: HostSource + Clone> Snapshot<A> {
    /// Copies the accounts of `top` and all below it into memory of `allocator`, which may be a context of the same tree.
    ///
    /// The account of `allocator` counts the copy's two blocks while it lives. If `allocator` is `top` or below it, the copied accounts
    /// contain them as well, because they are allocated first. A context outside `top`, or an allocator of no tree, keeps them out.
    ///
    /// [`ContextHandle::snapshot`](crate::ContextHandle::snapshot) is the short form, into memory of `top` itself.
    ///
    /// # Errors
    /// [`HostError`] when `allocator` refuses the room.
    pub fn capture(top: &Context, allocator: A) -> Result<Self, HostError> {
        Self::copy_of(top.node(), allocator, false)
    }

    /// `counted`: the copy's blocks are known to be in the copied accounts.
    pub(crate) fn copy_of(
        top: &ContextNode,
        allocator: A,
        counted: bool,
    ) -> Result<Self, HostError> {
        let mut nodes = TryVec::new_in(allocator.clone());
        let mut labels = TryVec::new_in(allocator);
        loop {
            let (mut count, mut label_bytes) = (0usize, 0usize);
            tree::each(top, |node, _| {
                count = count.saturating_add(1);
                label_bytes = label_bytes.saturating_add(node.label().map_or(0, str::len));
            });
            nodes.try_reserve_exact(count)?;
            labels.try_reserve_exact(label_bytes)?;
            let mut fits = true;
            tree::each(top, |node, depth| {
                fits &= copy(node, depth, &mut nodes, &mut labels)
            });
            if fits {
                return Ok(Self {
                    nodes,
                    labels,
                    counted,
                });
            }
            // The tree grew in between: once more.
            nodes.clear();
            labels.clear();
        }
    }
}

/// Appends one context; false, and nothing appended, where room was not made for it.
fn copy<A: HostSource>(
    node: &ContextNode,
    depth: usize,
    nodes: &mut TryVec<SnapshotNode, A>,
    labels: &mut TryVec<u8, A>,
) -> bool {
    let label = node.label().unwrap_or("");
    let start = labels.len();
    let end = start.saturating_add(label.len());
    if nodes.len() == nodes.capacity() || end > labels.capacity() {
        return false;
    }
    let taken = SnapshotNode {
        id: node.id(),
        parent: node.parent().filter(|_| depth > 0).map(ContextNode::id),
        depth,
        name: node.name,
        scope: node.scope,
        closed: node.flags() & CLOSED != 0,
        usage: tree::node_usage(node),
        gone: tree::gone_usage(node),
        budget: node.budget_usage(),
        label: (start, end),
    };
    labels.try_extend_from_slice(label.as_bytes()).is_ok() && nodes.try_push(taken).is_ok()
}
