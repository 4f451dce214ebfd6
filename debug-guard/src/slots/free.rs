use core::sync::atomic::Ordering::Relaxed;

use super::Slots;
use super::classify::FoundBlock;
use super::geometry::BlockPlacement;
use super::record::{CellRecord, SlotKind, SlotState};
use super::redzone::{self, FREED, NEAR, Redzone};
use crate::block::{Findings, FreeRequest, Freed, GuardFinding};
use crate::changed::Changed;
use crate::mode::{BackEnd, Mode};
use crate::os;
use crate::report_kind::ReportKind;

/// These lines are cold, since thousands of pages are in use: waiting for each would be most of a free.
fn prefetch(start: usize) {
    for back in (0..=NEAR).step_by(64) {
        os::prefetch(start.wrapping_sub(back));
    }
}

impl Slots {
    /// `None` if `address` is no live block's first byte; then nothing is done. Allocates nothing. Of several threads
    /// that free one block, one does.
    pub(crate) fn free(&self, address: usize, request: FreeRequest, found: &mut Findings<'_>) -> Option<Freed> {
        prefetch(address);
        let claimed = self.live(address).and_then(|block| Some((self.claim_free(&block)?, block)));
        let Some((oldest, block)) = claimed else {
            found(self.classify_bad_free(address));
            return None;
        };
        block.record.set_freed(request.mark, request.moved_to);
        // Meanwhile the lines of the freed block arrive.
        if let Some(oldest) = oldest {
            self.expire(oldest, found);
        }
        self.close_sides(block.place);
        let (shape, scope) = (block.word.shape(), block.word.scope());
        let redzone = self.mended_redzone(block.place, shape);
        let agrees =
            request.layout.size() == shape.size && request.layout.align() == shape.align && request.scope == scope;
        if !agrees || redzone.is_some() {
            self.report_free(&block, request, redzone.unwrap_or_default(), found);
        }
        let single = self.is_single(shape);
        if single && self.mode == Mode::Fence {
            self.keep(&block, oldest, found);
        } else if !single || !self.send_on(&block) {
            self.revoke(&block);
        }
        Some(Freed { size: shape.size, mode: self.mode })
    }

    /// `None` if another thread is faster; else a block that leaves quarantine.
    fn claim_free(&self, block: &FoundBlock<'_>) -> Option<Option<u32>> {
        let mut lists = self.lists.lock();
        if block.record.word() != block.word {
            return None;
        }
        block.record.set(block.word.with(SlotKind::Leaving));
        let joins = self.mode == Mode::Fence && self.is_single(block.word.shape());
        let others = self.limit.checked_sub(1).filter(|_| joins);
        Some(others.and_then(|others| lists.oldest(&self.table, others)))
    }

    #[cold]
    fn report_free(&self, block: &FoundBlock<'_>, request: FreeRequest, redzone: Redzone, found: &mut Findings<'_>) {
        let known = self.known_of(block.cell, block.word.with(SlotKind::Leaving), block.record);
        request.mismatches(known).chain(redzone.findings(known)).for_each(found);
    }

    /// The page of the block that left quarantine is ready for another.
    fn keep(&self, block: &FoundBlock<'_>, oldest: Option<u32>, found: &mut Findings<'_>) {
        // SAFETY: the cell rule (`slots`): this thread's alone.
        unsafe { redzone::fill(block.place.start, block.word.shape().size, FREED) };
        let mut lists = self.lists.lock();
        lists.wait(&self.table, block.cell);
        // Frees at one time may all have begun while there was room for one more; and with limit 0 no block waits.
        let excess = lists.oldest(&self.table, self.limit);
        let surplus = oldest.filter(|cell| !lists.make_ready(&self.table, *cell));
        let next = lists.quarantine.first;
        drop(lists);
        if let Some(record) = self.table.get(next) {
            prefetch(self.geometry.place(next, record.word().shape()).start);
        }
        if let Some(cell) = surplus {
            self.revoke_cell(cell);
        }
        if let Some(cell) = excess {
            self.expire(cell, found);
            if !self.lists.lock().make_ready(&self.table, cell) {
                self.revoke_cell(cell);
            }
        }
    }

    fn revoke_cell(&self, cell: u32) {
        if let Some(record) = self.table.get(cell) {
            let word = record.word();
            let place = self.geometry.place(cell, word.shape());
            self.revoke(&FoundBlock { cell, record, word, place });
        }
    }

    /// The block that leaves quarantine is the caller's.
    pub(super) fn expire(&self, cell: u32, found: &mut Findings<'_>) {
        let Some(record) = self.table.get(cell) else {
            return;
        };
        let word = record.word();
        let shape = word.shape();
        let place = self.geometry.place(cell, shape);
        // SAFETY: the cell rule: a freed block's page, provided, this thread's alone.
        let written = unsafe { redzone::poison_changed(place.start, shape.size, self.deep) };
        // SAFETY: the cell rule: a freed block's page, provided, this thread's alone.
        unsafe { self.pattern.write(place.start, shape.size) };
        let redzone = self.mended_redzone(place, shape);
        let changed = written.or_else(|| redzone.and_then(|redzone| redzone.front.or(redzone.behind)));
        if let Some(changed) = changed {
            found(self.late(cell, record, changed));
        }
        record.set(word.with(SlotKind::Ready));
    }

    #[cold]
    pub(super) fn late(&self, cell: u32, record: &CellRecord, changed: Changed) -> GuardFinding {
        // Under Strict the page, and its content, may have come from another cell.
        let from = record.came_from.load(Relaxed).checked_sub(1).unwrap_or(cell);
        let guard = |cell| self.geometry.address(self.geometry.guard_of(cell));
        let away = guard(cell).wrapping_sub(guard(from));
        let first = changed.first.wrapping_sub(away);
        GuardFinding::of_change(ReportKind::UseAfterFree, self.known(from), Changed { first, ..changed })
    }

    /// The page moves to another cell, which is ready then.
    fn send_on(&self, block: &FoundBlock<'_>) -> bool {
        if self.pages.back_end() != BackEnd::UserfaultfdMove || !self.lists.lock().wants_ready() {
            return false;
        }
        // A cell without a record would need memory.
        let Ok(to) = self.claim(None, 1) else {
            return false;
        };
        // SAFETY: the cell rule: this thread's alone.
        unsafe { self.pattern.write(block.place.start, block.word.shape().size) };
        let pages = [block.cell, to].map(|cell| self.geometry.guard_of(cell) + 1);
        // SAFETY: the cell rule: out of use, and claimed.
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

    /// If the system refuses, the pages stay poisoned for ever.
    fn revoke(&self, block: &FoundBlock<'_>) {
        let (place, shape) = (block.place, block.word.shape());
        // SAFETY: the cell rule: provided together, out of use.
        if unsafe { self.pages.revoke(place.page, place.pages) }.is_err() {
            // SAFETY: the cell rule: still provided, this thread's alone.
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

    /// If an access landed on them, they must be closed to stop accesses to the next block.
    fn close_sides(&self, place: BlockPlacement) {
        if self.pages.has_landed() {
            for page in [place.page - 1, place.page + place.pages] {
                // SAFETY: such a page, between those of two blocks, is never provided.
                unsafe { self.pages.close_again(page) };
            }
        }
    }
}
