//! Allocates a block: a cell, its page, its record, its fill.

use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::{HostAllocator, Scope};

use super::fill::{self, FRESH};
use super::geometry::{BlockPlacement, Shape};
use super::page_cache::PageCaches;
use super::record::CellRecord;
use super::redzone::Margins;
use super::slot_region::SlotRegion;
use super::slot_state::{self, SlotState};
use super::{Kind, LateFinding, SPAN, SlotRefused, Slots};
use crate::block::{BlockMark, BlockRequest, GuardFinding};
use crate::os::Pages;

/// Of a block of the second region, so many bytes at either end are made [`FRESH`]; what lies between is as the system gives it, zero, and
/// allocates nothing until it is touched.
const LARGE_FRESH: usize = 64 << 10;

/// A cell for a block of up to a page, and the number of its cache.
enum Cell {
    /// Filled with the pattern.
    Ready(u32, usize),
    /// Not provided yet.
    Fresh(u32, usize),
}

/// A request with the shape and the mark of its block.
#[derive(Clone, Copy)]
struct SlotRequest {
    shape: Shape,
    scope: Scope,
    zeroed: bool,
    mark: BlockMark,
}

impl<P: Pages> Slots<P> {
    /// Allocates a block, `right` against the page behind it or else against the page in front.
    ///
    /// Its content is [`FRESH`], or zero. `found` receives findings about freed blocks that were written to.
    ///
    /// # Errors
    /// [`SlotRefused`]; nothing was allocated.
    #[inline(always)]
    pub(crate) fn allocate(
        &self,
        memory: &dyn HostAllocator,
        request: BlockRequest,
        right: bool,
        mark: BlockMark,
        found: &mut LateFinding<'_>,
    ) -> Result<NonNull<u8>, SlotRefused> {
        let BlockRequest {
            layout,
            scope,
            zeroed,
        } = request;
        let request = SlotRequest {
            shape: Shape::new(layout, right),
            scope,
            zeroed,
            mark,
        };
        let page_bytes = self.small.geometry.page_bytes();
        if layout.size() <= page_bytes && layout.align() <= page_bytes {
            self.allocate_single(memory, request, found)
        } else {
            self.allocate_run(memory, request)
        }
    }

    fn allocate_single(
        &self,
        memory: &dyn HostAllocator,
        request: SlotRequest,
        found: &mut LateFinding<'_>,
    ) -> Result<NonNull<u8>, SlotRefused> {
        let mut late = None;
        let mut cell = match self.cached_cell(&mut late) {
            Some(cell) => cell,
            None => self.fetch(memory, &mut late)?,
        };
        if let Cell::Fresh(fresh, cache_number) = cell {
            let place = self.small.geometry.place(fresh, request.shape);
            match self.small.provide(place, None, &self.pattern, self.large()) {
                Ok(()) => return self.finish_allocation(fresh, cache_number, request, None),
                Err(refused) => {
                    self.small.unclaim(fresh, 1);
                    cell = self.reclaim_cell(&mut late).ok_or(refused)?;
                }
            }
        }
        let (Cell::Ready(cell, cache_number) | Cell::Fresh(cell, cache_number)) = cell;
        let mut stale = None;
        let block = self.finish_allocation(cell, cache_number, request, Some(&mut stale));
        if let Some(late) = late {
            found(late);
        }
        if let Some(stale) = stale {
            found(stale);
        }
        block
    }

    /// A cell of the thread's own cache.
    #[inline]
    fn cached_cell(&self, late: &mut Option<GuardFinding>) -> Option<Cell> {
        let (mut cache, cache_number) = self.caches.own();
        if let Some(cell) = cache.ready.pop() {
            return Some(Cell::Ready(cell, cache_number));
        }
        // Before expired cells: those are verified some frees later, when they are prefetched.
        if let Some(cell) = cache.fresh.pop() {
            return Some(Cell::Fresh(cell, cache_number));
        }
        let cell = cache.any_expired(&self.small.table)?;
        self.expire(cell, late);
        Some(Cell::Ready(cell, cache_number))
    }

    /// A cell of the shared free list or of the ring; also fills the cache.
    #[cold]
    fn fetch(
        &self,
        memory: &dyn HostAllocator,
        late: &mut Option<GuardFinding>,
    ) -> Result<Cell, SlotRefused> {
        if self.kind == Kind::Fence {
            let chain = self.small.shared.lock().ready.pop(&self.small.table);
            if let Some(mut chain) = chain {
                let first = chain.pop(&self.small.table);
                let (mut cache, cache_number) = self.caches.own();
                while !cache.ready.is_full()
                    && let Some(cell) = chain.pop(&self.small.table)
                {
                    cache.ready.push(cell);
                }
                drop(cache);
                self.small
                    .shared
                    .lock()
                    .ready
                    .push(&self.small.table, chain);
                if let Some(cell) = first {
                    return Ok(Cell::Ready(cell, cache_number));
                }
            }
        }
        match self.small.claim_some(Some(memory), self.claims) {
            Ok(mut claimed) => {
                let first = claimed.pop().ok_or(SlotRefused::Exhausted)?;
                self.refill_cache(claimed);
                Ok(Cell::Fresh(first, PageCaches::number()))
            }
            Err(refused) => self.reclaim_cell(late).ok_or(refused),
        }
    }

    /// Puts claimed cells into the cache; cells without room are released.
    pub(super) fn refill_cache(&self, mut claimed: super::free_lists::SmallStack) {
        // Reversed, so that the first comes out first.
        claimed.reverse();
        let (mut cache, _) = self.caches.own();
        while !cache.fresh.is_full()
            && let Some(cell) = claimed.pop()
        {
            cache.fresh.push(cell);
        }
        drop(cache);
        while let Some(cell) = claimed.pop() {
            self.small.unclaim(cell, 1);
        }
    }

    /// The last resort: cells in other threads' caches, then the oldest in quarantine.
    #[cold]
    fn reclaim_cell(&self, late: &mut Option<GuardFinding>) -> Option<Cell> {
        for (cache_number, cache) in self.caches.all().enumerate() {
            let mut cache = cache.lock();
            if let Some(cell) = cache.ready.pop() {
                return Some(Cell::Ready(cell, cache_number));
            }
            if let Some(cell) = cache.any_expired(&self.small.table) {
                self.expire(cell, late);
                return Some(Cell::Ready(cell, cache_number));
            }
        }
        let oldest = self.small.shared.lock().quarantine.pop(&self.small.table);
        if let Some(mut chain) = oldest {
            let (mut cache, cache_number) = self.caches.own();
            let cell = chain.pop(&self.small.table);
            while let Some(cell) = chain.pop(&self.small.table) {
                cache.expired.push(&self.small.table, cell);
            }
            self.expire(cell?, late);
            return cell.map(|cell| Cell::Ready(cell, cache_number));
        }
        for (cache_number, cache) in self.caches.all().enumerate() {
            let mut cache = cache.lock();
            if let Some(cell) = cache.staged.pop(&self.small.table) {
                self.expire(cell, late);
                return Some(Cell::Ready(cell, cache_number));
            }
        }
        None
    }

    /// Records the block and fills it. If `stale` is given, the page held another block before, and the redzone is verified.
    #[inline]
    fn finish_allocation(
        &self,
        cell: u32,
        cache_number: usize,
        request: SlotRequest,
        stale: Option<&mut Option<GuardFinding>>,
    ) -> Result<NonNull<u8>, SlotRefused> {
        let record = self.small.record(cell).ok_or(SlotRefused::Exhausted)?;
        let place = self.small.geometry.place(cell, request.shape);
        if let Some(stale) = stale
            && (self.kind == Kind::Strict || record.word().shape() != request.shape)
        {
            *stale = self.stale(cell, record, place, request.shape);
        }
        if self.kind == Kind::Strict {
            record.other.store(0, Relaxed);
        }
        record.set_allocated(request.mark);
        record.set(SlotState::new(
            slot_state::SlotKind::Live,
            request.shape,
            request.scope,
            cache_number,
        ));
        let fresh = if request.zeroed { 0 } else { FRESH };
        if request.shape.size > 0 {
            // SAFETY: the block's page is provided and this thread's alone.
            unsafe { fill::fill(place.start, request.shape.size, fresh) };
        }
        NonNull::new(with_exposed_provenance_mut(place.start)).ok_or(SlotRefused::Exhausted)
    }

    /// Verifies the redzone of a new block: a change happened after the check of the former block.
    fn stale(
        &self,
        cell: u32,
        record: &CellRecord,
        place: BlockPlacement,
        shape: Shape,
    ) -> Option<GuardFinding> {
        let Margins { front, behind, .. } = self.margins(&self.small, place, shape);
        // SAFETY: the page is provided and this thread's alone.
        if unsafe { self.pattern.is_at(front, behind - front) } {
            return None;
        }
        // SAFETY: as above.
        let changed = unsafe { self.pattern.changed(front, behind - front) }?;
        // SAFETY: as above.
        unsafe { self.pattern.write(front, behind - front) };
        Some(self.late(cell, record, changed))
    }

    fn allocate_run(
        &self,
        memory: &dyn HostAllocator,
        request: SlotRequest,
    ) -> Result<NonNull<u8>, SlotRefused> {
        let shape = request.shape;
        if shape.size > SlotState::LIMIT {
            return Err(SlotRefused::Exhausted);
        }
        let small = &self.small.geometry;
        let run = small
            .cells_for(shape)
            .filter(|&cells| cells as usize * small.stride() <= SPAN + small.stride());
        let (region, cells) = match run {
            Some(cells) => (&self.small, cells),
            None => {
                let large = self.make_large(memory)?;
                (
                    large,
                    large
                        .geometry
                        .cells_for(shape)
                        .ok_or(SlotRefused::Exhausted)?,
                )
            }
        };
        let cell = region.claim_run(memory, cells)?;
        let place = region.geometry.place(cell, shape);
        let is_large = run.is_none();
        let zeroed = (request.zeroed || is_large).then_some(shape);
        let elsewhere = if is_large {
            Some(&self.small)
        } else {
            self.large()
        };
        if let Err(refused) = region.provide(place, zeroed, &self.pattern, elsewhere) {
            region.unclaim(cell, cells);
            return Err(refused);
        }
        if !request.zeroed {
            let ends = if is_large {
                LARGE_FRESH.min(shape.size)
            } else {
                shape.size
            };
            // SAFETY: provided just now, this thread's alone.
            unsafe { fill::fill(place.start, ends, FRESH) };
            // SAFETY: as above.
            unsafe { fill::fill(place.start + (shape.size - ends), ends, FRESH) };
        }
        Self::record_allocation(region, cell, cells, request);
        NonNull::new(with_exposed_provenance_mut(place.start)).ok_or(SlotRefused::Exhausted)
    }

    fn record_allocation(region: &SlotRegion<P>, first: u32, cells: u32, request: SlotRequest) {
        for cell in first + 1..first + cells {
            if let Some(record) = region.record(cell) {
                record.link.store(first, Relaxed);
                record.set(SlotState(0).with(slot_state::SlotKind::Body));
            }
        }
        if let Some(record) = region.record(first) {
            record.set_allocated(request.mark);
            record.set(SlotState::new(
                slot_state::SlotKind::Live,
                request.shape,
                request.scope,
                PageCaches::number(),
            ));
        }
    }
}
