//! Where a budget says no.
//!
//! For every node with or below a limit: charged = the sum over its subtree of (folded live bytes + the ceiling of
//! every open entry + the reservations of calls in flight). Live bytes never exceed the charge, nor the charge the
//! limit. A walk up the tree charges all budgets or none, under the root's budget lock.
//!
//! The allocator traits return a bare `AllocError`; the reason is stored for the thread when the request is refused. A
//! later check, the only one without thread-locals, could name a wrong reason.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::node::{CLOSED, ContextNode};
use crate::account::{Counts, FOLD_MAX, FOLD_MIN};
use crate::budget::{Budget, BudgetKind, BudgetUsage, lease_extra};
use crate::error::{HostError, Misuse};
use crate::refusal::Refusal;
use crate::scope::Scope;
use crate::sync::{Held, Relaxed as _};
use crate::threads;

/// When the backing unwinds, the drop returns the bytes to the thread's lease.
pub(crate) struct Reservation<'n> {
    node: &'n ContextNode,
    scope: Scope,
    bytes: u64,
}

impl<'n> Reservation<'n> {
    pub(crate) fn of(node: &'n ContextNode, scope: Scope, bytes: u64) -> Self {
        Self { node, scope, bytes }
    }

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

/// Below it the sum of a request and the live bytes cannot overflow.
const IMPOSSIBLE: u64 = 1 << 62;

impl ContextNode {
    /// The reservation belongs to the call, not to the entry, which may be evicted meanwhile.
    pub(crate) fn reserve(&self, scope: Scope, bytes: u64) -> Result<Reservation<'_>, AllocError> {
        let Some(signed) = i64::try_from(bytes).ok().filter(|_| bytes < IMPOSSIBLE) else {
            let none = HostError::OutOfHostMemory { bytes: usize::try_from(bytes).unwrap_or(usize::MAX), scope };
            return Err(self.refuse(scope, self.shortage(bytes).unwrap_or(none)));
        };
        let reserved = self.reserve_once(scope, signed).or_else(|_| {
            // This thread's other entries may hold the missing bytes.
            threads::fold_thread();
            self.reserve_once(scope, signed)
        });
        match reserved {
            Ok(()) => Ok(Reservation::of(self, scope, bytes)),
            Err(error) => Err(self.refuse(scope, error)),
        }
    }

    fn reserve_once(&self, scope: Scope, bytes: i64) -> Result<(), HostError> {
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

    pub(crate) fn conclude(&self, scope: Scope, bytes: u64, blocks: u64, allocated: bool) {
        self.with_opened_entry(scope, |entry| {
            let Some(entry) = entry else {
                if allocated {
                    let counts = Counts { alloc_bytes: bytes, alloc_blocks: blocks, ..Counts::default() };
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
            // An entry keeps at most a slice of unused lease.
            let slice = self.slice().cast_signed();
            if entry.ceiling().saturating_sub(entry.delta()) > slice || entry.delta() > slice.clamp(FOLD_MIN, FOLD_MAX)
            {
                self.fold(scope, entry);
            }
        });
    }

    /// Charges `need` bytes, and up to half of `slice` more, to every budget from here up, or to none.
    fn charge(&self, need: u64, slice: u64) -> Result<u64, HostError> {
        let _held = self.root().budget_lock.lock();
        has_room(self.charged(), need)?;
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

    pub(crate) fn refund(&self, bytes: u64) {
        let _held = self.root().budget_lock.lock();
        self.charged().for_each(|node| node.budget.subtract(bytes));
    }

    /// Includes nodes without a limit of their own, which can be moved. The budget lock is held.
    pub(super) fn charged(&self) -> impl Iterator<Item = &ContextNode> {
        core::iter::successors(Some(self), |node| node.parent()).take_while(|node| node.is_budgeted())
    }

    /// 0 where a budget is exact.
    pub(crate) fn slice(&self) -> u64 {
        self.budget.slice.get()
    }

    pub(crate) fn budget_usage(&self) -> Option<BudgetUsage> {
        let _held = self.root().budget_lock.lock();
        self.budget.read()
    }

    pub(crate) fn set_limit(&self, bytes: u64) -> Result<(), HostError> {
        let bytes = bytes.min(u64::MAX - 1);
        // Part of the charge may be this thread's own leases.
        threads::fold_thread();
        if let Some(charged) = self.try_set_limit(bytes)? {
            let live = super::tree::subtree_usage(self).total().live_bytes;
            return Err(HostError::OverBudget {
                context: self.id(),
                short_by: charged.saturating_sub(bytes),
                leased_elsewhere: charged.saturating_sub(live),
            });
        }
        super::tree::each(self, |node, _| node.update_slice());
        Ok(())
    }

    /// The tree lock is held.
    pub(super) fn due_slice(&self) -> u64 {
        let above =
            self.parent().filter(|parent| parent.is_budgeted()).map_or(FOLD_MAX.cast_unsigned(), ContextNode::slice);
        self.budget.own_slice().min(above)
    }

    /// The nodes above are up to date. Where the slice grew, threads may hide more from a peak.
    pub(super) fn update_slice(&self) {
        let slice = self.due_slice();
        for row in Scope::ALL.map(|scope| self.row(scope)) {
            if !row.is_untouched() {
                row.lock().note_hidden(slice.cast_signed().max(FOLD_MIN));
            }
        }
        self.budget.slice.set(slice);
    }

    /// Returns the charge where it exceeds the limit.
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

    fn own_slice(&self) -> u64 {
        let limit = self.limit.get();
        if limit == u64::MAX { u64::MAX } else { Budget { limit, kind: self.kind() }.slice() }
    }

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

    pub(super) fn room(&self) -> u64 {
        let limit = match self.kind() {
            BudgetKind::Soft => u64::MAX,
            BudgetKind::Leased | BudgetKind::Exact => self.limit.get(),
        };
        limit.saturating_sub(self.charged.get())
    }
}

/// The budget lock is held. The error lacks the bytes that other threads lease.
pub(super) fn has_room<'n>(nodes: impl IntoIterator<Item = &'n ContextNode>, bytes: u64) -> Result<(), HostError> {
    for node in nodes {
        let short_by = bytes.saturating_sub(node.budget.room());
        if short_by > 0 {
            return Err(HostError::OverBudget { context: node.id(), short_by, leased_elsewhere: 0 });
        }
    }
    Ok(())
}

/// The error is of a budget at or above `below`. The tree's lock is held.
pub(super) fn with_leases(mut error: HostError, held: &Held<'_>, below: &ContextNode) -> HostError {
    if let HostError::OverBudget { context, leased_elsewhere, .. } = &mut error
        && let Some(node) = core::iter::successors(Some(below), |node| node.parent()).find(|node| node.id() == *context)
    {
        let charged = node.budget_usage().map_or(0, |budget| budget.charged);
        let live = super::tree::subtree_usage_under(held, node).total().live_bytes;
        *leased_elsewhere = charged.saturating_sub(live);
    }
    error
}

impl ContextNode {
    #[cold]
    pub(super) fn refuse(&self, scope: Scope, error: HostError) -> AllocError {
        threads::note_refusal(Refusal { tag: self.tag(scope), error });
        AllocError
    }

    /// The backing's reason may change later. No lock is held.
    #[cold]
    #[inline(never)]
    pub(super) fn refused_by_backing(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        Err(self.refuse(scope, self.backing().refusal(layout, scope)))
    }

    /// Without a stored refusal of this thread in `scope`, why the context would refuse `layout` now.
    #[cold]
    pub(crate) fn refusal(&self, layout: Layout, scope: Scope) -> HostError {
        let error = match threads::refusal().filter(|refusal| refusal.tag == self.tag(scope)) {
            Some(refusal) => refusal.error,
            None => self.would_refuse(layout, scope),
        };
        with_leases(error, &self.root().tree_lock.lock(), self)
    }

    fn would_refuse(&self, layout: Layout, scope: Scope) -> HostError {
        if self.flags() & CLOSED != 0 {
            return HostError::Closed { context: self.id() };
        }
        self.shortage(layout.size() as u64).unwrap_or_else(|| self.backing().refusal(layout, scope))
    }

    fn shortage(&self, bytes: u64) -> Option<HostError> {
        let _held = self.root().budget_lock.lock();
        has_room(self.charged(), bytes).err()
    }
}
