//! Budgets at work: leasing and refunding.
//!
//! For every budgeted node, with a limit of its own or only below one: charged = the sum over its subtree of (folded live + the ceiling of every open entry + what calls
//! in flight have set aside). Live bytes never exceed what is charged and charged never exceeds the limit, so the limit holds
//! at every instant. Walks go up the tree under the root's budget lock, all or nothing; they happen once per slice.

use allocator_api2::alloc::AllocError;

use super::node::ContextNode;
use super::refusal::{Reason, Shortage};
use crate::account::{Counts, FOLD_MAX, FOLD_MIN};
use crate::budget::{Budget, BudgetKind, BudgetUsage, lease_extra};
use crate::error::{HostError, Misuse};
use crate::scope::Scope;
use crate::sync::Ordering;
use crate::threads::with_table;

/// What a call has set aside. Dropped when the backing unwinds: then it goes back to the thread's lease.
pub(crate) struct Reservation<'n> {
    node: &'n ContextNode,
    scope: Scope,
    bytes: u64,
}

impl<'n> Reservation<'n> {
    /// Of what [`ContextNode::reserve`] has set aside.
    pub(crate) fn of(node: &'n ContextNode, scope: Scope, bytes: u64) -> Self {
        Self { node, scope, bytes }
    }

    /// The call has returned: what was set aside is counted as `blocks` blocks, or, if it was not taken, goes back.
    pub(crate) fn conclude(self, blocks: u64, taken: bool) {
        let Self { node, scope, bytes } = self;
        core::mem::forget(self);
        node.conclude(scope, bytes, blocks, taken);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.node.conclude(self.scope, self.bytes, 0, false);
    }
}

/// No address space has as much; below it no sum of a request and what is live overflows.
const IMPOSSIBLE: u64 = 1 << 62;

impl ContextNode {
    /// Sets `bytes` aside before the backing is called: out of this thread's lease, asking for more where it is short. What is
    /// set aside belongs to the call, not to the entry, which may be evicted meanwhile.
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
            // The room may sit in this thread's own other entries.
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
        let tag = self.tag(scope);
        with_table(|table| {
            let entry = table.and_then(|table| {
                table
                    .find(self.slot(scope), tag)
                    .or_else(|| table.open(self, scope))
            });
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

    /// The call is over: what was set aside is counted as `blocks` blocks, or, if it was not taken, goes back to the thread's
    /// lease.
    pub(crate) fn conclude(&self, scope: Scope, bytes: u64, blocks: u64, taken: bool) {
        let tag = self.tag(scope);
        with_table(|table| {
            let entry = table.and_then(|table| {
                table
                    .find(self.slot(scope), tag)
                    .or_else(|| table.open(self, scope))
            });
            let Some(entry) = entry else {
                if taken {
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
            if taken {
                entry.record_alloc(bytes, blocks);
            }
            // No lease beyond a slice is left lying about, and no more than a threshold is hidden from the peak.
            let slice = self.slice().cast_signed();
            if entry.ceiling().saturating_sub(entry.delta()) > slice
                || entry.delta() > slice.clamp(FOLD_MIN, FOLD_MAX)
            {
                self.fold(scope, entry);
            }
        });
    }

    /// Charges `need` bytes, and up to half of `slice` more, to every budget from here up. All or nothing.
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

    /// Gives charged bytes back to every budget from here up.
    pub(crate) fn refund(&self, bytes: u64) {
        let _held = self.root().budget_lock.lock();
        self.charged().for_each(|node| node.budget.subtract(bytes));
    }

    /// This node and those above it, up to the topmost budget: what is charged for what this node takes. Where a node has no limit of
    /// its own the charge is kept for the day when the node moves. The budget lock is held.
    pub(super) fn charged(&self) -> impl Iterator<Item = &ContextNode> {
        core::iter::successors(Some(self), |node| node.parent())
            .take_while(|node| node.is_budgeted())
    }

    /// The smallest slice of the budgets from here up; 0 where one of them is exact.
    pub(crate) fn slice(&self) -> u64 {
        self.budget.slice.load(Ordering::Relaxed)
    }

    /// A budget from here up is exact: nothing is leased, each byte is charged when it is allocated and refunded when it is freed.
    #[inline]
    pub(crate) fn is_exact(&self) -> bool {
        self.is_budgeted() && self.slice() == 0
    }

    pub(crate) fn budget_usage(&self) -> Option<BudgetUsage> {
        let _held = self.root().budget_lock.lock();
        self.budget.read()
    }

    pub(crate) fn budget_high_water(&self) -> Option<u64> {
        let is_set = self.budget.is_set();
        is_set.then(|| self.budget.high.load(Ordering::Relaxed))
    }

    pub(crate) fn restart_high_water(&self) -> Option<BudgetUsage> {
        let _held = self.root().budget_lock.lock();
        let before = self.budget.read()?;
        self.budget.high.store(before.charged, Ordering::Relaxed);
        Some(before)
    }

    pub(crate) fn set_limit(&self, bytes: u64) -> Result<(), HostError> {
        let bytes = bytes.min(u64::MAX - 1);
        if self.try_set_limit(bytes)?.is_some() {
            // What is charged may be this thread's own leases.
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
        // Slices follow the limit, from the top down; where they grew, threads may hide more from a peak from now on.
        super::tree::each(self, |node, _| node.follow_slice());
        Ok(())
    }

    /// What the slice is to be, now that limits here or above are others. The tree lock is held.
    pub(super) fn due_slice(&self) -> u64 {
        let above = self
            .parent()
            .filter(|parent| parent.is_budgeted())
            .map_or(FOLD_MAX.cast_unsigned(), ContextNode::slice);
        self.budget.own_slice().min(above)
    }

    /// See [`due_slice`](ContextNode::due_slice). Those above have followed already.
    pub(super) fn follow_slice(&self) {
        let slice = self.due_slice();
        for row in Scope::ALL.map(|scope| self.row(scope)) {
            if !row.is_untouched() {
                row.lock().note_hidden(slice.cast_signed().max(FOLD_MIN));
            }
        }
        self.budget.slice.store(slice, Ordering::Relaxed);
    }

    /// Sets the limit, unless more than that is charged: then answers how much.
    fn try_set_limit(&self, bytes: u64) -> Result<Option<u64>, HostError> {
        let _held = self.root().budget_lock.lock();
        if !self.budget.is_set() {
            return Err(HostError::Misuse(Misuse::NoBudget));
        }
        let charged = self.budget.charged.load(Ordering::Relaxed);
        if charged > bytes && self.budget.kind() != BudgetKind::Soft {
            return Ok(Some(charged));
        }
        self.budget.limit.store(bytes, Ordering::Relaxed);
        Ok(None)
    }
}

impl super::node::BudgetCell {
    pub(crate) fn is_set(&self) -> bool {
        self.limit.load(Ordering::Relaxed) != u64::MAX
    }

    fn read(&self) -> Option<BudgetUsage> {
        self.is_set().then(|| BudgetUsage {
            limit: self.limit.load(Ordering::Relaxed),
            charged: self.charged.load(Ordering::Relaxed),
            high: self.high.load(Ordering::Relaxed),
            slice: self.slice.load(Ordering::Relaxed),
        })
    }

    /// The slice that this budget by itself allows.
    fn own_slice(&self) -> u64 {
        let limit = self.limit.load(Ordering::Relaxed);
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

    /// Charges what there is room for.
    pub(super) fn add(&self, bytes: u64) {
        let charged = self.charged.load(Ordering::Relaxed).saturating_add(bytes);
        self.charged.store(charged, Ordering::Relaxed);
        if charged > self.high.load(Ordering::Relaxed) {
            self.high.store(charged, Ordering::Relaxed);
        }
    }

    pub(super) fn subtract(&self, bytes: u64) {
        self.charged.store(
            self.charged.load(Ordering::Relaxed).saturating_sub(bytes),
            Ordering::Relaxed,
        );
    }

    fn kind(&self) -> BudgetKind {
        BudgetKind::from_raw(self.kind.load(Ordering::Relaxed))
    }

    /// Bytes that can still be charged; of a soft budget as many as there are numbers.
    pub(super) fn room(&self) -> u64 {
        let limit = match self.kind() {
            BudgetKind::Soft => u64::MAX,
            BudgetKind::Leased | BudgetKind::Exact => self.limit.load(Ordering::Relaxed),
        };
        limit.saturating_sub(self.charged.load(Ordering::Relaxed))
    }
}
