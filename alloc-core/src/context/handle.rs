//! The counted companion of a context, and what every user of a context can do.

use core::alloc::Layout;
use core::ffi::c_void;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use super::{CLOSED, Context, ContextNode, ContextOptions, create, debug_node, tree};
use crate::account::Usage;
use crate::adapters::Scoped;
use crate::budget::BudgetUsage;
use crate::error::{ContextId, HostError};
use crate::scope::Scope;
use crate::snapshot::Snapshot;

/// Refers to a context without owning it: what a collection, a thread or a job stores that outlives a borrow.
///
/// 8 bytes, with a niche. Never keeps a context's [values](ContextHandle::own) alive, and cannot end it; keeps its record, so a block can always be
/// given back. Equal when they refer to the same context. Cloning and dropping cost a shared atomic each, which threads
/// contend for: hot code inside one owner takes `&Context`.
pub struct ContextHandle {
    node: NonNull<ContextNode>,
}

// SAFETY: `ContextNode` is `Sync` and freed by whichever thread drops the last reference.
unsafe impl Send for ContextHandle {}
// SAFETY: as above.
unsafe impl Sync for ContextHandle {}

impl ContextHandle {
    /// Makes a context below this one, which inherits allocator and scope.
    ///
    /// # Errors
    /// [`HostError::Closed`], [`HostError::OverBudget`] or [`HostError::OutOfHostMemory`]: its record comes from this context.
    pub fn child(&self, name: &'static str) -> Result<Context, HostError> {
        self.child_with(ContextOptions::new(name))
    }

    /// As [`child`](ContextHandle::child), with what `options` say.
    ///
    /// A context of this very tree as the child's own allocator is legal and counts every byte twice: in the child, and in the
    /// context that it draws on.
    ///
    /// # Errors
    /// As [`child`](ContextHandle::child).
    pub fn child_with(&self, options: ContextOptions<'_>) -> Result<Context, HostError> {
        // SAFETY: an allocator in the options was promised to live long enough when it was put there.
        let node = unsafe { create::make_child(self.node, &options) }?;
        Ok(Context::owning(node))
    }

    /// A block of `layout` in `scope`, with the reason when it is refused. Size 0 is an aligned dangling pointer, uncounted.
    ///
    /// # Errors
    /// [`HostError`]: closed, over budget (whose), out of memory.
    pub fn try_allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, HostError> {
        self.node()
            .allocate(layout, scope)
            .map_err(|_| self.node().refusal(layout, scope))
    }

    /// Gives back what [`try_allocate`](ContextHandle::try_allocate) gave. Cannot fail, takes no memory.
    ///
    /// # Safety
    /// `block` is a live block of this context, of this `layout` and `scope`.
    pub unsafe fn free(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: forwarded.
        unsafe { self.node().deallocate(block, layout, scope) }
    }

    /// An [`Allocator`](crate::Allocator) over this context whose requests have `scope` instead of the default one.
    #[must_use]
    pub fn with_scope(&self, scope: Scope) -> Scoped<&Self> {
        Scoped::new(self, scope)
    }

    /// The context's name for as long as the process lives.
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
    pub fn parent(&self) -> Option<ContextHandle> {
        let _held = self.node().root().tree_lock.lock();
        self.node().parent_ptr().map(|parent| Self {
            node: create::retain(parent),
        })
    }

    /// The id of the context above, `None` for a root. O(1).
    #[must_use]
    pub fn parent_id(&self) -> Option<ContextId> {
        let _held = self.node().root().tree_lock.lock();
        self.node().parent().map(ContextNode::id)
    }

    /// True once the context, or one above it, was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.node().flags() & CLOSED != 0
    }

    /// The context's own account, without those below; still answers after it was closed. O(threads that used it).
    #[must_use]
    pub fn usage(&self) -> Usage {
        tree::node_usage(self.node())
    }

    /// As [`ContextHandle::usage`], for who must not wait: `None` where another thread is reading or folding at this moment.
    #[must_use]
    pub fn try_usage(&self) -> Option<Usage> {
        tree::try_node_usage(self.node())
    }

    /// The account of this context and all below, contexts that are gone included in the totals. O(contexts), under the tree's
    /// lock: nobody makes or ends a context of the tree meanwhile.
    #[must_use]
    pub fn subtree_usage(&self) -> Usage {
        tree::subtree_usage(self.node())
    }

    /// The accounts of this context and all below, to print or to write as JSON. The copy lies in memory of this context, so it is in its
    /// account while it lives, and the printed total says with how many bytes. [`Snapshot::capture`] takes another allocator.
    ///
    /// # Errors
    /// As of every allocation from this context.
    pub fn snapshot(&self) -> Result<Snapshot<&Self>, HostError> {
        Snapshot::copy_of(self.node(), self, true)
    }

    /// The budget set on this very context.
    #[must_use]
    pub fn budget(&self) -> Option<BudgetUsage> {
        self.node().budget_usage()
    }

    /// [`BudgetUsage::high`] alone, for who must not wait: it may lack what another thread is charging at this moment.
    #[must_use]
    pub fn budget_high_water(&self) -> Option<u64> {
        self.node().budget_high_water()
    }

    /// Changes the limit of the budget set on this very context, up or down. O(contexts below).
    ///
    /// # Errors
    /// [`Misuse::NoBudget`](crate::Misuse::NoBudget) when it was made without one; [`HostError::OverBudget`] when more is charged
    /// already. The limit is as before.
    pub fn set_limit(&self, bytes: u64) -> Result<(), HostError> {
        self.node().set_limit(bytes)
    }

    /// Begins a new high-water mark of the budget set on this very context: `high` becomes what is charged now. Answers the
    /// budget as it was, so that a program can tell the peak of each of its phases.
    pub fn restart_high_water(&self) -> Option<BudgetUsage> {
        self.node().restart_high_water()
    }

    /// The reference as an address, for C. [`from_raw`](Self::from_raw) takes it back.
    #[must_use]
    pub fn into_raw(self) -> NonNull<c_void> {
        ManuallyDrop::new(self).node.cast()
    }

    /// The reference that [`into_raw`](Self::into_raw) made an address of.
    ///
    /// # Safety
    /// It was, and of all that is made of the address one at most is dropped.
    #[must_use]
    pub unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        Self::from_counted(raw.cast())
    }

    /// Takes over a reference that was counted already.
    pub(super) fn from_counted(node: NonNull<ContextNode>) -> Self {
        Self { node }
    }

    pub(super) const fn node_ptr(&self) -> NonNull<ContextNode> {
        self.node
    }

    #[inline]
    pub(crate) fn node(&self) -> &ContextNode {
        // SAFETY: the handle holds a reference.
        unsafe { self.node.as_ref() }
    }
}

impl Clone for ContextHandle {
    fn clone(&self) -> Self {
        Self {
            node: create::retain(self.node),
        }
    }
}

impl Drop for ContextHandle {
    fn drop(&mut self) {
        // SAFETY: the handle's own reference, used no more.
        unsafe { create::release(self.node) };
    }
}

impl From<&Context> for ContextHandle {
    fn from(context: &Context) -> Self {
        context.handle()
    }
}

impl PartialEq for ContextHandle {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
    }
}

impl Eq for ContextHandle {}

impl Hash for ContextHandle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Debug for ContextHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_node(f, "Handle", self.node())
    }
}
