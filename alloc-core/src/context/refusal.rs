//! The reason of a refusal: stored for the thread when the request is refused, read when the caller wants a [`HostError`].
//!
//! The allocator traits return a bare `AllocError`. Until the caller queries the reason, another thread may have raised the limit or freed
//! memory, so that a new check would name a wrong reason. Without thread-locals there is only the new check.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::node::{CLOSED, ContextNode};
use crate::error::HostError;
use crate::refusal::{Reason, Refusal, Shortage};
use crate::scope::Scope;
use crate::sync::Held;
use crate::threads;

impl Shortage {
    /// The first of the nodes that has no room for `bytes`. The budget lock is held.
    pub(super) fn first<'n>(
        nodes: impl IntoIterator<Item = &'n ContextNode>,
        bytes: u64,
    ) -> Option<Self> {
        nodes.into_iter().find_map(|node| {
            let short_by = bytes
                .checked_sub(node.budget.room())
                .filter(|short_by| *short_by > 0)?;
            Some(Self {
                context: node.id(),
                short_by,
            })
        })
    }

    /// The error, with the bytes that other threads lease of that budget now. `below` is the requesting context.
    pub(super) fn error(self, held: &Held<'_>, below: &ContextNode) -> HostError {
        let Self { context, short_by } = self;
        let node = core::iter::successors(Some(below), |node| node.parent())
            .find(|node| node.id() == context);
        let leased_elsewhere = node.map_or(0, |node| {
            let charged = node.budget_usage().map_or(0, |budget| budget.charged);
            charged.saturating_sub(
                super::tree::subtree_usage_under(held, node)
                    .total()
                    .live_bytes,
            )
        });
        HostError::OverBudget {
            context,
            short_by,
            leased_elsewhere,
        }
    }
}

impl ContextNode {
    /// Stores why the calling thread is refused.
    #[cold]
    pub(super) fn refuse(&self, scope: Scope, reason: Reason) -> AllocError {
        threads::note_refusal(Refusal {
            tag: self.tag(scope),
            reason,
        });
        AllocError
    }

    #[cold]
    pub(super) fn refuse_closed(&self, scope: Scope) -> AllocError {
        self.refuse(
            scope,
            Reason::Other(HostError::Closed { context: self.id() }),
        )
    }

    /// The backing has just refused `layout`: queries its reason at once, before it changes. No lock is held.
    #[cold]
    #[inline(never)]
    pub(super) fn refused_by_backing(
        &self,
        layout: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        Err(self.refuse(scope, Reason::Other(self.backing().refusal(layout, scope))))
    }

    /// Why the context last refused a request of this thread in `scope`. Where it refused none, and without thread-locals, why it would
    /// refuse `layout` now.
    #[cold]
    pub(crate) fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        let reason = match threads::refusal().filter(|refusal| refusal.tag == self.tag(scope)) {
            Some(refusal) => refusal.reason,
            None => self.would_refuse(layout, scope),
        };
        match reason {
            Reason::Short(shortage) => shortage.error(&self.root().tree_lock.lock(), self),
            Reason::Other(error) => error,
        }
    }

    fn would_refuse(&self, layout: Layout, scope: Scope) -> Reason {
        if self.flags() & CLOSED != 0 {
            return Reason::Other(HostError::Closed { context: self.id() });
        }
        let short = self
            .is_budgeted()
            .then(|| self.shortage(layout.size() as u64))
            .flatten();
        short.map_or_else(
            || Reason::Other(self.backing().refusal(layout, scope)),
            Reason::Short,
        )
    }

    /// The first budget from here up that has no room for `bytes` more.
    pub(super) fn shortage(&self, bytes: u64) -> Option<Shortage> {
        let _held = self.root().budget_lock.lock();
        Shortage::first(self.charged(), bytes)
    }
}
