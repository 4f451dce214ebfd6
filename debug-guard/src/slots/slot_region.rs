//! A region with its side table and its ring: cells are claimed, their pages provided and revoked, and the cells left again.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

use alloc_core::HostAllocator;

use super::fill::Pattern;
use super::free_lists::SmallStack;
use super::geometry::{BlockPlacement, Geometry, Shape};
use super::record::CellRecord;
use super::shared_free_list::{CellStatus, Ring, STEP, SharedFreeList, standing};
use super::slot_state::SlotState;
use super::table::{CHUNK, SideTable};
use super::{SlotRefused, SlotsError};
use crate::lock::ForkSafeMutex;
use crate::mode::BackEnd;
use crate::os::Pages;
use crate::os::{Content, OsRefusal};

#[derive(Debug)]
pub(super) struct SlotRegion<P> {
    pages: P,
    pub(super) geometry: Geometry,
    pub(super) table: SideTable,
    pub(super) shared: ForkSafeMutex<SharedFreeList>,
    /// Cells left, ever, from 1.
    left: AtomicU64,
    /// `left` when the ring was last found without a cell to give; 0 = never.
    barren: AtomicU64,
    /// Pages provided now.
    provided: AtomicUsize,
    max_pages: usize,
    distance: u32,
}

/// The parameters of a region.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegionPlan {
    pub(super) back_end: BackEnd,
    /// Pages of addresses; fewer if the system refuses.
    pub(super) pages: usize,
    pub(super) stride_shift: u32,
    /// Pages provided at a time; 0 = no limit.
    pub(super) max_pages: usize,
}

/// Blocks freed before an address is used again, if there are enough addresses.
const DISTANCE: u32 = 1 << 16;
/// Minimum pages of addresses.
const MIN_PAGES: usize = 1 << 11;

impl<P: Pages> SlotRegion<P> {
    pub(super) fn new(
        memory: &dyn HostAllocator,
        plan: RegionPlan,
        random: u64,
    ) -> Result<Self, SlotsError> {
        let mut pages = plan.pages;
        let region = loop {
            match P::reserve(plan.back_end, pages) {
                Ok(region) => break region,
                Err(OsRefusal::Call { .. }) if pages / 2 >= MIN_PAGES => pages /= 2,
                Err(refusal) => return Err(SlotsError::Os(refusal)),
            }
        };
        let shift = P::page_bytes().trailing_zeros();
        let geometry = Geometry::new(region.base(), region.pages(), shift, plan.stride_shift)
            .ok_or(SlotsError::TooFewPages)?;
        let table = SideTable::new(memory, geometry.cells()).map_err(|_| SlotsError::NoMemory)?;
        Ok(Self {
            pages: region,
            geometry,
            table,
            shared: ForkSafeMutex::new(SharedFreeList::new(random)),
            left: AtomicU64::new(1),
            barren: AtomicU64::new(0),
            provided: AtomicUsize::new(0),
            max_pages: if plan.max_pages == 0 {
                usize::MAX
            } else {
                plan.max_pages
            },
            distance: DISTANCE.min(geometry.cells() / 2),
        })
    }

    pub(super) fn back_end(&self) -> BackEnd {
        self.pages.back_end()
    }

    pub(super) fn provided(&self) -> usize {
        self.provided.load(Relaxed)
    }

    /// `usize::MAX` without a limit.
    pub(super) fn max_pages(&self) -> usize {
        self.max_pages
    }

    pub(super) fn reserved_bytes(&self) -> usize {
        self.pages.pages() * self.geometry.page_bytes()
    }

    #[inline]
    pub(super) fn record(&self, cell: u32) -> Option<&CellRecord> {
        self.table.get(cell)
    }

    fn ring(&self) -> Ring<'_> {
        let left = self.left.load(Relaxed);
        Ring {
            table: &self.table,
            cells: self.geometry.cells(),
            left,
            distance: self.distance,
        }
    }

    /// Claims single cells for a thread's stack, `want` at most.
    ///
    /// Without `memory`: only cells that have records.
    pub(super) fn claim_some(
        &self,
        memory: Option<&dyn HostAllocator>,
        want: usize,
    ) -> Result<SmallStack, SlotRefused> {
        let mut found = SmallStack::EMPTY;
        self.probe(memory, |shared, ring| shared.some(ring, want, &mut found))?;
        found.reverse();
        Ok(found)
    }

    /// Claims cells in a row. Returns the first.
    pub(super) fn claim_run(
        &self,
        memory: &dyn HostAllocator,
        count: u32,
    ) -> Result<u32, SlotRefused> {
        let mut first = 0;
        self.probe(Some(memory), |shared, ring| {
            shared.run(ring, count, &mut first)
        })?;
        Ok(first)
    }

    fn probe(
        &self,
        memory: Option<&dyn HostAllocator>,
        mut step: impl FnMut(&mut SharedFreeList, Ring<'_>) -> CellStatus,
    ) -> Result<(), SlotRefused> {
        let ring = self.ring();
        // Searched again only if a cell was left since.
        if self.barren.load(Relaxed) == ring.left {
            return Err(SlotRefused::Exhausted);
        }
        let mut until = None;
        loop {
            let mut shared = self.shared.lock();
            let until = *until.get_or_insert(shared.position() + 2 * u64::from(ring.cells));
            let looked = step(&mut shared, ring);
            let position = shared.position();
            let idle = shared.left.take();
            drop(shared);
            if let Some(idle) = idle {
                self.retire(idle);
            }
            match looked {
                CellStatus::Found => return Ok(()),
                CellStatus::Missing(number) => {
                    let memory = memory.ok_or(SlotRefused::Exhausted)?;
                    self.table
                        .add(number, memory)
                        .map_err(|_| SlotRefused::NoMemory)?;
                }
                CellStatus::Further if position >= until => {
                    self.barren.store(ring.left, Relaxed);
                    return Err(SlotRefused::Exhausted);
                }
                CellStatus::Further => {}
            }
        }
    }

    /// Releases claimed cells that will not be used.
    pub(super) fn unclaim(&self, first: u32, count: u32) {
        for cell in first..first.saturating_add(count) {
            if let Some(record) = self.record(cell) {
                self.leave(cell, record.word().released());
            }
        }
    }

    /// Leaves a cell whose pages are inaccessible.
    pub(super) fn leave(&self, cell: u32, word: SlotState) {
        let Some(chunk) = self.table.chunk(cell / CHUNK) else {
            return;
        };
        let Some(record) = self.record(cell) else {
            return;
        };
        record.left_at.store(
            (self.left.fetch_add(1, Relaxed) / u64::from(STEP)) as u32,
            Relaxed,
        );
        record.set(word);
        if chunk.busy.fetch_sub(1, Relaxed) == 1 {
            self.retire(cell / CHUNK);
        }
    }

    /// Retires a chunk without blocks: returns what the system keeps for its pages; later its records serve other cells.
    #[cold]
    fn retire(&self, number: u32) {
        let Some(chunk) = self.table.chunk(number) else {
            return;
        };
        let ring = self.ring();
        {
            let shared = self.shared.lock();
            let known = chunk.standing.load(Relaxed) & !standing::LISTED != standing::ACTIVE;
            if shared.at(ring) / CHUNK == number || chunk.busy.load(Relaxed) != 0 || known {
                return;
            }
            chunk.standing.fetch_or(standing::RETIRING, Relaxed);
        }
        let stride = self.geometry.stride();
        let first = number as usize * CHUNK as usize * stride;
        let end = (first + CHUNK as usize * stride).min(self.pages.pages());
        // SAFETY: no cell of the chunk is in use, and none is claimed while the chunk is marked as retiring.
        unsafe { self.pages.retire(first, end - first) };
        self.shared.lock().retire(&self.table, number);
    }

    /// Makes the pages of a claimed place accessible, filled with the pattern, or with zeros and the pattern around the block.
    /// `elsewhere`: another region whose pages count towards the same limit.
    pub(super) fn provide(
        &self,
        place: BlockPlacement,
        zeroed: Option<Shape>,
        pattern: &Pattern,
        elsewhere: Option<&Self>,
    ) -> Result<(), SlotRefused> {
        let here = self
            .provided
            .fetch_add(place.pages, SeqCst)
            .saturating_add(place.pages);
        let there = elsewhere.map_or(0, |other| other.provided.load(SeqCst));
        if here.saturating_add(there) > self.max_pages {
            self.provided.fetch_sub(place.pages, Relaxed);
            return Err(SlotRefused::Exhausted);
        }
        let provided = if zeroed.is_some() {
            self.pages
                .provide_zeroed(place.page, place.pages)
                .map(|()| Content::Zero)
        } else {
            // SAFETY: the cells are claimed by the caller and hold nothing.
            unsafe { self.pages.provide(place.page, place.pages, pattern.page()) }
        };
        let content = provided.map_err(|refusal| {
            self.provided.fetch_sub(place.pages, Relaxed);
            match refusal {
                OsRefusal::Call {
                    call: "mmap" | "mprotect",
                    ..
                } => SlotRefused::Exhausted,
                OsRefusal::Call { .. } => SlotRefused::NoMemory,
                _ => SlotRefused::Exhausted,
            }
        })?;
        if content == Content::Zero {
            let (from, to) = self.extent(place);
            let (block, end) =
                zeroed.map_or((to, to), |shape| (place.start, place.start + shape.size));
            // SAFETY: provided just now, for the caller alone.
            unsafe { pattern.write(from, block - from) };
            // SAFETY: as above.
            unsafe { pattern.write(end, to - end) };
        }
        Ok(())
    }

    /// The addresses of a place's pages: the first byte, and the first behind.
    #[inline]
    pub(super) fn extent(&self, place: BlockPlacement) -> (usize, usize) {
        (
            self.geometry.address(place.page),
            self.geometry.address(place.page + place.pages),
        )
    }

    /// Makes a place's pages inaccessible. False if the system refuses.
    pub(super) fn revoke(&self, place: BlockPlacement) -> bool {
        // SAFETY: provided together for this place, whose block the caller has taken out of use.
        let revoked = unsafe { self.pages.revoke(place.page, place.pages) }.is_ok();
        if revoked {
            self.provided.fetch_sub(place.pages, Relaxed);
        }
        revoked
    }

    /// Moves a page to a claimed cell. False if this is not possible now.
    pub(super) fn pass_on(&self, from: u32, to: u32) -> bool {
        let [from, to] = [from, to].map(|cell| self.geometry.guard_of(cell) + 1);
        // SAFETY: `from` is taken out of use by the caller, `to` is claimed by the caller.
        unsafe { self.pages.pass_on(from, to) }.unwrap_or(false)
    }

    pub(super) fn land(&self, address: usize, to_close: bool) -> bool {
        self.geometry
            .page_of(address)
            .is_some_and(|page| self.pages.land(page, to_close))
    }

    /// Closes the pages beside a block again if an access landed on them: they must stop accesses to the next block.
    #[inline]
    pub(super) fn close_sides(&self, place: BlockPlacement) {
        if self.pages.has_landed() {
            for page in [place.page - 1, place.page + place.pages] {
                // SAFETY: between a block's pages and any other's there is always one that is never provided: these are such.
                unsafe { self.pages.close_again(page) };
            }
        }
    }

    /// # Safety
    /// `memory` is what it was made with; no block of it is used any more.
    pub(super) unsafe fn close(self, memory: &dyn HostAllocator) {
        // SAFETY: the caller's promise.
        unsafe { self.table.close(memory) };
    }
}
