use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use alloc_core::HostAllocator;

use super::geometry::{BlockPlacement, Shape};
use super::lists::Claim;
use super::record::{SlotKind, SlotState};
use super::redzone::{self, FRESH, Margins};
use super::{SlotRefused, Slots};
use crate::block::{BlockMark, BlockRequest, Findings};
use crate::mode::Mode;
use crate::os::{Content, OsRefusal};

/// From this size on a block is zero between its ends, as the system provides it, and needs memory only when touched.
const LARGE: usize = 1 << 20;
const LARGE_FRESH: usize = 64 << 10;

impl Slots {
    /// `found` receives findings about freed blocks that were written to.
    pub(crate) fn allocate(
        &self,
        memory: &dyn HostAllocator,
        request: BlockRequest,
        right: bool,
        mark: BlockMark,
        found: &mut Findings<'_>,
    ) -> Result<NonNull<u8>, SlotRefused> {
        let shape = Shape::new(request.layout, right);
        if shape.size > SlotState::LIMIT {
            return Err(SlotRefused::Exhausted);
        }
        let single = self.is_single(shape);
        let ready = if single { self.lists.lock().ready.pop(&self.table) } else { None };
        let (cell, used) = match ready {
            Some(cell) => (cell, true),
            None => match self.fresh_run(memory, shape, request.zeroed) {
                Ok(cell) => (cell, false),
                Err(refused) if !single => return Err(refused),
                Err(refused) => {
                    let oldest = self.lists.lock().oldest(&self.table, 0);
                    let cell = oldest.ok_or(refused)?;
                    self.expire(cell, found);
                    (cell, true)
                }
            },
        };
        if used {
            self.check_ready(cell, shape, found);
        }
        self.finish(cell, shape, request, mark)
    }

    /// Without `memory` it claims only cells that have records.
    pub(super) fn claim(&self, memory: Option<&dyn HostAllocator>, cells: u32) -> Result<u32, SlotRefused> {
        loop {
            let claim = self.lists.lock().claim(&self.table, self.geometry.cells(), cells);
            match claim {
                Claim::Cell(cell) => return Ok(cell),
                Claim::Missing(seen) => {
                    let memory = memory.ok_or(SlotRefused::Exhausted)?;
                    if self.table.grow(seen, memory).is_err() {
                        // Earlier than it should; the request is not refused while addresses rest.
                        let rested = self.lists.lock().rested(&self.table, cells);
                        return rested.ok_or(SlotRefused::NoMemory);
                    }
                }
                Claim::Exhausted => return Err(SlotRefused::Exhausted),
            }
        }
    }

    fn fresh_run(&self, memory: &dyn HostAllocator, shape: Shape, zeroed: bool) -> Result<u32, SlotRefused> {
        let cells = self.geometry.cells_for(shape).ok_or(SlotRefused::Exhausted)?;
        let cell = self.claim(Some(memory), cells)?;
        let zeroed = (zeroed && !self.is_single(shape)) || shape.size > LARGE;
        let provided = self.provide(self.geometry.place(cell, shape), zeroed.then_some(shape));
        if let Err(refused) = provided {
            self.lists.lock().rest(&self.table, cell, cells);
            return Err(refused);
        }
        Ok(cell)
    }

    fn provide(&self, place: BlockPlacement, zeroed: Option<Shape>) -> Result<(), SlotRefused> {
        let provided = self.provided.fetch_add(place.pages, SeqCst);
        let content = if provided.saturating_add(place.pages) > self.max_pages {
            Err(SlotRefused::Exhausted)
        } else {
            let pattern = zeroed.is_none().then_some(self.pattern.page());
            // SAFETY: the cell rule (`slots`): claimed by the caller, without content.
            let content = unsafe { self.pages.provide(place.page, place.pages, pattern) };
            content.map_err(|refusal| match refusal {
                OsRefusal::Call { call, .. } if !matches!(call, "mmap" | "mprotect" | "VirtualAlloc(MEM_COMMIT)") => {
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
                let (block, end) = zeroed.map_or((to, to), |shape| (place.start, place.start + shape.size));
                // SAFETY: the cell rule: provided just now, for the caller alone.
                unsafe { self.pattern.write(from, block - from) };
                // SAFETY: the cell rule: provided just now, for the caller alone.
                unsafe { self.pattern.write(end, to - end) };
            }
        }
        Ok(())
    }

    /// A change around a new block, in a page that held another one, happened after the check of that one.
    fn check_ready(&self, cell: u32, shape: Shape, found: &mut Findings<'_>) {
        let Some(record) = self.table.get(cell) else {
            return;
        };
        if self.mode == Mode::Fence && record.word().shape() == shape {
            return;
        }
        let Margins { front, behind, .. } = self.margins(self.geometry.place(cell, shape), shape);
        // SAFETY: the cell rule: provided, this thread's alone.
        if unsafe { self.pattern.is_at(front, behind) } {
            return;
        }
        // SAFETY: the cell rule: provided, this thread's alone.
        if let Some(changed) = unsafe { self.pattern.mend(front, behind) } {
            found(self.late(cell, record, changed));
        }
    }

    fn finish(
        &self,
        cell: u32,
        shape: Shape,
        request: BlockRequest,
        mark: BlockMark,
    ) -> Result<NonNull<u8>, SlotRefused> {
        let record = self.table.get(cell).ok_or(SlotRefused::Exhausted)?;
        let start = self.geometry.place(cell, shape).start;
        let single = self.is_single(shape);
        if !single {
            let cells = self.geometry.cells_for(shape).unwrap_or(1);
            for body in (cell + 1..cell + cells).filter_map(|cell| self.table.get(cell)) {
                body.link.store(cell, Relaxed);
                body.set(SlotState(0).with(SlotKind::Body));
            }
        }
        record.came_from.store(0, Relaxed);
        record.set_allocated(mark);
        record.set(SlotState::new(SlotKind::Live, shape, request.scope));
        // SAFETY: the cell rule: provided, this thread's alone.
        let fill = |from, len, value| unsafe { redzone::fill(start + from, len, value) };
        match request.zeroed {
            // Larger blocks are zero as the system provided them.
            true if single => fill(0, shape.size, 0),
            true => {}
            false if shape.size > LARGE => {
                fill(0, LARGE_FRESH, FRESH);
                fill(shape.size - LARGE_FRESH, LARGE_FRESH, FRESH);
            }
            false => fill(0, shape.size, FRESH),
        }
        NonNull::new(with_exposed_provenance_mut(start)).ok_or(SlotRefused::Exhausted)
    }
}
