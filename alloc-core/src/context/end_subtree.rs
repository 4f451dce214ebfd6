//! Ending a node and all below it: closes them and destroys the values that they own.
//!
//! Children are ended before their parents, newer ones before older, without recursion or allocation at any depth. A reference keeps the
//! node that the walk has reached; contexts that other calls or threads end meanwhile are skipped.

use super::node::{ContextNode, OWNED_BY_PARENT};
use super::{Context, ContextHandle, tree};
use crate::error::ContextId;
use crate::owned::{Marker, PlacedMarker, end_values};
use crate::sync::Relaxed as _;

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
        let newest = self.node().tree.first_child.get();
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
