use core::alloc::Layout;
use core::ffi::c_void;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::{CLOSED, Context, ContextNode, ContextOptions, create, debug_node, node, tree};
use crate::account::{Usage, try_read_row};
use crate::budget::BudgetUsage;
use crate::error::{ContextId, HostError};
use crate::scope::Scope;
use crate::snapshot::Snapshot;
use crate::threads::ThreadTable;

/// A counted reference to a context, for collections, threads and jobs that outlive a borrow.
///
/// It cannot end the context; it keeps the record, so that a block can always be freed, but not the context's
/// [values](ContextHandle::own). Handles are equal when they refer to the same context. Cloning and dropping cost one
/// shared atomic each: hot code inside one owner uses `&Context`.
pub struct ContextHandle {
    node: NonNull<ContextNode>,
}

// SAFETY: `ContextNode` is `Sync`, and whichever thread drops the last reference frees it.
unsafe impl Send for ContextHandle {}
// SAFETY: gives out `&ContextNode`, which is `Sync`.
unsafe impl Sync for ContextHandle {}

impl ContextHandle {
    /// Creates a context below this one, with its allocator and scope.
    ///
    /// # Errors
    /// [`HostError::Closed`], [`HostError::OverBudget`] or [`HostError::OutOfHostMemory`]: the child's record comes
    /// from this context.
    pub fn child(&self, name: &'static str) -> Result<Context, HostError> {
        self.child_with(ContextOptions::new(name))
    }

    /// As [`child`](ContextHandle::child), with `options`. A context of the same tree may be the child's allocator:
    /// then every byte is counted in both.
    pub fn child_with(&self, options: ContextOptions<'_>) -> Result<Context, HostError> {
        // SAFETY: `ContextOptions::allocator`; the handle's reference.
        let node = unsafe { create::make_child(self.node, &options) }?;
        Ok(Context::owning(node))
    }

    /// Allocates a block of `layout` in `scope`. Size 0 returns an aligned dangling pointer, uncounted.
    ///
    /// # Errors
    /// [`HostError`]: closed, over budget (whose), out of memory.
    pub fn try_allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, HostError> {
        self.node().allocate(layout, scope).map_err(|_| self.node().refusal(layout, scope))
    }

    /// Frees a block of [`try_allocate`](ContextHandle::try_allocate).
    ///
    /// # Safety
    /// `block` is a live block of this context, of this `layout` and `scope`.
    pub unsafe fn free(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: this function's contract.
        unsafe { self.node().deallocate(block, layout, scope) }
    }

    /// As `allocate` of [`HostAllocator`](crate::HostAllocator), with the thread's table.
    #[inline]
    pub fn allocate_on(&self, table: ThreadTable<'_>, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.node().allocate_on(table, layout, scope)
    }

    /// As [`free`](ContextHandle::free), with the thread's table.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub unsafe fn free_on(&self, table: ThreadTable<'_>, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: this function's contract.
        unsafe { self.node().deallocate_on(table, block, layout, scope) }
    }

    /// An id that no other context of the process ever has.
    #[must_use]
    pub fn id(&self) -> ContextId {
        self.node().id()
    }

    /// The name given at creation.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.node().name
    }

    /// The label given at creation.
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
        self.node().parent_ptr().map(|parent| Self { node: node::retain(parent) })
    }

    /// True once the context, or one above it, was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.node().flags() & CLOSED != 0
    }

    /// The context's own account, without those below, also after it was closed. O(threads that used it).
    #[must_use]
    pub fn usage(&self) -> Usage {
        tree::node_usage(self.node())
    }

    /// As [`usage`](ContextHandle::usage); `None` while another thread is reading or folding.
    #[must_use]
    pub fn try_usage(&self) -> Option<Usage> {
        tree::usage_by(self.node(), try_read_row)
    }

    /// The account of this context and all below, ended contexts included in totals. O(contexts).
    #[must_use]
    pub fn subtree_usage(&self) -> Usage {
        tree::subtree_usage(self.node())
    }

    /// Copies the accounts of this context and all below into memory of this context. [`Snapshot::capture`] accepts
    /// another allocator.
    pub fn snapshot(&self) -> Result<Snapshot<&Self>, HostError> {
        Snapshot::capture(self, self)
    }

    /// The budget set on this context itself.
    #[must_use]
    pub fn budget(&self) -> Option<BudgetUsage> {
        self.node().budget_usage()
    }

    /// Changes the limit of the budget set on this context itself. O(contexts below).
    ///
    /// # Errors
    /// The limit is unchanged. [`Misuse::NoBudget`](crate::Misuse::NoBudget) without a budget of its own;
    /// [`HostError::OverBudget`] when more than `bytes` is charged.
    pub fn set_limit(&self, bytes: u64) -> Result<(), HostError> {
        self.node().set_limit(bytes)
    }

    /// Converts the reference into an address, for C. [`from_raw`](Self::from_raw) converts it back.
    #[must_use]
    pub fn into_raw(self) -> NonNull<c_void> {
        ManuallyDrop::new(self).node.cast()
    }

    /// Converts an address from [`into_raw`](Self::into_raw) back into the reference.
    ///
    /// # Safety
    /// `raw` comes from `into_raw`, and at most one of the handles made from it is dropped.
    #[must_use]
    pub unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        Self::from_counted(raw.cast())
    }

    pub(super) fn from_counted(node: NonNull<ContextNode>) -> Self {
        Self { node }
    }

    pub(super) const fn node_ptr(&self) -> NonNull<ContextNode> {
        self.node
    }

    #[inline]
    pub(crate) fn node(&self) -> &ContextNode {
        // SAFETY: the handle's reference.
        unsafe { self.node.as_ref() }
    }
}

impl Clone for ContextHandle {
    fn clone(&self) -> Self {
        Self { node: node::retain(self.node) }
    }
}

impl Drop for ContextHandle {
    fn drop(&mut self) {
        // SAFETY: the handle's own reference.
        unsafe { create::release(self.node) };
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
