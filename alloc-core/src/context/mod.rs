//! The tree of contexts: `node` is a context, `create`, `end` and `moves` change the tree, `allocate` counts, and
//! `budget_charge` says no.

mod allocate;
mod allocators;
mod backing;
mod budget_charge;
mod create;
mod default;
mod end;
mod handle;
mod moves;
mod node;
mod transfer;
pub(crate) mod tree;

use core::ffi::c_void;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use backing::Backing;
pub use create::ContextOptions;
pub use default::{default_context, set_default_context};
pub use end::{CloseError, Outstanding};
pub use handle::ContextHandle;
pub(crate) use moves::ContextMove;
pub(crate) use node::{CLOSED, ContextNode, DRAINED, FOREIGN, ORPHANED};
pub(crate) use transfer::{check_room, check_transfer, transfer};

use crate::error::{HostError, Misuse};
use crate::host::HostAllocator;
use crate::rejected::Rejected;
use crate::sync::{Ordering, Relaxed as _};

/// The owner of a node in a tree of contexts.
///
/// It is move-only and dereferences to [`ContextHandle`], which lists the common operations. `&Context` and
/// `ContextHandle` are [`Allocator`](crate::Allocator)s.
///
/// Dropping (or [closing](Context::close)) the owner ends the node: neither it nor any context below allocates any
/// more; their values are destroyed, children before parents, the newest first (see [`ContextHandle::own`]); blocks
/// that collections still hold stay valid and charged until they are freed.
///
/// The owner can be a value of the context's parent, `parent.own(parent.child(name)?)`: then the context ends with its
/// parent, without recursion.
///
/// Thread rules: `Send + Sync`; any thread may call every operation, but not a signal handler. The child of a fork may
/// use every context of its parent (see [`after_fork`](crate::after_fork)).
#[doc(alias("ralloc", "talloc", "heap"))]
pub struct Context {
    handle: ContextHandle,
}

impl Context {
    /// Creates the root of a tree whose memory all comes from `backing`. The root's own record (and label) is counted
    /// in the root, in its default scope ([`Scope::Instance`](crate::Scope::Instance) unless set).
    ///
    /// # Errors
    /// The refusal of `backing`; [`HostError::OverBudget`] when the record exceeds the root's own budget.
    ///
    /// # Safety
    /// `backing` lives, unmoved, until one of these:
    /// - [`close_root`](Context::close_root) has returned `Ok`;
    /// - all contexts, handles and blocks of the tree are gone;
    /// - [`abandon`](Context::abandon) has returned, and every operation of another thread on the tree has either
    ///   returned before or happens after it (by a lock, a join, a channel). Even then the backing's memory must stay
    ///   readable and writable until all contexts, handles and blocks of the tree are gone: the contexts' records lie
    ///   in it.
    ///
    /// The root keeps the address of `backing`: where `A` is a reference (`&dyn HostAllocator`), the address of the
    /// reference.
    pub unsafe fn root<A: HostAllocator + Sync>(backing: &A, options: ContextOptions<'_>) -> Result<Self, HostError> {
        // SAFETY: this function's contract.
        let node = unsafe { create::make_root(Backing::of(backing), &options) }?;
        Ok(Self::owning(node))
    }

    /// As [`root`](Context::root), over a static allocator.
    pub fn root_static<A: HostAllocator + Sync>(
        backing: &'static A,
        options: ContextOptions<'_>,
    ) -> Result<Self, HostError> {
        // SAFETY: a static lives for ever.
        unsafe { Self::root(backing, options) }
    }

    /// As [`root`](Context::root), over an allocator that the root owns: it lies in front of the root's record, in one
    /// block of its own memory, and is dropped with it.
    ///
    /// # Errors
    /// The allocator, with the error of [`root`](Context::root).
    pub fn root_owned<A: HostAllocator + Send + Sync + 'static>(
        allocator: A,
        options: ContextOptions<'_>,
    ) -> Result<Self, Rejected<A, HostError>> {
        create::make_owned_root(allocator, &options).map(Self::owning)
    }

    /// Converts the owner into an address, for C. [`from_raw`](Self::from_raw) converts it back;
    /// [`ContextHandle::from_raw`] must not.
    #[must_use]
    pub fn into_raw(self) -> NonNull<c_void> {
        ManuallyDrop::new(self).handle.node_ptr().cast()
    }

    /// Converts an address from [`into_raw`](Self::into_raw) back into the owner.
    ///
    /// # Safety
    /// `raw` comes from `into_raw`, and at most one of the owners made from it is dropped.
    #[must_use]
    pub unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        Self::owning(raw.cast())
    }

    /// Returns a handle to this context.
    #[must_use]
    pub fn handle(&self) -> ContextHandle {
        self.handle.clone()
    }

    /// Ends the node, as dropping it does, and returns what is still outstanding; [held](ContextHandle::get) values are
    /// destroyed with their last hold.
    ///
    /// # Panics
    /// If a destructor of an owned value panicked; after the rest has been destroyed.
    pub fn close(self) -> Outstanding {
        end::end_subtree(&self.handle);
        end::outstanding(self.node())
    }

    /// Ends the node if nothing is outstanding in it or below it, so that its own allocator may be destroyed.
    ///
    /// Handles, blocks and contexts that owned values hold count as outstanding, because only destructors know them:
    /// call [`clear`](Context::clear) first.
    ///
    /// # Errors
    /// The context, still open, with what is [outstanding](CloseError::Outstanding). Bytes that an ended context below
    /// lost count as well; declared memory ([`Foreign`](crate::Foreign)) does not.
    pub fn try_close(self) -> Result<(), Rejected<Self, CloseError>> {
        let outstanding = end::seal(self.node());
        if outstanding.needs_backing() {
            return Err(Rejected::new(self, CloseError::Outstanding(outstanding)));
        }
        end::end_subtree(&self.handle);
        drop(self);
        Ok(())
    }

    /// Ends a root and frees all its memory, if nothing of the tree is outstanding.
    ///
    /// # Errors
    /// As [`try_close`](Context::try_close); [`Misuse::NotARoot`].
    pub fn close_root(self) -> Result<(), Rejected<Self, CloseError>> {
        if !self.node().is_root() {
            return Err(Rejected::new(self, CloseError::Misuse(Misuse::NotARoot)));
        }
        self.try_close()
    }

    /// Cuts off an allocator that is gone or about to be destroyed: this node and all below it with the same allocator
    /// never call it again. Their memory stays in place; later frees are counted and not forwarded. Destructors of
    /// owned values run before the call returns. [`root`](Context::root) states when the allocator may be destroyed.
    pub fn abandon(self) -> Outstanding {
        let outstanding = end::outstanding(self.node());
        tree::abandon(self.node());
        outstanding
    }

    fn owning(node: NonNull<ContextNode>) -> Self {
        Self { handle: ContextHandle::from_counted(node) }
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
        // A single reference: no children and no handles.
        if node.flags() & DRAINED == 0 && (node.references.load(Ordering::Acquire) != 1 || !node.owned.get().is_null())
        {
            end::end_subtree(&self.handle);
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
