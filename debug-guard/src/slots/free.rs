//! Frees a block: selects one of several frees, verifies the redzone, and poisons, moves or revokes the page.

use core::sync::atomic::Ordering::Relaxed;

use super::accuse::FoundBlock;
use super::geometry::BlockPlacement;
use super::record::CellRecord;
use super::record::{SlotKind, SlotState};
use super::redzone::{self, FREED};
use super::{Kind, LateFinding, Slots};
use crate::block::{FreeRequest, Freed, GuardFinding};
use crate::changed::Changed;
use crate::mode::BackEnd;
use crate::report_kind::ReportKind;

/// Ready pages that stay in memory; further ones are returned to the system.
const IDLE: u32 = 8192;

impl Slots {
    /// Frees a block. `None` if `address` is no live block's first byte; then nothing is done.
    ///
    /// `found` receives the findings: an unknown pointer, another layout or scope, a changed redzone, and writes after free to older
    /// blocks.
    ///
    /// Allocates nothing. Of several threads that free one block, one does.
    pub(crate) fn free(
        &self,
        address: usize,
        request: FreeRequest,
        found: &mut LateFinding<'_>,
    ) -> Option<Freed> {
        let Some(block) = self.live(address).filter(|block| self.claim_free(block)) else {
            found(self.no_block(address));
            return None;
        };
        let FreeRequest { layout, scope, .. } = request;
        block.record.set_freed(request.mark, request.moved_to);
        self.close_sides(block.place);
        let shape = block.word.shape();
        let mismatches = [
            (layout.size() != shape.size, ReportKind::SizeMismatch),
            (layout.align() != shape.align, ReportKind::AlignmentMismatch),
            (scope != block.word.scope(), ReportKind::ScopeMismatch),
        ];
        let redzone = self.mended_redzone(block.place, shape);
        // As it is now: it is reported last, when the cell may be another block's.
        let wrong = mismatches.iter().any(|(differs, _)| *differs) || redzone.is_some();
        let freed = block.word.with(SlotKind::Leaving);
        let known = wrong.then(|| self.known_of(block.cell, freed, block.record));
        let late = self.retire(&block);
        if let Some(known) = known {
            for (_, kind) in mismatches.into_iter().filter(|(differs, _)| *differs) {
                found(GuardFinding::new(kind, Some(known), known.start));
            }
            redzone
                .unwrap_or_default()
                .findings(known)
                .for_each(&mut *found);
        }
        late.into_iter().for_each(found);
        Some(Freed {
            size: shape.size,
            mode: self.mode,
        })
    }

    /// Takes a live block out of use, unless another thread is faster.
    fn claim_free(&self, block: &FoundBlock<'_>) -> bool {
        let _lists = self.lists.lock();
        let live = block.record.word() == block.word;
        if live {
            block.record.set(block.word.with(SlotKind::Leaving));
        }
        live
    }

    /// Retires a block that is no longer live. Returns a write after free to an older block.
    fn retire(&self, block: &FoundBlock<'_>) -> Option<GuardFinding> {
        if !self.is_single(block.word.shape()) {
            self.revoke(block);
            return None;
        }
        match self.kind {
            Kind::Fence => return self.keep(block),
            Kind::Strict if self.send_on(block) => {}
            Kind::Strict => self.revoke(block),
        }
        None
    }

    /// Fence: poisons the block and queues it; verifies a block that leaves quarantine for it.
    fn keep(&self, block: &FoundBlock<'_>) -> Option<GuardFinding> {
        // SAFETY: the block is this thread's alone.
        unsafe { redzone::fill(block.place.start, block.word.shape().size, FREED) };
        let mut lists = self.lists.lock();
        lists.wait(&self.table, block.cell);
        let oldest = lists.oldest(&self.table, self.limit);
        drop(lists);
        let oldest = oldest?;
        let late = self.expire(oldest);
        let mut lists = self.lists.lock();
        if lists.ready.len() < IDLE {
            lists.ready.push_front(&self.table, oldest);
        } else {
            drop(lists);
            if let Some(record) = self.table.get(oldest) {
                let (cell, word) = (oldest, record.word());
                let place = self.geometry.place(cell, word.shape());
                self.revoke(&FoundBlock {
                    cell,
                    record,
                    word,
                    place,
                });
            }
        }
        late
    }

    /// Verifies a block that leaves quarantine, which is the caller's, and makes its page ready for another.
    pub(super) fn expire(&self, cell: u32) -> Option<GuardFinding> {
        let record = self.table.get(cell)?;
        let word = record.word();
        let shape = word.shape();
        let place = self.geometry.place(cell, shape);
        let redzone = self.mended_redzone(place, shape).unwrap_or_default();
        let written = if shape.size == 0 {
            None
        } else {
            // SAFETY: a page of a freed block, provided, this thread's alone.
            unsafe { redzone::poison_changed(place.start, shape.size, self.deep) }
        };
        // SAFETY: as above.
        unsafe {
            self.pattern
                .write(place.start, if shape.size == 0 { 0 } else { shape.size })
        };
        record.set(word.with(SlotKind::Ready));
        let changed = written.or(redzone.front).or(redzone.behind)?;
        Some(self.late(cell, record, changed))
    }

    /// The finding of a write to a page after its block was freed.
    #[cold]
    pub(super) fn late(&self, cell: u32, record: &CellRecord, changed: Changed) -> GuardFinding {
        // Under Strict the page, and what is in it, may have come from another cell.
        let from = record
            .came_from
            .load(Relaxed)
            .checked_sub(1)
            .unwrap_or(cell);
        let guard = |cell| self.geometry.address(self.geometry.guard_of(cell));
        let away = guard(cell).wrapping_sub(guard(from));
        let first = changed.first.wrapping_sub(away);
        GuardFinding::of_change(
            ReportKind::UseAfterFree,
            self.known(from),
            Changed { first, ..changed },
        )
    }

    /// Strict: moves the page to another cell, which is ready then. False if that cannot be.
    fn send_on(&self, block: &FoundBlock<'_>) -> bool {
        if self.pages.back_end() != BackEnd::UserfaultfdMove
            || self.lists.lock().ready.len() >= IDLE
        {
            return false;
        }
        // A cell without a record would need memory.
        let Ok(to) = self.claim(None, 1) else {
            return false;
        };
        // SAFETY: the block is this thread's alone.
        unsafe {
            self.pattern
                .write(block.place.start, block.word.shape().size)
        };
        let pages = [block.cell, to].map(|cell| self.geometry.guard_of(cell) + 1);
        // SAFETY: the block is taken out of use, and `to` is claimed.
        let moved = unsafe { self.pages.pass_on(pages[0], pages[1]) }.unwrap_or(false);
        if moved && let Some(record) = self.table.get(to) {
            record.came_from.store(block.cell + 1, Relaxed);
            record.set(record.word().with(SlotKind::Ready));
        }
        let mut lists = self.lists.lock();
        if moved {
            block.record.set(block.word.with(SlotKind::Gone));
            lists.rest(&self.table, block.cell, 1);
            lists.ready.push_front(&self.table, to);
        } else {
            lists.rest(&self.table, to, 1);
        }
        moved
    }

    /// Makes a block's pages inaccessible. If the system refuses, they stay poisoned for ever.
    fn revoke(&self, block: &FoundBlock<'_>) {
        let (place, shape) = (block.place, block.word.shape());
        // SAFETY: provided together for this place, whose block the caller has taken out of use.
        if unsafe { self.pages.revoke(place.page, place.pages) }.is_err() {
            // SAFETY: still provided, this thread's alone.
            unsafe { redzone::fill(place.start, shape.size, FREED) };
            return block.record.set(block.word.with(SlotKind::Kept));
        }
        self.provided.fetch_sub(place.pages, Relaxed);
        let cells = self.geometry.cells_for(shape).unwrap_or(1);
        let bodies = block.cell + 1..block.cell + cells;
        for body in bodies.filter_map(|cell| self.table.get(cell)) {
            body.set(SlotState(0).with(SlotKind::BodyGone));
        }
        block.record.set(block.word.with(SlotKind::Gone));
        self.lists.lock().rest(&self.table, block.cell, cells);
    }

    /// Closes the pages beside a block again if an access landed on them: they must stop accesses to the next block.
    fn close_sides(&self, place: BlockPlacement) {
        if self.pages.has_landed() {
            for page in [place.page - 1, place.page + place.pages] {
                // SAFETY: between a block's pages and any other's there is always one that is never provided: these are such.
                unsafe { self.pages.close_again(page) };
            }
        }
    }
}
