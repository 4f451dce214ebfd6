//! Ending a node and all below it: nothing new is given, and what they own is destroyed.
//!
//! Children before their parents, newer ones before older: no recursion, no memory, however deep the tree. The place where the walk
//! stands is kept by a reference; contexts that end meanwhile, on this thread or on others, are passed over.

use super::node::LEFT;
use super::{Context, Handle, tree};
use crate::owned::destroy_values;

/// Closes the subtree, and destroys what is owned in it.
pub(super) fn end_subtree(top: &Handle) {
    tree::close(top.node());
    Walk { top, at: None, done: false }.run();
}

struct Walk<'t> {
    top: &'t Handle,
    /// The node whose values are being destroyed; `None` before the first.
    at: Option<Handle>,
    done: bool,
}

impl Walk<'_> {
    fn run(&mut self) {
        while !self.done {
            let mut owner = None;
            if let Some(at) = &self.at {
                destroy_values(at.node(), true);
                // Its parent was its owner: that reference ends below.
                owner = tree::end_of_drain(at.node()).then(|| Handle::from_counted(at.node_ptr()));
                if at == self.top {
                    self.done = true;
                    return;
                }
            }
            let next = tree::next_to_drain(self.top.node_ptr(), self.at.as_ref().map(Handle::node_ptr));
            let done = self.at.replace(Handle::from_counted(next));
            drop((owner, done));
        }
    }
}

impl Drop for Walk<'_> {
    /// After a destructor's panic: the rest is destroyed all the same.
    fn drop(&mut self) {
        self.run();
    }
}

impl Context {
    /// Destroys all that this context owns: contexts left to it, newest first, with all below them, then its values, newest
    /// first. The context stays open. Values that somebody holds stay as well, and contexts that have owners.
    ///
    /// Before [`close_root`](Context::close_root) or [`try_close`](Context::try_close) where values hold handles, blocks or contexts
    /// of the tree: those call them outstanding.
    pub fn clear(&self) {
        Clear(self).run();
    }

    fn claim_newest(&self) -> Option<Context> {
        let _held = self.node().root().tree_lock.lock();
        let child = tree::children(self.node()).find(|child| child.flags() & LEFT != 0)?;
        child.clear_flags(LEFT);
        Some(Self::owning(core::ptr::NonNull::from(child)))
    }
}

struct Clear<'c>(&'c Context);

impl Clear<'_> {
    fn run(&self) {
        while let Some(child) = self.0.claim_newest() {
            drop(child);
        }
        destroy_values(self.0.node(), false);
    }
}

impl Drop for Clear<'_> {
    /// After a destructor's panic, as above.
    fn drop(&mut self) {
        self.run();
    }
}
