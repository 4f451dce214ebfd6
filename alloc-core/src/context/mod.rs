//! Contexts: who owns memory.

mod allocate;
mod allocators;
mod backing;
mod handle;
mod lease;
mod lifecycle;
mod node;
mod options;
mod outstanding;
mod transfer;
pub(crate) mod tree;

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use backing::Backing;
pub use handle::Handle;
pub(crate) use node::{CLOSED, Node, ORPHANED};
pub use options::ContextOptions;
pub use outstanding::{Outstanding, RootRefused};
pub use transfer::ContextRef;
pub(crate) use transfer::transfer;

use crate::account::Usage;
use crate::adapters::Scoped;
use crate::budget::BudgetUsage;
use crate::error::{ContextId, HostError, Misuse};
use crate::host::HostAllocator;
use crate::scope::Scope;
use crate::sync::Ordering;

/// The owner of a node in a tree of contexts that inherit their allocator.
///
/// One owner, move-only; [`Handle`] is its counted companion. `&Context` and `Handle` are [`Allocator`](crate::Allocator)s, so
/// collections account to the context with no byte in front of their blocks. Dropping (or [closing](Context::close)) the owner
/// ends the node: nothing new can be allocated from it or from any context below it; blocks that collections still hold stay
/// valid and charged until they go.
///
/// Thread rules: `Send + Sync`; every operation may be called from any thread.
pub struct Context {
    node: NonNull<Node>,
}

// SAFETY: `Node` is `Sync` and freed by whichever thread drops the last reference.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Makes the root of a tree whose memory all comes from `backing`. The root's own record (and label) is taken from it at
    /// once and counted in the root, in its default scope ([`Scope::Instance`] unless the options say otherwise).
    ///
    /// # Errors
    /// [`HostError::OutOfHostMemory`] (or what else `backing` says) when that record is refused.
    ///
    /// # Safety
    /// `backing` lives, unmoved, until [`close_root`](Context::close_root) has returned `Ok`, or [`abandon`](Context::abandon)
    /// has returned and no call into it is in flight on another thread, or everything of the tree (contexts, handles, blocks)
    /// is gone.
    pub unsafe fn root<A: HostAllocator + Sync>(backing: &A, options: ContextOptions<'_>) -> Result<Self, HostError> {
        // SAFETY: forwarded from this function's contract.
        let node = unsafe { lifecycle::make_root(Backing::of(backing), &options) }?;
        Ok(Self { node })
    }

    /// As [`root`](Context::root), over an allocator that lives for ever.
    ///
    /// # Errors
    /// As [`root`](Context::root).
    pub fn root_static<A: HostAllocator + Sync>(backing: &'static A, options: ContextOptions<'_>) -> Result<Self, HostError> {
        // SAFETY: a static is never gone.
        unsafe { Self::root(backing, options) }
    }

    /// Makes a context below this one, which inherits allocator and scope.
    ///
    /// # Errors
    /// [`HostError::Closed`], [`HostError::OverBudget`] or [`HostError::OutOfHostMemory`]: its record comes from this context.
    pub fn child(&self, name: &'static str) -> Result<Self, HostError> {
        self.child_with(ContextOptions::new(name))
    }

    /// As [`child`](Context::child), with what `options` say.
    ///
    /// # Errors
    /// As [`child`](Context::child).
    pub fn child_with(&self, options: ContextOptions<'_>) -> Result<Self, HostError> {
        // SAFETY: an allocator in the options was promised to live long enough when it was put there.
        let node = unsafe { lifecycle::make_child(self.node(), &options) }?;
        Ok(Self { node })
    }

    /// A counted companion of this context.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::of(self.node)
    }

    /// A block of `layout` in `scope`, with the reason when it is refused. Size 0 is an aligned dangling pointer, uncounted.
    ///
    /// # Errors
    /// [`HostError`]: closed, over budget (whose), out of memory.
    pub fn try_allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, HostError> {
        self.node().allocate(layout, scope).map_err(|_| self.node().refusal(layout, scope))
    }

    /// An [`Allocator`](crate::Allocator) over this context whose requests have `scope` instead of the default one.
    #[must_use]
    pub fn with_scope(&self, scope: Scope) -> Scoped<&Self> {
        Scoped::new(self, scope)
    }

    /// This context's name for as long as the process lives.
    #[must_use]
    pub fn id(&self) -> ContextId {
        self.node().id()
    }

    /// The name it was made with.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.node().name
    }

    /// The label it was made with.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        self.node().label()
    }

    /// The scope of requests that name none.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.node().scope
    }

    /// The context above, `None` for a root. O(1).
    #[must_use]
    pub fn parent_id(&self) -> Option<ContextId> {
        self.node().parent().map(Node::id)
    }

    /// True once the context, or one above it, was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.node().flags() & CLOSED != 0
    }

    /// This context's own account, without those below. O(threads that used it).
    #[must_use]
    pub fn usage(&self) -> Usage {
        tree::node_usage(self.node())
    }

    /// The account of this context and all below, contexts that are gone included in the totals. O(contexts).
    #[must_use]
    pub fn subtree_usage(&self) -> Usage {
        tree::subtree_usage(self.node())
    }

    /// The budget set on this very context.
    #[must_use]
    pub fn budget(&self) -> Option<BudgetUsage> {
        self.node().budget_usage()
    }

    /// Begins a new high-water mark of the budget set on this very context: `high` becomes what is charged now. Answers the
    /// budget as it was, so that a program can tell the peak of each of its phases.
    pub fn restart_high_water(&self) -> Option<BudgetUsage> {
        self.node().restart_high_water()
    }

    /// Ends the node and says what is still held below it. The same as dropping it.
    ///
    /// Blocks that collections hold through handles stay valid and charged; they are given back when those go.
    pub fn close(self) -> Outstanding {
        tree::close(self.node());
        outstanding::of(self.node())
    }

    /// Ends a root and gives all its memory back, if nothing of the tree is left.
    ///
    /// # Errors
    /// [`RootRefused`] gives the root back, still open, with what is outstanding; or says that this is no root.
    pub fn close_root(self) -> Result<(), RootRefused> {
        let outstanding = outstanding::of(self.node());
        if !self.node().is_root() {
            return Err(RootRefused { context: self, outstanding, error: Some(HostError::Misuse(Misuse::NotARoot)) });
        }
        if !outstanding.is_empty() {
            return Err(RootRefused { context: self, outstanding, error: None });
        }
        drop(self);
        Ok(())
    }

    /// Cuts off an allocator that is dead or about to die: this node and all below it that draw on the same one never call it
    /// again. Their memory is left where it is; frees are still counted, not forwarded; allocations answer `Closed`.
    ///
    /// Calls that other threads are in the middle of may still reach the allocator; they must have returned before it dies.
    /// The memory itself must stay readable until all contexts, handles and collections of the tree are gone.
    pub fn abandon(self) -> Outstanding {
        let outstanding = outstanding::of(self.node());
        tree::abandon(self.node());
        outstanding
    }

    #[inline]
    pub(crate) fn node(&self) -> &Node {
        // SAFETY: the owner holds a reference.
        unsafe { self.node.as_ref() }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let node = self.node();
        // With a single reference there is nobody left below or beside who could still allocate.
        if node.references.load(Ordering::Acquire) != 1 {
            tree::close(node);
        }
        node.set_flags(ORPHANED);
        // SAFETY: the owner's reference, used no more.
        unsafe { lifecycle::release(self.node) };
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_node(f, "Context", self.node())
    }
}

fn debug_node(f: &mut fmt::Formatter<'_>, what: &str, node: &Node) -> fmt::Result {
    let total = tree::node_usage(node).total();
    f.debug_struct(what)
        .field("id", &node.id())
        .field("name", &node.name)
        .field("label", &node.label())
        .field("live_bytes", &total.live_bytes)
        .field("live_blocks", &total.live_blocks)
        .finish_non_exhaustive()
}
