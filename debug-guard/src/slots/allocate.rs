//! Allocates a block: a cell, its pages, its record, its fill.

use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use alloc_core::HostAllocator;

use super::geometry::{BlockPlacement, Shape};
use super::lists::Claim;
use super::record::{SlotKind, SlotState};
use super::redzone::{self, FRESH};
use super::{Kind, LateFinding, SlotRefused, Slots};
use crate::block::{BlockMark, BlockRequest, GuardFinding};
use crate::os::{Content, OsRefusal};

/// From this size on a block is zero between its ends, as the system gives it, and takes memory when it is touched.
const LARGE: usize = 1 << 20;
/// Bytes at either end of a large block that are made [`FRESH`].
const LARGE_FRESH: usize = 64 << 10;

impl Slots {
    /// Allocates a block, `right` against the page behind it or else against the page in front.
    ///
    /// Its content is [`FRESH`], or zero. `found` receives findings about freed blocks that were written to.
    ///
    /// # Errors
    /// [`SlotRefused`]; nothing was allocated.
    pub(crate) fn allocate(
        &self,
        memory: &dyn HostAllocator,
        request: BlockRequest,
        right: bool,
        mark: BlockMark,
        found: &mut LateFinding<'_>,
    ) -> Result<NonNull<u8>, SlotRefused> {
        let shape = Shape::new(request.layout, right);
        if shape.size > SlotState::LIMIT {
            return Err(SlotRefused::Exhausted);
        }
        let single = self.is_single(shape);
        let mut late = [None; 2];
        let used = if single { self.ready_cell() } else { None };
        let (cell, used) = match used {
            Some(cell) => (cell, true),
            None => match self.fresh_run(memory, shape, request.zeroed) {
                Ok(cell) => (cell, false),
                Err(refused) => {
                    let oldest = if single {
                        self.lists.lock().oldest(&self.table, 0)
                    } else {
                        None
                    };
                    let cell = oldest.ok_or(refused)?;
                    late[0] = self.expire(cell);
                    (cell, true)
                }
            },
        };
        if used {
            late[1] = self.stale(cell, shape);
        }
        let block = self.finish(cell, shape, request, mark, used);
        late.into_iter().flatten().for_each(found);
        block
    }

    /// A page that is provided already.
    fn ready_cell(&self) -> Option<u32> {
        self.lists.lock().ready.pop(&self.table)
    }

    /// Claims cells for a block. Without `memory`: only cells that have records.
    pub(super) fn claim(
        &self,
        memory: Option<&dyn HostAllocator>,
        cells: u32,
    ) -> Result<u32, SlotRefused> {
        loop {
            let claim = self
                .lists
                .lock()
                .claim(&self.table, self.geometry.cells(), cells);
            match claim {
                Claim::Cell(cell) => return Ok(cell),
                Claim::Missing(number) => self
                    .table
                    .add(number, memory.ok_or(SlotRefused::Exhausted)?)
                    .map_err(|_| SlotRefused::NoMemory)?,
                Claim::Exhausted => return Err(SlotRefused::Exhausted),
            }
        }
    }

    /// Claims cells and provides the block's pages.
    fn fresh_run(
        &self,
        memory: &dyn HostAllocator,
        shape: Shape,
        zeroed: bool,
    ) -> Result<u32, SlotRefused> {
        let cells = self
            .geometry
            .cells_for(shape)
            .ok_or(SlotRefused::Exhausted)?;
        let cell = self.claim(Some(memory), cells)?;
        let zeroed = (zeroed && !self.is_single(shape)) || shape.size > LARGE;
        let provided = self.provide(self.geometry.place(cell, shape), zeroed.then_some(shape));
        if let Err(refused) = provided {
            self.lists.lock().rest(&self.table, cell, cells);
            return Err(refused);
        }
        Ok(cell)
    }

    /// Makes the pages of a claimed place accessible, filled with the pattern, or with zeros and the pattern around the block.
    fn provide(&self, place: BlockPlacement, zeroed: Option<Shape>) -> Result<(), SlotRefused> {
        let provided = self.provided.fetch_add(place.pages, SeqCst);
        let content = if provided.saturating_add(place.pages) > self.max_pages {
            Err(SlotRefused::Exhausted)
        } else {
            let pattern = zeroed.is_none().then_some(self.pattern.page());
            // SAFETY: the cells are claimed by the caller and hold nothing.
            let content = unsafe { self.pages.provide(place.page, place.pages, pattern) };
            content.map_err(|refusal| match refusal {
                OsRefusal::Call { call, .. } if !matches!(call, "mmap" | "mprotect") => {
                    SlotRefused::NoMemory
                }
                _ => SlotRefused::Exhausted,
            })
        };
        match content {
            Err(refused) => {
                self.provided.fetch_sub(place.pages, Relaxed);
                return Err(refused);
            }
            Ok(Content::Pattern) => {}
            Ok(Content::Zero) => {
                let (from, to) = self.extent(place);
                let (block, end) =
                    zeroed.map_or((to, to), |shape| (place.start, place.start + shape.size));
                // SAFETY: provided just now, for the caller alone.
                unsafe { self.pattern.write(from, block - from) };
                // SAFETY: as above.
                unsafe { self.pattern.write(end, to - end) };
            }
        }
        Ok(())
    }

    /// Verifies what will be around a new block in a page that held another one: a change happened after the check of that one.
    fn stale(&self, cell: u32, shape: Shape) -> Option<GuardFinding> {
        let record = self.table.get(cell)?;
        if self.kind == Kind::Fence && record.word().shape() == shape {
            return None;
        }
        let place = self.geometry.place(cell, shape);
        let margins = self.margins(place, shape);
        // SAFETY: the page is provided and this thread's alone.
        let changed = unsafe {
            self.pattern
                .changed(margins.front, margins.behind - margins.front)
        }?;
        // SAFETY: as above.
        unsafe { self.pattern.write(changed.first, changed.span) };
        Some(self.late(cell, record, changed))
    }

    /// Records the block and fills it. `used`: the page held another one.
    fn finish(
        &self,
        cell: u32,
        shape: Shape,
        request: BlockRequest,
        mark: BlockMark,
        used: bool,
    ) -> Result<NonNull<u8>, SlotRefused> {
        let record = self.table.get(cell).ok_or(SlotRefused::Exhausted)?;
        let start = self.geometry.place(cell, shape).start;
        let cells = self.geometry.cells_for(shape).unwrap_or(1);
        for body in (cell + 1..cell + cells).filter_map(|cell| self.table.get(cell)) {
            body.link.store(cell, Relaxed);
            body.set(SlotState(0).with(SlotKind::Body));
        }
        record.came_from.store(0, Relaxed);
        record.set_allocated(mark);
        record.set(SlotState::new(SlotKind::Live, shape, request.scope));
        let zero = request.zeroed && (used || self.is_single(shape));
        let ends = if shape.size > LARGE {
            LARGE_FRESH
        } else {
            shape.size
        };
        if zero || !request.zeroed {
            let value = if zero { 0 } else { FRESH };
            for at in [0, shape.size - ends] {
                // SAFETY: pages of the block, provided, this thread's alone; a block of no bytes has none that are filled.
                unsafe { redzone::fill(start + at, ends, value) };
            }
        }
        NonNull::new(with_exposed_provenance_mut(start)).ok_or(SlotRefused::Exhausted)
    }
}
