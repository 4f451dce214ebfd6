//! One block per page, between two pages that cannot be accessed.
//!
//! ```text
//!   allocate   a ready page, else a cell: one that rested long enough, or one that was never used (records grow here only)
//!   free       takes the block out of use, so that of two frees one wins; verifies the redzone; then
//!                Fence    poisons the block and queues it; the oldest that waits is verified, and its page is ready again
//!                Strict   moves the page to another cell, or revokes it; the addresses stay inaccessible
//!                more than a page: revokes it in both
//!   classify   which mistake a bad free or a stopped access is
//!   side table (memory of the allocator behind)   cell -> record: word, marks, link; never in pages a program could reach by mistake
//! ```
//! One lock (`lists.rs`), never held over a system call or the allocator behind.
//!
//! The *cell rule* of the SAFETY comments: the pages of a cell, provided or not, are its owner's alone: who claimed
//! it, who has its live block, who took that out of use, or, while a block waits in quarantine, who has the lock of
//! the lists.

mod allocate;
mod classify;
mod free;
mod geometry;
mod lists;
mod record;
mod redzone;
#[cfg(test)]
mod tests;
mod verify;

use core::alloc::Layout;
use core::sync::atomic::AtomicUsize;

use alloc_core::{HostAllocator, Scope};

use crate::mode::{BackEnd, Mode};
use crate::os::lock::ForkSafeMutex;
use crate::os::{self, OsRefusal, PageCalls, Region};
use crate::segments::Record;
use geometry::Geometry;
use lists::Lists;
use record::{CellRecord, CellTable};
use redzone::Pattern;

#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotOptions {
    /// Halved until the system agrees. 0: the usual number.
    pub(crate) pages: usize,
    /// Pages with memory, of live and freed blocks; 0: no limit.
    pub(crate) max_pages: usize,
    /// The quarantine of Fence, which counts whole pages.
    pub(crate) quarantine_blocks: usize,
    pub(crate) quarantine_bytes: usize,
    /// Pages are verified whole.
    pub(crate) deep: bool,
    pub(crate) mode: Mode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotsError {
    NoMemory,
    TooFewPages,
    Os(OsRefusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotRefused {
    /// The allocator behind, or the system, has no memory.
    NoMemory,
    /// Addresses, pages or mappings are used up, or the layout is larger than slots permit: a cookie may do.
    Exhausted,
}

const SCOPE: Scope = Scope::Instance;
const USUAL_PAGES: usize = 1 << if usize::BITS == 64 { 25 } else { 17 };
const MIN_PAGES: usize = 1 << 11;

// SAFETY: 64 bytes, aligned to as many, of atomics alone.
unsafe impl Record for CellRecord {}

/// Only [`allocate`](Self::allocate) allocates.
pub(crate) struct Slots {
    pages: Region,
    geometry: Geometry,
    table: CellTable,
    lists: ForkSafeMutex<Lists>,
    provided: AtomicUsize,
    max_pages: usize,
    pattern: Pattern,
    mode: Mode,
    deep: bool,
    limit: u32,
}

impl Slots {
    pub(crate) fn new(memory: &dyn HostAllocator, back_end: BackEnd, options: SlotOptions) -> Result<Self, SlotsError> {
        let calls = os::page_calls(back_end).ok_or(SlotsError::Os(OsRefusal::Unavailable))?;
        Self::with_calls(memory, calls, options)
    }

    fn with_calls(
        memory: &dyn HostAllocator,
        calls: &'static dyn PageCalls,
        options: SlotOptions,
    ) -> Result<Self, SlotsError> {
        let wanted = |number, default| if number == 0 { default } else { number };
        let mut count = wanted(options.pages, USUAL_PAGES);
        let pages = loop {
            match Region::reserve(calls, count) {
                Ok(pages) => break pages,
                Err(OsRefusal::Call { .. }) if count / 2 >= MIN_PAGES => count /= 2,
                Err(refusal) => return Err(SlotsError::Os(refusal)),
            }
        };
        let page_bytes = calls.page_bytes();
        let shift = page_bytes.trailing_zeros();
        let geometry = Geometry::new(pages.base(), pages.pages(), shift).ok_or(SlotsError::TooFewPages)?;
        let page = memory.allocate(pattern_layout(page_bytes)?, SCOPE).map_err(|_| SlotsError::NoMemory)?;
        // SAFETY: allocated above with so many bytes; stays until `close`.
        let pattern = unsafe { Pattern::fill(page, page_bytes, os::random_u64()) };
        let limit = options.quarantine_bytes / page_bytes;
        Ok(Self {
            pages,
            geometry,
            table: CellTable::new(),
            lists: ForkSafeMutex::new(Lists::new(os::random_u64())),
            provided: AtomicUsize::new(0),
            max_pages: wanted(options.max_pages, usize::MAX),
            pattern,
            mode: options.mode,
            deep: options.deep,
            limit: u32::try_from(limit.min(options.quarantine_blocks)).unwrap_or(u32::MAX),
        })
    }

    /// # Safety
    /// `memory` is that of `new`; no block is live, and no other thread uses these slots.
    pub(crate) unsafe fn close(mut self, memory: &dyn HostAllocator) {
        // SAFETY: this function's contract.
        unsafe { self.table.close(memory) };
        if let Ok(layout) = pattern_layout(self.pages.page_bytes()) {
            // SAFETY: allocated in `new` with this layout and scope.
            unsafe { memory.deallocate(self.pattern.page(), layout, SCOPE) };
        }
    }
}

fn pattern_layout(page_bytes: usize) -> Result<Layout, SlotsError> {
    Layout::from_size_align(page_bytes, page_bytes).map_err(|_| SlotsError::NoMemory)
}
