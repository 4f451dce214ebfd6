//! Poisons, queues, moves or revokes the page of a freed block.

use core::sync::atomic::Ordering::Relaxed;

use super::fill::{self, FREED, NEAR};
use super::find::FoundBlock;
use super::free_lists::{Chain, SMALL_STACK};
use super::geometry::BlockPlacement;
use super::page_cache::PageCache;
use super::record::CellRecord;
use super::slot_region::SlotRegion;
use super::slot_state::{SlotKind as State, SlotState};
use super::{Kind, Slots};
use crate::block::{Changed, GuardFinding};
use crate::lock::ForkSafeMutexGuard;
use crate::mode::BackEnd;
use crate::os::Pages;
use crate::report_kind::ReportKind;

/// Fence keeps at most this many ready pages in memory beyond those in thread caches, and returns further ones to the system.
const IDLE: u32 = 8192;

impl<P: Pages> Slots<P> {
    /// Retires a block that is no longer live; `stash` is the page cache it came from. `late` gets a write after free to an older block.
    #[inline]
    pub(super) fn retire(
        &self,
        block: &FoundBlock<'_, P>,
        stash: ForkSafeMutexGuard<'_, PageCache>,
        late: &mut Option<GuardFinding>,
    ) {
        let &FoundBlock {
            ground,
            cell,
            word,
            place,
            ..
        } = block;
        if self.is_single(ground, word) {
            match self.kind {
                Kind::Fence => self.keep(block, stash, late),
                Kind::Strict => self.send_on(cell, word, place, stash),
            }
        } else {
            drop(stash);
            self.revoke(ground, cell, word, place);
        }
    }

    /// True of what stands in one page of the first region.
    #[inline]
    fn is_single(&self, ground: &SlotRegion<P>, word: SlotState) -> bool {
        let (shape, page_bytes) = (word.shape(), self.small.geometry.page_bytes());
        core::ptr::eq(ground, &self.small) && shape.size <= page_bytes && shape.align <= page_bytes
    }

    /// Fence: the block is poisoned and waits; one that has waited long enough is looked at.
    #[inline(always)]
    fn keep(
        &self,
        block: &FoundBlock<'_, P>,
        mut stash: ForkSafeMutexGuard<'_, PageCache>,
        late: &mut Option<GuardFinding>,
    ) {
        let size = block.word.shape().size;
        if size > 0 {
            // SAFETY: the block is this thread's alone.
            unsafe { fill::fill(block.place.start, size, FREED) };
        }
        block.record.set(block.word.with(State::Kept));
        let table = &self.small.table;
        stash.staged.push_record(block.cell, block.record);
        if stash.staged.len >= self.batch {
            self.queue(&mut stash);
        }
        let Some(next) = stash.expired.pop(table) else {
            return;
        };
        self.fetch_ahead(next, stash.expired.first);
        if let Some(expired) = stash.belt.turn(next) {
            self.expire(expired, late);
            if stash.ready.is_full() {
                self.cache_page(&mut stash);
            }
            stash.ready.push(expired);
        }
    }

    /// Puts what a thread has staged behind all that waits, and takes what has waited too long.
    #[inline(never)]
    fn queue(&self, stash: &mut PageCache) {
        let table = &self.small.table;
        let staged = core::mem::replace(&mut stash.staged, Chain::EMPTY);
        let mut depot = self.small.depot.lock();
        depot.quarantine.push(table, staged);
        if stash.expired.len == 0 && depot.quarantine.cells() > self.limit {
            stash.expired = depot.quarantine.pop(table).unwrap_or(Chain::EMPTY);
        }
    }

    /// Has the processor fetch what a look at `next` will read, some frees from now: its page; and the record of the one after it.
    #[inline]
    fn fetch_ahead(&self, next: u32, after: u32) {
        if let Some(record) = self.small.record(next) {
            let shape = record.word().shape();
            let start = self.small.geometry.place(next, shape).start;
            fill::fetch(
                start.wrapping_sub(NEAR),
                start.wrapping_add(shape.size.min(NEAR)),
            );
        }
        if let Some(record) = self.small.record(after) {
            let record = core::ptr::from_ref(record).addr();
            fill::fetch(record, record + 1);
        }
    }

    /// Looks at a block that has waited, and makes its page ready for another.
    ///
    /// Called with a stash held, whose holders do not wait for one another: that keeps [`check`](Self::check) away, which holds them all.
    #[inline]
    pub(super) fn expire(&self, cell: u32, late: &mut Option<GuardFinding>) {
        let Some(record) = self.small.record(cell) else {
            return;
        };
        let word = record.word();
        let shape = word.shape();
        let place = self.small.geometry.place(cell, shape);
        // SAFETY: a page of a freed block, provided, this thread's alone.
        let untouched =
            shape.size == 0 || unsafe { fill::is_poison(place.start, shape.size, self.deep) };
        if !(untouched && self.is_clean(&self.small, place, shape)) {
            *late = self.written_late(cell, record, place);
        }
        if shape.size > 0 {
            // SAFETY: as above.
            unsafe { self.pattern.write(place.start, shape.size) };
        }
        record.set(word.with(State::Ready));
    }

    #[cold]
    fn written_late(
        &self,
        cell: u32,
        record: &CellRecord,
        place: BlockPlacement,
    ) -> Option<GuardFinding> {
        let shape = record.word().shape();
        let around = self.redzone(&self.small, place, shape);
        self.mend(around);
        let written = if shape.size == 0 {
            None
        } else {
            // SAFETY: a page of a freed block, provided, this thread's alone.
            unsafe { fill::poison_changed(place.start, shape.size) }
        };
        let changed = written.or(around.front).or(around.behind)?;
        Some(self.late(cell, record, changed))
    }

    /// The finding of a write to a page after its block was freed.
    #[cold]
    pub(super) fn late(&self, cell: u32, record: &CellRecord, changed: Changed) -> GuardFinding {
        // Under Strict the page, and what is in it, may have come from another cell.
        let came_from = record
            .other
            .load(Relaxed)
            .checked_sub(1)
            .filter(|_| self.kind == Kind::Strict);
        let geometry = &self.small.geometry;
        let away = came_from.map_or(0, |from| {
            geometry
                .address(geometry.guard_of(cell))
                .wrapping_sub(geometry.address(geometry.guard_of(from)))
        });
        let first = changed.first.wrapping_sub(away);
        let block = self.known(&self.small, came_from.unwrap_or(cell));
        GuardFinding::of_change(
            ReportKind::UseAfterFree,
            block,
            Changed { first, ..changed },
        )
    }

    /// Moves half of a full stack of ready pages to the shared free list, or returns one page to the system.
    #[cold]
    fn cache_page(&self, stash: &mut PageCache) {
        let table = &self.small.table;
        let mut depot = self.small.depot.lock();
        if depot.ready.cells() < IDLE {
            let mut chain = Chain::EMPTY;
            while (chain.len as usize) < SMALL_STACK / 2
                && let Some(cell) = stash.ready.pop()
            {
                chain.push(table, cell);
            }
            depot.ready.push(table, chain);
            return;
        }
        drop(depot);
        if let Some(cell) = stash.ready.pop() {
            self.release_page(cell);
        }
    }

    /// Returns a ready page to the system, and its cell to the ring.
    fn release_page(&self, cell: u32) {
        let Some(record) = self.small.record(cell) else {
            return;
        };
        let place = BlockPlacement {
            start: 0,
            page: self.small.geometry.guard_of(cell) + 1,
            pages: 1,
        };
        let word = record.word();
        if self.small.revoke(place) {
            self.small.leave(cell, word.released());
        }
    }

    /// Strict: moves the page to the next cell, or returns it to the system.
    fn send_on(
        &self,
        cell: u32,
        word: SlotState,
        place: BlockPlacement,
        mut stash: ForkSafeMutexGuard<'_, PageCache>,
    ) {
        let moves = self.back_end() == BackEnd::UserfaultfdMove && !stash.ready.is_full();
        let next = if moves { stash.fresh.pop() } else { None };
        drop(stash);
        let Some(to) = next.or_else(|| if moves { self.next_cell() } else { None }) else {
            return self.revoke(&self.small, cell, word, place);
        };
        if word.shape().size > 0 {
            // SAFETY: the block is this thread's alone.
            unsafe { self.pattern.write(place.start, word.shape().size) };
        }
        let moved = self.small.pass_on(cell, to);
        if moved {
            if let Some(record) = self.small.record(to) {
                record.other.store(cell + 1, Relaxed);
                record.set(record.word().with(State::Ready));
            }
            self.small.leave(cell, word.with(State::Gone));
        } else {
            self.revoke(&self.small, cell, word, place);
        }
        let mut stash = self.stashes.at(word.cache_number());
        let kept = if moved {
            stash.ready.push(to)
        } else {
            stash.fresh.push(to)
        };
        drop(stash);
        match (kept, moved) {
            (true, _) => {}
            (false, true) => self.release_page(to),
            (false, false) => self.small.unclaim(to, 1),
        }
    }

    /// Strict: where a freed page may go; `None` where that would take records that are not there.
    #[cold]
    fn next_cell(&self) -> Option<u32> {
        let mut claimed = self.small.claim_some(None, self.claims).ok()?;
        let cell = claimed.pop();
        self.refill_cache(claimed);
        cell
    }

    /// Takes a block's pages out of reach. Where the system does not, they stay as they are, poisoned, for ever.
    fn revoke(&self, ground: &SlotRegion<P>, cell: u32, word: SlotState, place: BlockPlacement) {
        if !ground.revoke(place) {
            // SAFETY: still provided, this thread's alone.
            unsafe { fill::fill(place.start, word.shape().size, FREED) };
            if let Some(record) = ground.record(cell) {
                record.set(word.with(State::Kept));
            }
            return;
        }
        let cells = ground.geometry.cells_for(word.shape()).unwrap_or(1);
        for body in cell + 1..cell + cells {
            ground.leave(body, SlotState(0).with(State::BodyGone));
        }
        ground.leave(cell, word.with(State::Gone));
    }
}
