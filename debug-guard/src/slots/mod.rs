//! One block per page, between two pages that cannot be accessed.
//!
//! ```text
//!   allocate   the thread's stack -> ready page | fresh cell (provide) | cell of the ring (records grow here only)
//!   free       locks the page cache that the block came from, so one of two frees wins; verifies the redzone; then
//!                Fence    poisons the block and queues it, 32 at a time; a block that leaves the queue is verified and ready again
//!                Strict   moves the page to the next cell of the ring, or revokes it; the addresses stay inaccessible
//!                more than a page: revokes it in both
//!   accuse     which mistake a bad free or a stopped access is
//!   side table (memory of the allocator behind)   cell -> record: word, marks, links; never in pages a program could reach by mistake
//! ```
//! Blocks above [`SPAN`] pages come from a second region whose cells are 1 MiB, protected by `mprotect`. One call provides a whole cell,
//! and the system commits its pages when they are touched.

mod accuse;
mod allocate;
mod fill;
mod find;
mod free;
mod free_lists;
mod geometry;
mod page_cache;
mod record;
mod redzone;
mod retire;
mod shared_free_list;
mod slot_region;
mod slot_state;
mod table;
#[cfg(test)]
mod tests;
mod verify;

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

use alloc_core::HostAllocator;

use crate::block::GuardFinding;
use crate::mode::{BackEnd, Mode};
use crate::os::{OsRefusal, Pages, Region};
use fill::Pattern;
use page_cache::PageCaches;
use slot_region::{RegionPlan, SlotRegion};
use table::SCOPE;

/// What happens with a freed page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It stays accessible, poisoned, until many others were freed.
    Fence,
    /// It is inaccessible at once.
    Strict,
}

/// The options of slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotOptions {
    /// Pages of addresses to reserve; halved until the system agrees. 0: 2^25 for Strict, 2^23 for Fence; on 32 bits 2^17.
    pub(crate) pages: usize,
    /// Maximum number of pages in memory, of live and freed blocks; 0: no limit.
    pub(crate) max_pages: usize,
    /// Fence: the quarantine, in pages and in bytes of whole pages.
    pub(crate) quarantine_blocks: usize,
    pub(crate) quarantine_bytes: usize,
    /// Pages are verified whole, not 256 bytes on either side of the block.
    pub(crate) deep: bool,
    /// The mode of the blocks.
    pub(crate) mode: Mode,
}

/// Why no slots were created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotsError {
    /// The allocator behind refused.
    NoMemory,
    /// The region is too small for one block.
    TooFewPages,
    /// The system refused.
    Os(OsRefusal),
}

/// Why a block was not allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotRefused {
    /// The allocator behind, or the system, has no memory.
    NoMemory,
    /// Addresses, pages or mappings are used up, or the layout is larger than slots permit: a cookie may do.
    Exhausted,
}

/// Receives findings. Called with no lock held and nothing half-done: it may unwind.
pub(crate) type LateFinding<'a> = dyn FnMut(GuardFinding) + 'a;

/// Maximum pages of a run of cells; larger blocks come from the second region.
const SPAN: usize = 256;

/// Blocks between inaccessible pages. Any thread may call; only [`allocate`](Self::allocate) allocates.
pub(crate) struct Slots<P: Pages = Region> {
    small: SlotRegion<P>,
    /// Created when first needed, in memory of the allocator behind.
    large: AtomicPtr<SlotRegion<P>>,
    caches: PageCaches,
    pattern: Pattern,
    page: NonNull<u8>,
    kind: Kind,
    mode: Mode,
    deep: bool,
    /// Freed pages in quarantine.
    limit: u32,
    /// Cells queued together.
    batch: u32,
    /// Cells claimed at a time.
    claims: usize,
}

// SAFETY: regions, table and caches are shared by atomics and locks; the pattern is only read.
unsafe impl<P: Pages> Send for Slots<P> {}
// SAFETY: as above.
unsafe impl<P: Pages> Sync for Slots<P> {}

impl<P: Pages> Slots<P> {
    /// Reserves addresses from the system, and some pages from `memory`.
    ///
    /// # Errors
    /// [`SlotsError`]; nothing was allocated.
    pub(crate) fn new(
        memory: &dyn HostAllocator,
        kind: Kind,
        back_end: BackEnd,
        options: SlotOptions,
    ) -> Result<Self, SlotsError> {
        let usual = match (usize::BITS, kind) {
            (64, Kind::Strict) => 1 << 25,
            (64, Kind::Fence) => 1 << 23,
            _ => 1 << 17,
        };
        let pages = if options.pages == 0 {
            usual
        } else {
            options.pages
        };
        let plan = RegionPlan {
            back_end,
            pages,
            stride_shift: 1,
            max_pages: options.max_pages,
        };
        let page_bytes = P::page_bytes();
        let page = memory
            .allocate(Self::page_layout()?, SCOPE)
            .map_err(|_| SlotsError::NoMemory)?;
        // SAFETY: allocated above with `page_bytes` bytes; stays until `close`.
        let pattern = unsafe { Pattern::fill(page, page_bytes, crate::os::random_u64()) };
        let made = PageCaches::new(memory)
            .map_err(|_| SlotsError::NoMemory)
            .and_then(|caches| {
                match SlotRegion::new(memory, plan, crate::os::random_u64()) {
                    Ok(small) => Ok((caches, small)),
                    Err(error) => {
                        // SAFETY: made above from the same memory, and not used.
                        unsafe { caches.close(memory) };
                        Err(error)
                    }
                }
            });
        let (caches, small) = match made {
            Ok(made) => made,
            Err(error) => {
                // SAFETY: allocated above with this layout and scope.
                unsafe { memory.deallocate(page, Self::page_layout()?, SCOPE) };
                return Err(error);
            }
        };
        let limit = options
            .quarantine_blocks
            .min(options.quarantine_bytes / page_bytes);
        let limit = u32::try_from(limit).unwrap_or(u32::MAX / 2);
        Ok(Self {
            limit,
            batch: (limit / 8).clamp(1, 32),
            claims: (small.geometry.cells() as usize / 64).clamp(1, free_lists::SMALL_STACK),
            small,
            large: AtomicPtr::new(null_mut()),
            caches,
            pattern,
            page,
            kind,
            mode: options.mode,
            deep: options.deep,
        })
    }

    fn page_layout() -> Result<Layout, SlotsError> {
        Layout::from_size_align(P::page_bytes(), P::page_bytes()).map_err(|_| SlotsError::NoMemory)
    }

    /// The back end of the pages.
    pub(crate) fn back_end(&self) -> BackEnd {
        self.small.back_end()
    }

    fn large(&self) -> Option<&SlotRegion<P>> {
        // SAFETY: null, or made by `make_large` and there until `close`.
        unsafe { self.large.load(Acquire).as_ref() }
    }

    /// The second region, created now if necessary.
    fn make_large(&self, memory: &dyn HostAllocator) -> Result<&SlotRegion<P>, SlotRefused> {
        if let Some(large) = self.large() {
            return Ok(large);
        }
        let page_bytes = P::page_bytes();
        let stride = ((1 << 20) / page_bytes).max(2);
        let bytes = 1_usize << if usize::BITS == 64 { 40 } else { 28 };
        let plan = RegionPlan {
            back_end: BackEnd::Mprotect,
            pages: bytes / page_bytes + 1,
            stride_shift: stride.trailing_zeros(),
            max_pages: self.small.max_pages(),
        };
        let region = SlotRegion::<P>::new(memory, plan, crate::os::random_u64()).map_err(
            |error| match error {
                SlotsError::NoMemory => SlotRefused::NoMemory,
                _ => SlotRefused::Exhausted,
            },
        )?;
        let layout = Layout::new::<SlotRegion<P>>();
        let Ok(place) = memory.allocate(layout, SCOPE) else {
            // SAFETY: made above, not used.
            unsafe { region.close(memory) };
            return Err(SlotRefused::NoMemory);
        };
        let place = place.cast::<SlotRegion<P>>();
        // SAFETY: allocated above with room for it.
        unsafe { place.write(region) };
        if self
            .large
            .compare_exchange(null_mut(), place.as_ptr(), AcqRel, Acquire)
            .is_err()
        {
            // Another thread was faster.
            // SAFETY: written above, not shared.
            unsafe { Self::close_large(place, memory) };
        }
        self.large().ok_or(SlotRefused::NoMemory)
    }

    /// # Safety
    /// Made by `make_large` from `memory`, and it is no longer used.
    unsafe fn close_large(place: NonNull<SlotRegion<P>>, memory: &dyn HostAllocator) {
        // SAFETY: written once, read once.
        let region = unsafe { place.read() };
        // SAFETY: the caller's promise.
        unsafe { region.close(memory) };
        // SAFETY: taken with this layout and scope.
        unsafe { memory.deallocate(place.cast(), Layout::new::<SlotRegion<P>>(), SCOPE) };
    }

    /// Frees addresses and records.
    ///
    /// # Safety
    /// `memory` is that of `new`; no block is live, and these slots are not used by other threads.
    pub(crate) unsafe fn close(self, memory: &dyn HostAllocator) {
        if let Some(large) = NonNull::new(self.large.load(Relaxed)) {
            // SAFETY: made by `make_large`; forwarded.
            unsafe { Self::close_large(large, memory) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.small.close(memory) };
        // SAFETY: the caller's promise.
        unsafe { self.caches.close(memory) };
        if let Ok(layout) = Self::page_layout() {
            // SAFETY: allocated in `new` with this layout and scope.
            unsafe { memory.deallocate(self.page, layout, SCOPE) };
        }
    }
}
