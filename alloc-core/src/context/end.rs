//! Ending a node and all below it: closes them and destroys the values that they own.
//!
//! Children are ended before their parents, newer ones before older, without recursion or allocation at any depth. A reference keeps the
//! node that the walk has reached; contexts that other calls or threads end meanwhile are skipped.

use core::fmt;

use super::{
    CLOSED, Context, ContextHandle, ContextNode, DRAINED, ORPHANED, OWNED_BY_PARENT, tree,
};
use crate::error::{ContextId, Misuse};
use crate::owned::{Marker, PlacedMarker, bytes_freed_with, end_values};
use crate::sync::{Held, Ordering, Relaxed as _};

/// Closes the subtree and destroys the values owned in it.
pub(super) fn end_subtree(top: &ContextHandle) {
    tree::close(top.node());
    Walk {
        top,
        at: None,
        done: false,
    }
    .run();
}

struct Walk<'t> {
    top: &'t ContextHandle,
    /// The node whose values are being destroyed; `None` before the first.
    at: Option<ContextHandle>,
    done: bool,
}

impl Walk<'_> {
    fn run(&mut self) {
        while !self.done {
            let mut owner = None;
            if let Some(at) = &self.at {
                end_values(at.node());
                // The parent owned this node: its reference is released below.
                owner = tree::end_of_drain(at.node())
                    .then(|| ContextHandle::from_counted(at.node_ptr()));
                if at == self.top {
                    self.done = true;
                    return;
                }
            }
            let next = tree::next_to_drain(
                self.top.node_ptr(),
                self.at.as_ref().map(ContextHandle::node_ptr),
            );
            let done = self.at.replace(ContextHandle::from_counted(next));
            drop((owner, done));
        }
    }
}

impl Drop for Walk<'_> {
    /// Destroys the rest after a destructor's panic.
    fn drop(&mut self) {
        self.run();
    }
}

impl Context {
    /// Destroys what this context owns when the call begins: contexts left to it, newest first, with all below them, then its values,
    /// newest first. The context stays open. Held values and contexts with owners stay. So does everything that destructors or other
    /// threads add during the call, which therefore always returns.
    ///
    /// Call it before [`close_root`](Context::close_root) or [`try_close`](Context::try_close) when values hold handles, blocks or
    /// contexts of the tree, which those functions count as outstanding.
    pub fn clear(&self) {
        let marker = Marker::new();
        Clear {
            context: self,
            values: marker.mark(self.node()),
            next_id: ContextNode::next_id(),
        }
        .run();
    }

    /// Returns an owner of the newest context left to this one, among those with an id below `next_id`.
    fn claim_newest_before(&self, next_id: ContextId) -> Option<Context> {
        let _held = self.node().root().tree_lock.lock();
        let newest = self.node().tree.children.newest.get();
        let child = tree::find_sibling(newest, |child| {
            child.flags() & OWNED_BY_PARENT != 0 && child.id() < next_id
        })?;
        // SAFETY: linked nodes are alive under the tree's lock.
        unsafe { child.as_ref() }.clear_flags(OWNED_BY_PARENT);
        Some(Self::owning(child))
    }
}

struct Clear<'c> {
    context: &'c Context,
    values: PlacedMarker<'c>,
    next_id: ContextId,
}

impl Clear<'_> {
    fn run(&self) {
        while let Some(child) = self.context.claim_newest_before(self.next_id) {
            drop(child);
        }
        self.values.destroy_older();
    }
}

impl Drop for Clear<'_> {
    /// Clears the rest after a destructor's panic.
    fn drop(&mut self) {
        self.run();
    }
}

/// Blocks, contexts and handles that are still alive in a context and those below it. A [`Snapshot`](crate::Snapshot) has the names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outstanding {
    /// Bytes of live blocks, without those that are freed with their context: records, owned values and their tables.
    pub bytes: u64,
    /// The number of those blocks.
    pub blocks: u64,
    /// Bytes of foreign memory that are still declared ([`Foreign`](crate::Foreign)), of all kinds; not in `bytes`.
    pub foreign_bytes: u64,
    /// Contexts below that still exist, without those [left](crate::Context::leave) to their parents.
    pub contexts: u64,
    /// Handles to this context and those below.
    pub handles: u64,
}

impl Outstanding {
    /// True when nothing is outstanding.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        !self.needs_backing() && self.foreign_bytes == 0
    }

    /// True if anything outstanding needs the backing allocator. Foreign memory does not: a driver that omits `pfnInternalFree` must not
    /// prevent a root from closing.
    #[must_use]
    pub const fn needs_backing(&self) -> bool {
        self.bytes != 0 || self.blocks != 0 || self.contexts != 0 || self.handles != 0
    }
}

impl fmt::Display for Outstanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = |count| if count == 1 { "" } else { "s" };
        let Self {
            bytes,
            blocks,
            contexts,
            handles,
            ..
        } = *self;
        write!(
            f,
            "{bytes} byte{} in {blocks} block{}, ",
            s(bytes),
            s(blocks)
        )?;
        write!(
            f,
            "{contexts} context{}, {handles} handle{} outstanding",
            s(contexts),
            s(handles)
        )?;
        if self.foreign_bytes > 0 {
            write!(
                f,
                ", and {} bytes taken elsewhere still declared",
                self.foreign_bytes
            )?;
        }
        Ok(())
    }
}

/// Why a context was not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseError {
    /// Blocks, contexts or handles of the tree are outstanding.
    Outstanding(Outstanding),
    /// [`Misuse::NotARoot`].
    Misuse(Misuse),
}

impl CloseError {
    /// The outstanding blocks, contexts and handles; empty if another error prevented closing.
    #[must_use]
    pub fn outstanding(self) -> Outstanding {
        match self {
            Self::Outstanding(outstanding) => outstanding,
            Self::Misuse(_) => Outstanding::default(),
        }
    }
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outstanding(outstanding) => write!(
                f,
                "{outstanding}: free them and close again, or abandon the root"
            ),
            Self::Misuse(rule) => rule.fmt(f),
        }
    }
}

impl core::error::Error for CloseError {}

/// As [`outstanding`]. If nothing outstanding needs the backing allocator, also closes the subtree under the same lock, so that a thread that ends
/// an ancestor skips the subtree.
pub(super) fn seal(top: &ContextNode) -> Outstanding {
    let held = top.root().tree_lock.lock();
    let outstanding = under(&held, top);
    if !outstanding.needs_backing() {
        tree::each_under(&held, top, |node, _| node.set_flags(CLOSED));
        top.set_flags(DRAINED);
    }
    outstanding
}

pub(super) fn outstanding(top: &ContextNode) -> Outstanding {
    under(&top.root().tree_lock.lock(), top)
}

fn under(held: &Held<'_>, top: &ContextNode) -> Outstanding {
    let mut left = Outstanding::default();
    // References that are not handles: owners, and each context's reference on its parent.
    let (mut references, mut others) = (0u64, 0u64);
    // Blocks that are freed with their contexts: records, owned values and their tables.
    let (mut bytes, mut blocks) = (0u64, 0u64);
    let mut subtract = |gone: (u64, u64)| {
        bytes = bytes.saturating_add(gone.0);
        blocks = blocks.saturating_add(gone.1);
    };
    tree::each_under(held, top, |node, depth| {
        // Reads references before accounts: if a thread leaks a block and then drops its handle, at least one of the two is counted.
        references = references.saturating_add(node.references.load(Ordering::Acquire) as u64);
        let own = tree::node_usage(node).plus(&tree::gone_usage(node));
        let routed = own.total();
        left.bytes = left.bytes.saturating_add(routed.live_bytes);
        left.blocks = left.blocks.saturating_add(routed.live_blocks);
        left.foreign_bytes = left
            .foreign_bytes
            .saturating_add(own.foreign_total().live_bytes);
        others = others.saturating_add(u64::from(node.flags() & ORPHANED == 0));
        if depth > 0 {
            // A context that was left to its parent ends with the parent.
            left.contexts = left
                .contexts
                .saturating_add(u64::from(node.flags() & OWNED_BY_PARENT == 0));
            others = others.saturating_add(1);
        }
        subtract(bytes_freed_with(node));
        // The subtree's accounts include the records of the contexts below. They include the top's own record only if the top is a root.
        if depth > 0 || node.is_root() {
            subtract(node.record());
        }
    });
    left.bytes = left.bytes.saturating_sub(bytes);
    left.blocks = left.blocks.saturating_sub(blocks);
    left.handles = references.saturating_sub(others);
    left
}
