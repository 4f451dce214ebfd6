//! The counted companion of a context.

use core::fmt;
use core::ptr::NonNull;

use super::{Context, Node, debug_node, lifecycle, tree};
use crate::account::Usage;
use crate::error::ContextId;
use crate::scope::Scope;

/// Refers to a context without owning it: what a collection stores that outlives a borrow.
///
/// 8 bytes, with a niche. Never keeps a context's values alive, and cannot end it; keeps its record, so a block can always be
/// given back. Cloning and dropping cost a shared atomic each (13 ns, 60 when two threads do it at once): hot code inside one
/// owner takes `&Context`.
pub struct Handle {
    node: NonNull<Node>,
}

// SAFETY: `Node` is `Sync` and freed by whichever thread drops the last reference.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    pub(super) fn of(node: NonNull<Node>) -> Self {
        Self { node: lifecycle::retain(node) }
    }

    /// The context's name for as long as the process lives.
    #[must_use]
    pub fn id(&self) -> ContextId {
        self.node().id()
    }

    /// The name the context was made with.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.node().name
    }

    /// The scope of requests that name none.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.node().scope
    }

    /// True once the context, or one above it, was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.node().flags() & super::CLOSED != 0
    }

    /// The context's own account; still answers after the context was closed.
    #[must_use]
    pub fn usage(&self) -> Usage {
        tree::node_usage(self.node())
    }

    #[inline]
    pub(crate) fn node(&self) -> &Node {
        // SAFETY: the handle holds a reference.
        unsafe { self.node.as_ref() }
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::of(self.node)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle's own reference, used no more.
        unsafe { lifecycle::release(self.node) };
    }
}

impl From<&Context> for Handle {
    fn from(context: &Context) -> Self {
        context.handle()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_node(f, "Handle", self.node())
    }
}
