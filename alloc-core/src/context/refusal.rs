//! Why a request was refused: written down for the thread when it is refused, read when the reason is asked for.
//!
//! The callers' traits answer with a bare `AllocError`. By the time somebody asks why, another thread may have raised the limit or freed
//! what was in the way, and a second look would blame whoever is left. Without thread-locals there is only the second look.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::node::{CLOSED, ContextNode};
use crate::error::{ContextId, HostError};
use crate::scope::Scope;
use crate::sync::Held;
use crate::threads;

/// The last refusal of a thread.
#[derive(Clone, Copy)]
pub(crate) struct Refusal {
    /// Which context refused, in which scope: the row's tag.
    tag: u64,
    reason: Reason,
}

#[derive(Clone, Copy)]
pub(super) enum Reason {
    /// A budget had no room; how much of it others lease is found out when the reason is asked for.
    Short(Shortage),
    Other(HostError),
}

/// A budget that had no room for a request.
#[derive(Clone, Copy)]
pub(super) struct Shortage {
    context: ContextId,
    short_by: u64,
}

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

    /// The error, with what other threads lease of that budget now. `below` is the context whose request it was.
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
    /// Writes down why the calling thread is refused.
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

    /// The backing has just refused `layout`: its reason is asked for at once, for it may be as of now. No lock is held.
    #[cold]
    #[inline(never)]
    pub(super) fn refused_by_backing(
        &self,
        layout: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        Err(self.refuse(scope, Reason::Other(self.backing.refusal(layout, scope))))
    }

    /// Why the last request of this thread that the context refused in `scope` was refused. Where there was none, and without
    /// thread-locals, why one for `layout` would be refused now.
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
            || Reason::Other(self.backing.refusal(layout, scope)),
            Reason::Short,
        )
    }

    /// The first budget from here up that has no room for `bytes` more.
    pub(super) fn shortage(&self, bytes: u64) -> Option<Shortage> {
        let _held = self.root().budget_lock.lock();
        Shortage::first(self.charged(), bytes)
    }
}
