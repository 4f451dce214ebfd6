//! Budgets: leasing and refunding.
//!
//! For every budgeted node, with a limit of its own or only below one: charged = the sum over its subtree of (folded live bytes + the
//! ceiling of every open entry + the reservations of calls in flight). Live bytes never exceed the charge and the charge never exceeds the
//! limit, so the limit holds at every instant. One walk up the tree per slice charges all budgets or none, under the root's budget lock.
//!
//! The reason of a refusal: stored for the thread when the request is refused, read when the caller wants a [`HostError`].
//!
//! The allocator traits return a bare `AllocError`. Until the caller queries the reason, another thread may have raised the limit or freed
//! memory, so that a new check would name a wrong reason. Without thread-locals there is only the new check.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::node::{CLOSED, ContextNode};
use crate::account::{Counts, FOLD_MAX, FOLD_MIN};
use crate::budget::{Budget, BudgetKind, BudgetUsage, lease_extra};
use crate::error::{HostError, Misuse};
use crate::refusal::{Reason, Refusal, Shortage};
use crate::scope::Scope;
use crate::sync::{Held, Relaxed as _};
use crate::threads;

/// Bytes that a call has reserved. When the backing unwinds, the drop returns them to the thread's lease.
pub(crate) struct Reservation<'n> {
    node: &'n ContextNode,
    scope: Scope,
    bytes: u64,
}

impl<'n> Reservation<'n> {
    /// Bytes already taken off the lease, see [`ContextNode::reserve`].
    pub(crate) fn of(node: &'n ContextNode, scope: Scope, bytes: u64) -> Self {
        Self { node, scope, bytes }
    }

    /// See [`ContextNode::conclude`].
    pub(crate) fn conclude(self, blocks: u64, allocated: bool) {
        let Self { node, scope, bytes } = self;
        core::mem::forget(self);
        node.conclude(scope, bytes, blocks, allocated);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.node.conclude(self.scope, self.bytes, 0, false);
    }
}

/// More than any address space; below it the sum of a request and the live bytes cannot overflow.
const IMPOSSIBLE: u64 = 1 << 62;

impl ContextNode {
    /// Reserves `bytes` before the backing is called, from this thread's lease, which is enlarged if need be. The reservation belongs to the
    /// call, not to the entry, which may be evicted meanwhile.
    pub(crate) fn reserve(&self, scope: Scope, bytes: u64) -> Result<Reservation<'_>, AllocError> {
        let Some(signed) = i64::try_from(bytes).ok().filter(|_| bytes < IMPOSSIBLE) else {
            let none = HostError::OutOfHostMemory {
                bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
                scope,
            };
            return Err(self.refuse(
                scope,
                self.shortage(bytes)
                    .map_or(Reason::Other(none), Reason::Short),
            ));
        };
        let reserved = self.reserve_once(scope, signed).or_else(|_| {
            // This thread's other entries may hold the missing bytes.
            self.fold_tree();
            self.reserve_once(scope, signed)
        });
        match reserved {
            Ok(()) => Ok(Reservation::of(self, scope, bytes)),
            Err(shortage) => Err(self.refuse(scope, Reason::Short(shortage))),
        }
    }

    fn reserve_once(&self, scope: Scope, bytes: i64) -> Result<(), Shortage> {
        if self.is_exact() {
            return self.charge(bytes.cast_unsigned(), 0).map(|_| ());
        }
        self.with_opened_entry(scope, |entry| {
            let Some(entry) = entry else {
                return self.charge(bytes.cast_unsigned(), 0).map(|_| ());
            };
            let unused = entry.ceiling().saturating_sub(entry.delta());
            let mut ceiling = entry.ceiling();
            if bytes > unused {
                let short = bytes.saturating_sub(unused).cast_unsigned();
                ceiling = ceiling.saturating_add(self.charge(short, self.slice())?.cast_signed());
            }
            entry.set_ceiling(ceiling.saturating_sub(bytes));
            Ok(())
        })
    }

    /// Ends a reservation: counts its bytes as `blocks` blocks if they were `allocated`, else returns them to the thread's lease.
    pub(crate) fn conclude(&self, scope: Scope, bytes: u64, blocks: u64, allocated: bool) {
        self.with_opened_entry(scope, |entry| {
            let Some(entry) = entry else {
                if allocated {
                    let counts = Counts {
                        alloc_bytes: bytes,
                        alloc_blocks: blocks,
                        ..Counts::default()
                    };
                    self.count_directly(scope, &counts);
                } else {
                    self.refund(bytes);
                }
                return;
            };
            entry.set_ceiling(entry.ceiling().saturating_add(bytes.cast_signed()));
            if allocated {
                entry.record_alloc(bytes, blocks);
            }
            // An entry keeps at most a slice of unused lease and hides at most a threshold from the peak.
            let slice = self.slice().cast_signed();
            if entry.ceiling().saturating_sub(entry.delta()) > slice
                || entry.delta() > slice.clamp(FOLD_MIN, FOLD_MAX)
            {
                self.fold(scope, entry);
            }
        });
    }

    /// Charges `need` bytes, and up to half of `slice` more, to every budget from here up, or to none. Returns the bytes charged.
    fn charge(&self, need: u64, slice: u64) -> Result<u64, Shortage> {
        let _held = self.root().budget_lock.lock();
        if let Some(shortage) = Shortage::first(self.charged(), need) {
            return Err(shortage);
        }
        let mut grant = need.saturating_add(slice / 2);
        if slice > 0 {
            for node in self.charged() {
                let extra = lease_extra(slice, node.budget.room(), need);
                grant = grant.min(need.saturating_add(extra));
            }
        }
        self.charged().for_each(|node| node.budget.add(grant));
        Ok(grant)
    }

    /// Refunds charged bytes to every budget from here up.
    pub(crate) fn refund(&self, bytes: u64) {
        let _held = self.root().budget_lock.lock();
        self.charged().for_each(|node| node.budget.subtract(bytes));
    }

    /// This node and those above it, up to the topmost budget: the nodes charged for this node's memory. A node without a limit of its own
    /// is charged as well, so that it can be moved. The budget lock is held.
    pub(super) fn charged(&self) -> impl Iterator<Item = &ContextNode> {
        core::iter::successors(Some(self), |node| node.parent())
            .take_while(|node| node.is_budgeted())
    }

    /// The smallest slice of the budgets from here up; 0 where one of them is exact.
    pub(crate) fn slice(&self) -> u64 {
        self.budget.slice.get()
    }

    /// True when a budget from here up is exact: each byte is charged when it is allocated and refunded when it is freed.
    #[inline]
    pub(crate) fn is_exact(&self) -> bool {
        self.is_budgeted() && self.slice() == 0
    }

    pub(crate) fn budget_usage(&self) -> Option<BudgetUsage> {
        let _held = self.root().budget_lock.lock();
        self.budget.read()
    }

    pub(crate) fn set_limit(&self, bytes: u64) -> Result<(), HostError> {
        let bytes = bytes.min(u64::MAX - 1);
        if self.try_set_limit(bytes)?.is_some() {
            // Part of the charge may be this thread's own leases.
            self.fold_tree();
            if let Some(charged) = self.try_set_limit(bytes)? {
                let live = super::tree::subtree_usage(self).total().live_bytes;
                return Err(HostError::OverBudget {
                    context: self.id(),
                    short_by: charged.saturating_sub(bytes),
                    leased_elsewhere: charged.saturating_sub(live),
                });
            }
        }
        super::tree::each(self, |node, _| node.update_slice());
        Ok(())
    }

    /// The slice under the present limits here and above. The tree lock is held.
    pub(super) fn due_slice(&self) -> u64 {
        let above = self
            .parent()
            .filter(|parent| parent.is_budgeted())
            .map_or(FOLD_MAX.cast_unsigned(), ContextNode::slice);
        self.budget.own_slice().min(above)
    }

    /// Sets the slice to [`due_slice`](ContextNode::due_slice), after the nodes above. Where it grew, threads may hide more from a peak.
    pub(super) fn update_slice(&self) {
        let slice = self.due_slice();
        for row in Scope::ALL.map(|scope| self.row(scope)) {
            if !row.is_untouched() {
                row.lock().note_hidden(slice.cast_signed().max(FOLD_MIN));
            }
        }
        self.budget.slice.set(slice);
    }

    /// Sets the limit, unless more is charged: then returns the charge.
    fn try_set_limit(&self, bytes: u64) -> Result<Option<u64>, HostError> {
        let _held = self.root().budget_lock.lock();
        if !self.budget.is_set() {
            return Err(HostError::Misuse(Misuse::NoBudget));
        }
        let charged = self.budget.charged.get();
        if charged > bytes && self.budget.kind() != BudgetKind::Soft {
            return Ok(Some(charged));
        }
        self.budget.limit.set(bytes);
        Ok(None)
    }
}

impl super::node::BudgetCell {
    pub(crate) fn is_set(&self) -> bool {
        self.limit.get() != u64::MAX
    }

    fn read(&self) -> Option<BudgetUsage> {
        self.is_set().then(|| BudgetUsage {
            limit: self.limit.get(),
            charged: self.charged.get(),
            high: self.high.get(),
            slice: self.slice.get(),
        })
    }

    /// The slice that this budget alone allows.
    fn own_slice(&self) -> u64 {
        let limit = self.limit.get();
        if limit == u64::MAX {
            u64::MAX
        } else {
            Budget {
                limit,
                kind: self.kind(),
            }
            .slice()
        }
    }

    /// Charges bytes that fit the limit.
    pub(super) fn add(&self, bytes: u64) {
        let charged = self.charged.get().saturating_add(bytes);
        self.charged.set(charged);
        if charged > self.high.get() {
            self.high.set(charged);
        }
    }

    pub(super) fn subtract(&self, bytes: u64) {
        self.charged.set(self.charged.get().saturating_sub(bytes));
    }

    fn kind(&self) -> BudgetKind {
        BudgetKind::from_raw(self.kind.get())
    }

    /// Bytes that can still be charged; a soft budget has no limit here.
    pub(super) fn room(&self) -> u64 {
        let limit = match self.kind() {
            BudgetKind::Soft => u64::MAX,
            BudgetKind::Leased | BudgetKind::Exact => self.limit.get(),
        };
        limit.saturating_sub(self.charged.get())
    }
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
    fn refuse(&self, scope: Scope, reason: Reason) -> AllocError {
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
    fn shortage(&self, bytes: u64) -> Option<Shortage> {
        let _held = self.root().budget_lock.lock();
        Shortage::first(self.charged(), bytes)
    }
}
