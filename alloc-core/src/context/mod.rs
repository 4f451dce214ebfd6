//! Contexts: who owns memory.

mod allocate;
mod allocators;
mod backing;
mod count;
mod create;
mod end_subtree;
mod handle;
mod lease;
mod node;
mod options;
mod outstanding;
mod refusal;
mod reparent;
mod transfer;
pub(crate) mod tree;

use core::ffi::c_void;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use backing::Backing;
pub use handle::ContextHandle;
pub(crate) use node::{CLOSED, ContextNode, DRAINED, ORPHANED, OWNED_BY_PARENT};
pub use options::ContextOptions;
pub use outstanding::{CloseError, Outstanding};
pub(crate) use refusal::Refusal;
pub(crate) use reparent::ContextMove;
pub use transfer::ContextRef;
pub(crate) use transfer::{check_room, check_transfer, transfer};

use crate::error::{HostError, Misuse};
use crate::host::HostAllocator;
use crate::rejected::Rejected;
use crate::sync::Ordering;

/// The owner of a node in a tree of contexts that inherit their allocator.
///
/// One owner, move-only; [`ContextHandle`] is its counted companion, and a context can be used as one: what both can do is listed
/// there. `&Context` and `ContextHandle` are [`Allocator`](crate::Allocator)s, so collections account to the context with no byte in
/// front of their blocks.
///
/// Dropping (or [closing](Context::close)) the owner ends the node: nothing new can be allocated from it or from any context below
/// it; what those own is destroyed, children before their parents, the newest first (see [`ContextHandle::own`]); contexts
/// [left](Context::leave) to their parents end with them; blocks that collections still hold stay valid and charged until they go.
///
/// To print a tree: [`snapshot`](ContextHandle::snapshot).
///
/// Thread rules: `Send + Sync`; every operation may be called from any thread. Not from a signal handler, nor in a forked child
/// while another thread of the parent was counting (a lock may be held for ever there).
pub struct Context {
    /// The owner's own reference.
    handle: ContextHandle,
}

impl Context {
    /// Makes the root of a tree whose memory all comes from `backing`. The root's own record (and label) is taken from it at
    /// once and counted in the root, in its default scope ([`Scope::Instance`](crate::Scope::Instance) unless the options say
    /// otherwise).
    ///
    /// # Errors
    /// [`HostError::OutOfHostMemory`] (or what else `backing` says) when that record is refused; [`HostError::OverBudget`] when
    /// it is larger than the root's own budget.
    ///
    /// # Safety
    /// `backing` lives, unmoved, until one of these:
    /// - [`close_root`](Context::close_root) has returned `Ok`;
    /// - everything of the tree is gone: contexts, handles, blocks;
    /// - [`abandon`](Context::abandon) has returned, and whatever other threads do with the tree has either returned before or
    ///   happens after it (by a lock, a join, a channel). The memory that the backing gave must even then stay readable and
    ///   writable until all contexts, handles and blocks of the tree are gone: the records of the contexts lie in it.
    ///
    /// It is the address of `backing` that is kept. Where `A` is a reference (`&dyn HostAllocator`), that is the address of the
    /// reference, which must live as long.
    pub unsafe fn root<A: HostAllocator + Sync>(
        backing: &A,
        options: ContextOptions<'_>,
    ) -> Result<Self, HostError> {
        // SAFETY: forwarded from this function's contract.
        let node = unsafe { create::make_root(Backing::of(backing), &options) }?;
        Ok(Self::owning(node))
    }

    /// As [`root`](Context::root), over an allocator that lives for ever.
    ///
    /// # Errors
    /// As [`root`](Context::root).
    pub fn root_static<A: HostAllocator + Sync>(
        backing: &'static A,
        options: ContextOptions<'_>,
    ) -> Result<Self, HostError> {
        // SAFETY: a static is never gone.
        unsafe { Self::root(backing, options) }
    }

    /// As [`root`](Context::root), over an allocator that the root owns: it lies in front of the root's record, in one block of its own
    /// memory, and is dropped when that goes. For callers that have no place to keep an allocator at.
    ///
    /// # Errors
    /// The allocator, with the reason, as [`root`](Context::root).
    pub fn root_owned<A: HostAllocator + Send + Sync + 'static>(
        allocator: A,
        options: ContextOptions<'_>,
    ) -> Result<Self, Rejected<A, HostError>> {
        create::make_owned_root(allocator, &options).map(Self::owning)
    }

    /// The owner as an address, for C. [`from_raw`](Self::from_raw) takes it back; [`ContextHandle::from_raw`] may not.
    #[must_use]
    pub fn into_raw(self) -> NonNull<c_void> {
        ManuallyDrop::new(self).handle.node_ptr().cast()
    }

    /// The owner that [`into_raw`](Self::into_raw) made an address of.
    ///
    /// # Safety
    /// It was, and of all that is made of the address one at most is dropped.
    #[must_use]
    pub unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        Self::owning(raw.cast())
    }

    /// A counted companion of this context.
    #[must_use]
    pub fn handle(&self) -> ContextHandle {
        self.handle.clone()
    }

    /// Ends the node and says what is still held below it. The same as dropping it.
    ///
    /// Blocks that collections hold through handles stay valid and charged; they are given back when those go. So do values that
    /// somebody [holds](ContextHandle::get).
    ///
    /// # Panics
    /// Where a destructor of an owned value panics: when all the rest has been destroyed.
    pub fn close(self) -> Outstanding {
        end_subtree::end_subtree(&self.handle);
        outstanding::of(self.node())
    }

    /// Ends the node if nothing is left of it or below it, so that an allocator of its own may go.
    ///
    /// Owned values and contexts left to their parents go with it. What the values themselves hold of the tree, handles, blocks or
    /// contexts, counts as outstanding, because only their destructors know it: [`clear`](Context::clear) first.
    ///
    /// # Errors
    /// The context, still open, with what is [outstanding](CloseError::Outstanding). Bytes that a context below lost for good
    /// count as well, also where they came from an allocator of its own. What is only declared ([`Foreign`](crate::Foreign)) does not:
    /// ask [`subtree_usage`](ContextHandle::subtree_usage) before.
    pub fn try_close(self) -> Result<(), Rejected<Self, CloseError>> {
        let outstanding = outstanding::seal(self.node());
        if outstanding.needs_backing() {
            return Err(Rejected::new(self, CloseError::Outstanding(outstanding)));
        }
        end_subtree::end_subtree(&self.handle);
        drop(self);
        Ok(())
    }

    /// Ends a root and gives all its memory back, if nothing of the tree is left.
    ///
    /// # Errors
    /// As [`try_close`](Context::try_close); and when this is no root.
    pub fn close_root(self) -> Result<(), Rejected<Self, CloseError>> {
        if !self.node().is_root() {
            return Err(Rejected::new(self, CloseError::Misuse(Misuse::NotARoot)));
        }
        self.try_close()
    }

    /// Cuts off an allocator that is dead or about to die: this node and all below it that draw on the same one never call it
    /// again. Their memory is left where it is; frees are still counted, not forwarded; allocations answer `Closed`. Destructors of
    /// owned values run, before it returns.
    ///
    /// What must hold for the allocator to go is said at [`root`](Context::root).
    pub fn abandon(self) -> Outstanding {
        let outstanding = outstanding::of(self.node());
        tree::abandon(self.node());
        outstanding
    }

    /// Closes it and all below: no new allocation. What it owns stays until it is dropped.
    pub(crate) fn refuse_allocations(&self) {
        tree::close(self.node());
    }

    /// The owner of a new node, whose first reference it takes over.
    fn owning(node: NonNull<ContextNode>) -> Self {
        Self {
            handle: ContextHandle::from_counted(node),
        }
    }

    #[inline]
    pub(crate) fn node(&self) -> &ContextNode {
        self.handle.node()
    }
}

impl Deref for Context {
    type Target = ContextHandle;

    #[inline]
    fn deref(&self) -> &ContextHandle {
        &self.handle
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let node = self.node();
        node.set_flags(ORPHANED);
        // With a single reference there is nobody left below or beside, and perhaps nothing to end but the node.
        if node.flags() & DRAINED == 0
            && (node.references.load(Ordering::Acquire) != 1
                || !node.owned.load(Ordering::Relaxed).is_null())
        {
            end_subtree::end_subtree(&self.handle);
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_node(f, "Context", self.node())
    }
}

fn debug_node(f: &mut fmt::Formatter<'_>, what: &str, node: &ContextNode) -> fmt::Result {
    let total = tree::node_usage(node).total();
    f.debug_struct(what)
        .field("id", &node.id())
        .field("name", &node.name)
        .field("label", &node.label())
        .field("live_bytes", &total.live_bytes)
        .field("live_blocks", &total.live_blocks)
        .finish_non_exhaustive()
}
