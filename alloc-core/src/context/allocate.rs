//! The hot path: one backing call and a few plain stores.
//!
//! The thread's entry is looked up *after* the backing call, because the backing may itself use contexts and evict the
//! entry.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::AllocError;

use super::backing::DynAllocator;
use super::budget_charge::Reservation;
use super::node::{ABANDONED, BUDGETED, CLOSED, ContextNode, TRACKS_REQUESTER};
use crate::account::{AccountEntry, Counts, FOLD_MAX, FOLD_MIN};
use crate::error::HostError;
use crate::host::dangling;
use crate::scope::Scope;
use crate::threads::{ThreadTable, with_table};

impl ContextNode {
    #[inline]
    pub(crate) fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        ThreadTable::with(|table| self.allocate_on(table, layout, scope))
    }

    #[inline(always)]
    pub(crate) fn allocate_on(
        &self,
        table: ThreadTable<'_>,
        layout: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        if self.flags() & (CLOSED | BUDGETED | TRACKS_REQUESTER) != 0 {
            return self.allocate_limited(table, layout, scope);
        }
        // SAFETY: an abandoned node is closed, and this one is not.
        let Ok(block) = unsafe { self.backing.get() }.allocate(layout, scope) else {
            return self.refused_by_backing(layout, scope);
        };
        match table.find(self.tag(scope)) {
            Some(entry) if entry.record_alloc(layout.size() as u64, 1) => self.allocated_and_fold(block, scope),
            Some(_) => Ok(block),
            None => self.allocated_without_entry(block, layout, scope),
        }
    }

    #[cold]
    #[inline(never)]
    fn allocated_and_fold(&self, block: NonNull<u8>, scope: Scope) -> Result<NonNull<u8>, AllocError> {
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

    #[inline(never)]
    fn allocate_limited(
        &self,
        table: ThreadTable<'_>,
        layout: Layout,
        scope: Scope,
    ) -> Result<NonNull<u8>, AllocError> {
        // A layout's size is at most `isize::MAX`.
        let bytes = (layout.size() as u64).cast_signed();
        let slice = self.slice().cast_signed();
        let entry = || table.find(self.tag(scope));
        // Without a budget the ceiling is no lease; an exact budget leases nothing.
        let is_leased = self.flags() & (CLOSED | BUDGETED) == BUDGETED && slice != 0;
        let leased = entry().filter(|entry| is_leased && bytes <= entry.ceiling().wrapping_sub(entry.delta()));
        let Some(entry_before) = leased else {
            return self.allocate_checked(layout, scope, |backing| backing.allocate(layout, scope));
        };
        entry_before.set_ceiling(entry_before.ceiling().wrapping_sub(bytes));
        let reserved = Reservation::of(self, scope, bytes.cast_unsigned());
        let block = self.with_requester(|backing| backing.allocate(layout, scope));
        core::mem::forget(reserved);
        let hidden = slice.clamp(FOLD_MIN, FOLD_MAX);
        match entry() {
            Some(entry) if block.is_ok() && entry.delta().wrapping_add(bytes) <= hidden => {
                entry.set_ceiling(entry.ceiling().wrapping_add(bytes));
                entry.record_alloc(bytes.cast_unsigned(), 1);
            }
            _ => self.conclude(scope, bytes.cast_unsigned(), 1, block.is_ok()),
        }
        block.or_else(|_| self.refused_by_backing(layout, scope))
    }

    pub(crate) fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if layout.size() == 0 {
            return Ok(dangling(layout));
        }
        self.allocate_checked(layout, scope, |backing| backing.allocate_zeroed(layout, scope))
    }

    fn allocate_checked(
        &self,
        layout: Layout,
        scope: Scope,
        call: impl FnOnce(&DynAllocator) -> Result<NonNull<u8>, AllocError>,
    ) -> Result<NonNull<u8>, AllocError> {
        self.call_checked(scope, layout.size() as u64, 1, call)?.or_else(|_| self.refused_by_backing(layout, scope))
    }

    /// The outer error is this node's refusal, the inner one the backing's.
    #[inline]
    fn call_checked(
        &self,
        scope: Scope,
        bytes: u64,
        blocks: u64,
        call: impl FnOnce(&DynAllocator) -> Result<NonNull<u8>, AllocError>,
    ) -> Result<Result<NonNull<u8>, AllocError>, AllocError> {
        if self.flags() & CLOSED != 0 {
            return Err(self.refuse(scope, HostError::Closed { context: self.id() }));
        }
        let reserved = if self.is_budgeted() { Some(self.reserve(scope, bytes)?) } else { None };
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
        // SAFETY: this function's contract.
        ThreadTable::with(|table| unsafe { self.deallocate_on(table, block, layout, scope) });
    }

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
            // SAFETY: this function's contract.
            return unsafe { self.deallocate_limited(block, layout, scope) };
        }
        match table.find(self.tag(scope)) {
            Some(entry) if entry.ceiling().wrapping_add(entry.record_free(layout.size() as u64, 1)) >= 0 => {
                // SAFETY: not abandoned above, nor since: other threads' calls end before a context is abandoned.
                let backing = unsafe { self.backing.get() };
                // SAFETY: this function's contract: the block is the backing's.
                unsafe { backing.deallocate(block, layout, scope) }
            }
            entry => {
                let is_counted = entry.is_some();
                // SAFETY: this function's contract.
                unsafe { self.freed_and_fold(block, layout, scope, is_counted) }
            }
        }
    }

    /// Refunds after the free: the limit also holds for what the backing has handed out.
    ///
    /// # Safety
    /// As [`ContextNode::deallocate`].
    #[inline(never)]
    unsafe fn deallocate_limited(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: this function's contract: the block is the backing's.
        self.with_requester(|backing| unsafe { backing.deallocate(block, layout, scope) });
        self.count_free(scope, layout.size() as u64, 1);
    }

    /// The block is counted in the thread's entry, which must be folded, or in no entry yet.
    ///
    /// # Safety
    /// As [`ContextNode::deallocate`].
    #[cold]
    #[inline(never)]
    unsafe fn freed_and_fold(&self, block: NonNull<u8>, layout: Layout, scope: Scope, is_counted: bool) {
        if is_counted {
            self.fold_own(scope);
        } else {
            self.count_miss(scope, layout.size() as u64, 1, false);
        }
        // SAFETY: this function's contract: the block is the backing's.
        unsafe { self.backing().deallocate(block, layout, scope) };
    }

    /// Counts the difference only: no block is counted twice.
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
        let Some(more) = (new.size() as u64).checked_sub(old.size() as u64).filter(|more| *more > 0) else {
            // SAFETY: this function's contract: the block is the backing's.
            let shrunk = self.with_requester(|backing| unsafe { backing.resize(block, old, new, scope) });
            let Ok(block) = shrunk else {
                return self.refused_by_backing(new, scope);
            };
            let less = (old.size() as u64).saturating_sub(new.size() as u64);
            if less > 0 {
                self.count_free(scope, less, 0);
            }
            return Ok(block);
        };
        // SAFETY: this function's contract: the block is the backing's.
        let call = |backing: &DynAllocator| unsafe { backing.resize(block, old, new, scope) };
        self.call_checked(scope, more, 0, call)?.or_else(|_| {
            let growth = Layout::from_size_align(more as usize, new.align());
            self.refused_by_backing(growth.unwrap_or(new), scope)
        })
    }
}

impl ContextNode {
    #[inline(always)]
    fn with_entry<R>(&self, scope: Scope, f: impl FnOnce(Option<&AccountEntry>) -> R) -> R {
        with_table(|table| f(table.and_then(|table| table.find(self.tag(scope)))))
    }

    /// `None` when the thread is ending or there are no thread-locals.
    #[inline]
    pub(super) fn with_opened_entry<R>(&self, scope: Scope, f: impl FnOnce(Option<&AccountEntry>) -> R) -> R {
        with_table(|table| f(table.and_then(|table| table.find(self.tag(scope)).or_else(|| table.open(self, scope)))))
    }

    #[inline]
    pub(crate) fn count_allocation(&self, scope: Scope, bytes: u64, blocks: u64) {
        self.with_entry(scope, |entry| match entry {
            Some(entry) => {
                if entry.record_alloc(bytes, blocks) {
                    self.fold(scope, entry);
                }
            }
            None => self.count_miss(scope, bytes, blocks, true),
        });
    }

    #[inline]
    pub(crate) fn count_free(&self, scope: Scope, bytes: u64, blocks: u64) {
        self.with_entry(scope, |entry| match entry {
            Some(entry) => {
                let delta = entry.record_free(bytes, blocks);
                if self.is_due(entry, delta) {
                    self.fold(scope, entry);
                }
            }
            None => self.count_miss(scope, bytes, blocks, false),
        });
    }

    #[cold]
    fn count_miss(&self, scope: Scope, bytes: u64, blocks: u64, allocated: bool) {
        with_table(|table| match table.and_then(|table| table.open(self, scope)) {
            Some(entry) => {
                let fold = if allocated {
                    entry.record_alloc(bytes, blocks)
                } else {
                    let delta = entry.record_free(bytes, blocks);
                    self.is_budgeted() || entry.ceiling().saturating_add(delta) < 0
                };
                if fold {
                    self.fold(scope, entry);
                }
            }
            None => {
                let mut counts = Counts::default();
                if allocated {
                    (counts.alloc_bytes, counts.alloc_blocks) = (bytes, blocks);
                } else {
                    (counts.free_bytes, counts.free_blocks) = (bytes, blocks);
                }
                self.count_directly(scope, &counts);
                if !allocated && self.is_budgeted() {
                    self.refund(bytes);
                }
            }
        });
    }

    #[cold]
    pub(crate) fn fold(&self, scope: Scope, entry: &AccountEntry) {
        let budgeted = self.is_budgeted();
        let mut excess = 0;
        {
            let row = self.row(scope).lock();
            let counts = entry.drain();
            row.fold(&counts);
            if budgeted {
                let unused = entry.ceiling().saturating_sub(counts.delta());
                let slice = self.slice().cast_signed();
                let keep = if unused > slice { slice / 2 } else { unused };
                excess = unused.saturating_sub(keep);
                entry.set_ceiling(keep);
                row.note_hidden(slice.max(FOLD_MIN));
            } else {
                entry.set_ceiling(row.next_threshold());
            }
        }
        if excess > 0 {
            self.refund(excess.cast_unsigned());
        }
    }

    #[inline]
    fn is_due(&self, entry: &AccountEntry, delta: i64) -> bool {
        if self.is_budgeted() {
            let slice = self.slice().cast_signed();
            entry.ceiling().wrapping_sub(delta) > slice || delta < -slice.clamp(FOLD_MIN, FOLD_MAX)
        } else {
            entry.ceiling().wrapping_add(delta) < 0
        }
    }

    fn fold_own(&self, scope: Scope) {
        self.with_entry(scope, |entry| {
            if let Some(entry) = entry {
                self.fold(scope, entry);
            }
        });
    }
}
