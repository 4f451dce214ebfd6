//! The hot path: one backing call and a few plain stores.
//!
//! The thread's entry is looked up *after* the backing call, because the backing may itself use contexts and evict the entry. A
//! request that the backing refuses was never counted, so nothing is rolled back.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::backing::DynAllocator;
use super::lease::Reservation;
use super::node::{ABANDONED, BUDGETED, CLOSED, ContextNode, TRACKS_REQUESTER};
use crate::account::{FOLD_MAX, FOLD_MIN};
use crate::host::dangling;
use crate::scope::Scope;
use crate::threads::ThreadTable;

/// Whether an operation was counted in the thread's entry.
enum Counted {
    Yes,
    /// Yes, and the entry must be folded.
    AndDue,
    /// The thread has no open entry for the row.
    No,
}

impl ContextNode {
    #[inline]
    pub(crate) fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.allocate_and(layout, scope, |bytes| {
            ThreadTable::with(|table| self.count_block(table, bytes, scope))
        })
    }

    /// As [`allocate`](Self::allocate), with the thread's table.
    #[inline(always)]
    pub(crate) fn allocate_on(
        &self,
        table: ThreadTable<'_>,
        layout: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        self.allocate_and(layout, scope, |bytes| self.count_block(table, bytes, scope))
    }

    #[inline(always)]
    fn allocate_and(
        &self,
        layout: Layout,
        scope: Scope,
        count: impl FnOnce(u64) -> Counted,
    ) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        if self.flags() & (CLOSED | BUDGETED | TRACKS_REQUESTER) != 0 {
            return self.allocate_limited(layout, scope);
        }
        // SAFETY: a node that was abandoned is closed.
        let Ok(block) = unsafe { self.backing.get() }.allocate(layout, scope) else {
            return self.refused_by_backing(layout, scope);
        };
        let counted = count(layout.size() as u64);
        // The rare branches pass the block through and return it: no register has to survive a call.
        match counted {
            Counted::Yes => Ok(block),
            Counted::AndDue => self.allocated_and_fold(block, scope),
            Counted::No => self.allocated_without_entry(block, layout, scope),
        }
    }

    #[inline(always)]
    fn count_block(&self, table: ThreadTable<'_>, bytes: u64, scope: Scope) -> Counted {
        match table.find(self.slot(scope), self.tag(scope)) {
            Some(entry) if entry.record_alloc(bytes, 1) => Counted::AndDue,
            Some(_) => Counted::Yes,
            None => Counted::No,
        }
    }

    #[cold]
    #[inline(never)]
    fn allocated_and_fold(
        &self,
        block: NonNull<u8>,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        self.fold_own(scope);
        Ok(block)
    }

    #[cold]
    #[inline(never)]
    fn allocated_without_entry(
        &self,
        block: NonNull<u8>,
        layout: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        self.count_miss(scope, layout.size() as u64, 1, true);
        Ok(block)
    }

    /// For closed and budgeted nodes, and for those whose backing tracks requesters. While the thread's lease lasts, a budget costs a few
    /// loads and stores.
    #[inline(never)]
    fn allocate_limited(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        // A layout's size is at most `isize::MAX`.
        let bytes = (layout.size() as u64).cast_signed();
        // Without a budget the ceiling is no lease, and an exact budget leases nothing.
        let leased = self.flags() & (CLOSED | BUDGETED) == BUDGETED
            && !self.is_exact()
            && self.with_entry(scope, |entry| match entry {
                Some(entry) if bytes <= entry.ceiling().wrapping_sub(entry.delta()) => {
                    entry.set_ceiling(entry.ceiling().wrapping_sub(bytes));
                    true
                }
                _ => false,
            });
        if !leased {
            return self.allocate_checked(layout, scope, |backing| backing.allocate(layout, scope));
        }
        let reserved = Reservation::of(self, scope, bytes.cast_unsigned());
        let block = self.with_requester(|backing| backing.allocate(layout, scope));
        core::mem::forget(reserved);
        let hidden = self.slice().cast_signed().clamp(FOLD_MIN, FOLD_MAX);
        let concluded = self.with_entry(scope, |entry| match entry {
            Some(entry) if block.is_ok() && entry.delta().wrapping_add(bytes) <= hidden => {
                entry.set_ceiling(entry.ceiling().wrapping_add(bytes));
                entry.record_alloc(bytes.cast_unsigned(), 1);
                true
            }
            _ => false,
        });
        if !concluded {
            self.conclude(scope, bytes.cast_unsigned(), 1, block.is_ok());
        }
        block.or_else(|_| self.refused_by_backing(layout, scope))
    }

    pub(crate) fn allocate_zeroed(
        &self,
        layout: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        self.allocate_checked(layout, scope, |backing| {
            backing.allocate_zeroed(layout, scope)
        })
    }

    /// With the checks for closed and budgeted nodes.
    fn allocate_checked(
        &self,
        layout: Layout,
        scope: Scope,
        call: impl FnOnce(&DynAllocator) -> Result<NonNull<u8>, AllocError>,
    ) -> Result<NonNull<u8>, AllocError> {
        self.call_checked(scope, layout.size() as u64, 1, call)?
            .or_else(|_| self.refused_by_backing(layout, scope))
    }

    /// Calls the backing for `bytes` more in `blocks` more blocks: reserves them in the budgets before the call and counts them after it.
    /// The outer error is this node's own refusal, the inner one the backing's.
    #[inline]
    fn call_checked(
        &self,
        scope: Scope,
        bytes: u64,
        blocks: u64,
        call: impl FnOnce(&DynAllocator) -> Result<NonNull<u8>, AllocError>,
    ) -> Result<Result<NonNull<u8>, AllocError>, AllocError> {
        if self.flags() & CLOSED != 0 {
            return Err(self.refuse_closed(scope));
        }
        let reserved = if self.is_budgeted() {
            Some(self.reserve(scope, bytes)?)
        } else {
            None
        };
        let block = self.with_requester(call);
        if let Some(reserved) = reserved {
            reserved.conclude(blocks, block.is_ok());
        } else if block.is_ok() {
            self.count_allocation(scope, bytes, blocks);
        }
        Ok(block)
    }

    /// # Safety
    /// As [`HostAllocator::deallocate`](crate::HostAllocator::deallocate), for a block of this node.
    #[inline]
    pub(crate) unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: this function's contract, which is the same.
        ThreadTable::with(|table| unsafe { self.deallocate_on(table, block, layout, scope) });
    }

    /// As [`deallocate`](Self::deallocate), with the thread's table.
    ///
    /// # Safety
    /// As [`deallocate`](Self::deallocate).
    #[inline]
    pub(crate) unsafe fn deallocate_on(
        &self,
        table: ThreadTable<'_>,
        block: NonNull<u8>,
        layout: Layout,
        scope: Scope,
    ) {
        if layout.size() == 0 {
            return;
        }
        if self.flags() & (ABANDONED | BUDGETED | TRACKS_REQUESTER) != 0 {
            // SAFETY: this function's contract, which is the same.
            return unsafe { self.deallocate_limited(block, layout, scope) };
        }
        let counted = match table.find(self.slot(scope), self.tag(scope)) {
            Some(entry) => {
                let delta = entry.record_free(layout.size() as u64, 1);
                if entry.ceiling().wrapping_add(delta) < 0 {
                    Counted::AndDue
                } else {
                    Counted::Yes
                }
            }
            None => Counted::No,
        };
        // As in `allocate`: the rare branches do the rest themselves.
        match counted {
            // SAFETY: a live block of this node (this function's contract), and so of its backing.
            Counted::Yes => unsafe { self.backing().deallocate(block, layout, scope) },
            // SAFETY: this function's contract, which is the same.
            Counted::AndDue => unsafe { self.freed_and_fold(block, layout, scope) },
            // SAFETY: this function's contract, which is the same.
            Counted::No => unsafe { self.freed_without_entry(block, layout, scope) },
        }
    }

    /// For nodes with a budget, those whose backing tracks requesters, and those that were abandoned. The bytes are refunded after the block is freed, so that the
    /// limit also holds for the memory that the backing has handed out.
    ///
    /// # Safety
    /// As [`ContextNode::deallocate`].
    #[inline(never)]
    unsafe fn deallocate_limited(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: a live block of this node (this function's contract), and so of its backing.
        self.with_requester(|backing| unsafe { backing.deallocate(block, layout, scope) });
        self.count_free(scope, layout.size() as u64, 1);
    }

    /// # Safety
    /// As [`ContextNode::deallocate`].
    #[cold]
    #[inline(never)]
    unsafe fn freed_and_fold(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        self.fold_own(scope);
        // SAFETY: a live block of this node (this function's contract), and so of its backing.
        unsafe { self.backing().deallocate(block, layout, scope) };
    }

    /// # Safety
    /// As [`ContextNode::deallocate`].
    #[cold]
    #[inline(never)]
    unsafe fn freed_without_entry(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        self.count_miss(scope, layout.size() as u64, 1, false);
        // SAFETY: a live block of this node (this function's contract), and so of its backing.
        unsafe { self.backing().deallocate(block, layout, scope) };
    }

    /// Grows or shrinks. Counts the difference only: no block is counted twice, and the total rises by the growth.
    ///
    /// # Safety
    /// As [`HostAllocator::resize`](crate::HostAllocator::resize), for a block of this node.
    pub(crate) unsafe fn resize(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        if old.size() == 0 {
            return self.allocate(new, scope);
        }
        if new.size() == 0 {
            // SAFETY: this function's contract.
            unsafe { self.deallocate(block, old, scope) };
            return Ok(dangling(new));
        }
        let Some(more) = (new.size() as u64)
            .checked_sub(old.size() as u64)
            .filter(|more| *more > 0)
        else {
            // SAFETY: a live block of this node (this function's contract), and so of its backing.
            let shrunk =
                self.with_requester(|backing| unsafe { backing.resize(block, old, new, scope) });
            let Ok(block) = shrunk else {
                return self.refused_by_backing(new, scope);
            };
            let less = (old.size() as u64).saturating_sub(new.size() as u64);
            if less > 0 {
                self.count_free(scope, less, 0);
            }
            return Ok(block);
        };
        // SAFETY: a live block of this node (this function's contract), and so of its backing.
        let call = |backing: &DynAllocator| unsafe { backing.resize(block, old, new, scope) };
        self.call_checked(scope, more, 0, call)?.or_else(|_| {
            // Only the growth was missing.
            let growth = Layout::from_size_align(more as usize, new.align());
            self.refused_by_backing(growth.unwrap_or(new), scope)
        })
    }
}
