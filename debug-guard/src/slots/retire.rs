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
    /// Retires a block that is no longer live; `cache` is the page cache it came from. `late` gets a write after free to an older block.
    #[inline]
    pub(super) fn retire(
        &self,
        block: &FoundBlock<'_, P>,
        cache: ForkSafeMutexGuard<'_, PageCache>,
        late: &mut Option<GuardFinding>,
    ) {
        let &FoundBlock {
            region,
            cell,
            word,
            place,
            ..
        } = block;
        if self.is_single(region, word) {
            match self.kind {
                Kind::Fence => self.keep(block, cache, late),
                Kind::Strict => self.send_on(cell, word, place, cache),
            }
        } else {
            drop(cache);
            self.revoke(region, cell, word, place);
        }
    }

    /// True for a block in one page of the first region.
    #[inline]
    fn is_single(&self, region: &SlotRegion<P>, word: SlotState) -> bool {
        let (shape, page_bytes) = (word.shape(), self.small.geometry.page_bytes());
        core::ptr::eq(region, &self.small) && shape.size <= page_bytes && shape.align <= page_bytes
    }

    /// Fence: poisons the block and stages it for quarantine; verifies a block that left quarantine.
    #[inline(always)]
    fn keep(
        &self,
        block: &FoundBlock<'_, P>,
        mut cache: ForkSafeMutexGuard<'_, PageCache>,
        late: &mut Option<GuardFinding>,
    ) {
        let size = block.word.shape().size;
        if size > 0 {
            // SAFETY: the block is this thread's alone.
            unsafe { fill::fill(block.place.start, size, FREED) };
        }
        block.record.set(block.word.with(State::Kept));
        let table = &self.small.table;
        cache.staged.push_record(block.cell, block.record);
        if cache.staged.len >= self.batch {
            self.queue(&mut cache);
        }
        let Some(next) = cache.expired.pop(table) else {
            return;
        };
        self.fetch_ahead(next, cache.expired.first);
        if let Some(expired) = cache.prefetch.turn(next) {
            self.expire(expired, late);
            if cache.ready.is_full() {
                self.cache_page(&mut cache);
            }
            cache.ready.push(expired);
        }
    }

    /// Moves the staged cells to the quarantine, and the oldest cells of a full quarantine to the cache.
    #[inline(never)]
    fn queue(&self, cache: &mut PageCache) {
        let table = &self.small.table;
        let staged = core::mem::replace(&mut cache.staged, Chain::EMPTY);
        let mut shared = self.small.shared.lock();
        shared.quarantine.push(table, staged);
        if cache.expired.len == 0 && shared.quarantine.cells() > self.limit {
            cache.expired = shared.quarantine.pop(table).unwrap_or(Chain::EMPTY);
        }
    }

    /// Prefetches the page of `next`, which is verified some frees later, and the record of the cell after it.
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

    /// Verifies a block that leaves quarantine, and makes its page ready for another.
    ///
    /// Called with a cache locked, which keeps [`check`](Self::check) away: that locks all of them.
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
        let redzone = self.redzone(&self.small, place, shape);
        self.mend(redzone);
        let written = if shape.size == 0 {
            None
        } else {
            // SAFETY: a page of a freed block, provided, this thread's alone.
            unsafe { fill::poison_changed(place.start, shape.size) }
        };
        let changed = written.or(redzone.front).or(redzone.behind)?;
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
    fn cache_page(&self, cache: &mut PageCache) {
        let table = &self.small.table;
        let mut shared = self.small.shared.lock();
        if shared.ready.cells() < IDLE {
            let mut chain = Chain::EMPTY;
            while (chain.len as usize) < SMALL_STACK / 2
                && let Some(cell) = cache.ready.pop()
            {
                chain.push(table, cell);
            }
            shared.ready.push(table, chain);
            return;
        }
        drop(shared);
        if let Some(cell) = cache.ready.pop() {
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
        mut cache: ForkSafeMutexGuard<'_, PageCache>,
    ) {
        let moves = self.back_end() == BackEnd::UserfaultfdMove && !cache.ready.is_full();
        let next = if moves { cache.fresh.pop() } else { None };
        drop(cache);
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
        let mut cache = self.caches.at(word.cache_number());
        let kept = if moved {
            cache.ready.push(to)
        } else {
            cache.fresh.push(to)
        };
        drop(cache);
        match (kept, moved) {
            (true, _) => {}
            (false, true) => self.release_page(to),
            (false, false) => self.small.unclaim(to, 1),
        }
    }

    /// Strict: the next cell of a freed page; `None` if its records do not exist.
    #[cold]
    fn next_cell(&self) -> Option<u32> {
        let mut claimed = self.small.claim_some(None, self.claims).ok()?;
        let cell = claimed.pop();
        self.refill_cache(claimed);
        cell
    }

    /// Makes a block's pages inaccessible. If the system refuses, they stay poisoned for ever.
    fn revoke(&self, region: &SlotRegion<P>, cell: u32, word: SlotState, place: BlockPlacement) {
        if !region.revoke(place) {
            // SAFETY: still provided, this thread's alone.
            unsafe { fill::fill(place.start, word.shape().size, FREED) };
            if let Some(record) = region.record(cell) {
                record.set(word.with(State::Kept));
            }
            return;
        }
        let cells = region.geometry.cells_for(word.shape()).unwrap_or(1);
        for body in cell + 1..cell + cells {
            region.leave(body, SlotState(0).with(State::BodyGone));
        }
        region.leave(cell, word.with(State::Gone));
    }
}
