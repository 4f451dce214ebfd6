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
/// takes no memory until it is touched.
const LARGE_FRESH: usize = 64 << 10;

/// A cell for a block of up to a page, and the stash it came from.
enum Cell {
    /// Full of the pattern.
    Ready(u32, usize),
    /// To be provided.
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
    /// Takes a block, `right` against the page behind it or else against the page in front.
    ///
    /// Its content is [`FRESH`], or zero. `found` hears of freed blocks that were written to, found on the way.
    ///
    /// # Errors
    /// [`SlotRefused`]; nothing was taken.
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
        if let Cell::Fresh(fresh, home) = cell {
            let place = self.small.geometry.place(fresh, request.shape);
            match self.small.provide(place, None, &self.pattern, self.large()) {
                Ok(()) => return self.finish_allocation(fresh, home, request, None),
                Err(refused) => {
                    self.small.unclaim(fresh, 1);
                    cell = self.reclaim_cell(&mut late).ok_or(refused)?;
                }
            }
        }
        let (Cell::Ready(cell, home) | Cell::Fresh(cell, home)) = cell;
        let mut stale = None;
        let block = self.finish_allocation(cell, home, request, Some(&mut stale));
        if let Some(late) = late {
            found(late);
        }
        if let Some(stale) = stale {
            found(stale);
        }
        block
    }

    /// From the thread's own stash.
    #[inline]
    fn cached_cell(&self, late: &mut Option<GuardFinding>) -> Option<Cell> {
        let (mut stash, home) = self.stashes.own();
        if let Some(cell) = stash.ready.pop() {
            return Some(Cell::Ready(cell, home));
        }
        // Before what has expired: that is looked at some frees later, when it has been fetched.
        if let Some(cell) = stash.fresh.pop() {
            return Some(Cell::Fresh(cell, home));
        }
        let cell = stash.any_expired(&self.small.table)?;
        self.expire(cell, late);
        Some(Cell::Ready(cell, home))
    }

    /// From what the threads share, or from the ring; the stash is filled on the way.
    #[cold]
    fn fetch(
        &self,
        memory: &dyn HostAllocator,
        late: &mut Option<GuardFinding>,
    ) -> Result<Cell, SlotRefused> {
        if self.kind == Kind::Fence {
            let chain = self.small.depot.lock().ready.pop(&self.small.table);
            if let Some(mut chain) = chain {
                let first = chain.pop(&self.small.table);
                let (mut stash, home) = self.stashes.own();
                while !stash.ready.is_full()
                    && let Some(cell) = chain.pop(&self.small.table)
                {
                    stash.ready.push(cell);
                }
                drop(stash);
                self.small.depot.lock().ready.push(&self.small.table, chain);
                if let Some(cell) = first {
                    return Ok(Cell::Ready(cell, home));
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

    /// Puts claimed cells into the stash; what it has no room for is anybody's again.
    pub(super) fn refill_cache(&self, mut claimed: super::free_lists::SmallStack) {
        // From the last on, so that the first comes out first.
        claimed.reverse();
        let (mut stash, _) = self.stashes.own();
        while !stash.fresh.is_full()
            && let Some(cell) = claimed.pop()
        {
            stash.fresh.push(cell);
        }
        drop(stash);
        while let Some(cell) = claimed.pop() {
            self.small.unclaim(cell, 1);
        }
    }

    /// When there is nothing else: what other threads have at hand, and what waits in the quarantine, the oldest first.
    #[cold]
    fn reclaim_cell(&self, late: &mut Option<GuardFinding>) -> Option<Cell> {
        for (home, stash) in self.stashes.all().enumerate() {
            let mut stash = stash.lock();
            if let Some(cell) = stash.ready.pop() {
                return Some(Cell::Ready(cell, home));
            }
            if let Some(cell) = stash.any_expired(&self.small.table) {
                self.expire(cell, late);
                return Some(Cell::Ready(cell, home));
            }
        }
        let oldest = self.small.depot.lock().quarantine.pop(&self.small.table);
        if let Some(mut chain) = oldest {
            let (mut stash, home) = self.stashes.own();
            let cell = chain.pop(&self.small.table);
            while let Some(cell) = chain.pop(&self.small.table) {
                stash.expired.push(&self.small.table, cell);
            }
            self.expire(cell?, late);
            return cell.map(|cell| Cell::Ready(cell, home));
        }
        for (home, stash) in self.stashes.all().enumerate() {
            let mut stash = stash.lock();
            if let Some(cell) = stash.staged.pop(&self.small.table) {
                self.expire(cell, late);
                return Some(Cell::Ready(cell, home));
            }
        }
        None
    }

    /// Records the block and fills it. If `stale` is given, the page held another block before, and the redzone is verified.
    #[inline]
    fn finish_allocation(
        &self,
        cell: u32,
        home: usize,
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
            home,
        ));
        let fresh = if request.zeroed { 0 } else { FRESH };
        if request.shape.size > 0 {
            // SAFETY: the block's page is provided and this thread's alone.
            unsafe { fill::fill(place.start, request.shape.size, fresh) };
        }
        NonNull::new(with_exposed_provenance_mut(place.start)).ok_or(SlotRefused::Exhausted)
    }

    /// Looks at what will be around a block before it is there: what is not the pattern was changed after the block before was looked at.
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
        let (ground, cells) = match run {
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
        let cell = ground.claim_run(memory, cells)?;
        let place = ground.geometry.place(cell, shape);
        let is_large = run.is_none();
        let zeroed = (request.zeroed || is_large).then_some(shape);
        let elsewhere = if is_large {
            Some(&self.small)
        } else {
            self.large()
        };
        if let Err(refused) = ground.provide(place, zeroed, &self.pattern, elsewhere) {
            ground.unclaim(cell, cells);
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
        Self::record_allocation(ground, cell, cells, request);
        NonNull::new(with_exposed_provenance_mut(place.start)).ok_or(SlotRefused::Exhausted)
    }

    fn record_allocation(ground: &SlotRegion<P>, first: u32, cells: u32, request: SlotRequest) {
        for cell in first + 1..first + cells {
            if let Some(record) = ground.record(cell) {
                record.link.store(first, Relaxed);
                record.set(SlotState(0).with(slot_state::SlotKind::Body));
            }
        }
        if let Some(record) = ground.record(first) {
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
