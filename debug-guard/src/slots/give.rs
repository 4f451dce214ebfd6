//! Giving a block back: who may, what was done around it, what becomes of its page.

use core::alloc::Layout;
use core::sync::atomic::Ordering::Relaxed;

use alloc_core::Scope;

use super::bytes::{self, FREED, NEAR};
use super::chain::Chain;
use super::geometry::{Place, Shape};
use super::ground::Ground;
use super::lock::relax;
use super::pages::Pages;
use super::record::Record;
use super::word::{Kind as State, Word};
use super::{Found, Kind, Slots};
use crate::block::{Changed, Fault, Freed, Known, Mark};
use crate::report::ReportKind;

/// Fence keeps so many ready pages in memory beyond those that threads have at hand; what is more goes back to the system.
const IDLE: u32 = 8192;

/// What was changed around a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Around {
    pub(super) front: Option<Changed>,
    pub(super) behind: Option<Changed>,
}

impl Around {
    fn is_clean(&self) -> bool {
        self.front.is_none() && self.behind.is_none()
    }

    pub(super) fn faults(self, block: Known) -> impl Iterator<Item = Fault> {
        let front = self.front.map(|changed| (ReportKind::Underflow, changed));
        let behind = self.behind.map(|changed| (ReportKind::Overflow, changed));
        [front, behind].into_iter().flatten().map(move |(kind, changed)| Fault {
            kind,
            block: Some(block),
            address: changed.first,
            changed: Some(changed),
            owner: None,
        })
    }
}

impl<P: Pages> Slots<P> {
    /// Takes a block back: what it was, or `None` where `address` is no live block's first byte and nothing was done.
    ///
    /// `found` hears why, of all that differs from what the block was taken with, of what was changed around it, and of blocks freed
    /// long ago that were written to since. `moved_to`: a reallocation frees it, and the block is there now.
    ///
    /// Takes no memory. Of several threads that free one block, one does.
    #[inline]
    pub(crate) fn give(
        &self,
        address: usize,
        layout: Option<Layout>,
        scope: Option<Scope>,
        mark: Mark,
        moved_to: Option<usize>,
        found: &mut Found<'_>,
    ) -> Option<Freed> {
        let Some((ground, cell, record, word)) = self.live(address).and_then(|(ground, cell)| self.win(ground, cell)) else {
            found(self.no_block(address));
            return None;
        };
        let shape = word.shape();
        let place = ground.geometry.place(cell, shape);
        let around = self.around(ground, place, shape);
        record.given_by(mark, moved_to);
        let matches = layout.is_none_or(|layout| layout.size() == shape.size && layout.align() == shape.align)
            && scope.is_none_or(|scope| scope == word.scope());
        // Told last, but as it is now: the cell may be another block's then.
        let block = if matches && around.is_clean() {
            None
        } else {
            Some(self.known_of(ground, cell, word.with(State::Leaving), record))
        };
        let late = if !core::ptr::eq(ground, &self.small) || place.pages > 1 || shape.align > ground.geometry.page_bytes() {
            self.revoke(ground, cell, word, place);
            None
        } else if self.kind == Kind::Strict {
            self.send_on(cell, word, place, around);
            None
        } else {
            self.keep(cell, record, word, place, around)
        };
        if let Some(block) = block {
            Self::tell(block, layout, scope, around, found);
        }
        if let Some(late) = late {
            found(late);
        }
        Some(Freed { size: shape.size, mode: self.mode })
    }

    #[cold]
    fn tell(block: Known, layout: Option<Layout>, scope: Option<Scope>, around: Around, found: &mut Found<'_>) {
        let wrong = [
            (layout.is_some_and(|layout| layout.size() != block.size), ReportKind::SizeMismatch),
            (layout.is_some_and(|layout| layout.align() != block.align), ReportKind::AlignmentMismatch),
            (scope.is_some_and(|scope| scope != block.scope), ReportKind::ScopeMismatch),
        ];
        for (_, kind) in wrong.into_iter().filter(|&(wrong, _)| wrong) {
            found(Fault { kind, block: Some(block), address: block.start, changed: None, owner: None });
        }
        around.faults(block).for_each(found);
    }

    /// Takes a live block out of use, unless another thread is faster.
    #[inline]
    fn win<'a>(&self, ground: &'a Ground<P>, cell: u32) -> Option<(&'a Ground<P>, u32, &'a Record, Word)> {
        let record = ground.record(cell)?;
        let mut tries = 0_u32;
        loop {
            let word = record.word();
            match word.kind() {
                State::Live if record.advance(word, State::Leaving).is_ok() => {
                    // The records of a chunk long dead may have begun to serve others meanwhile: then this was not the block's.
                    if ground.record(cell).is_some_and(|now| core::ptr::eq(now, record)) {
                        return Some((ground, cell, record, word));
                    }
                    record.set(word);
                    return None;
                }
                State::Live => {}
                State::LiveLooked => {
                    tries = tries.wrapping_add(1);
                    relax(tries);
                }
                _ => return None,
            }
        }
    }

    /// Looks at what is around a block that this thread alone has.
    #[inline]
    pub(super) fn around(&self, ground: &Ground<P>, place: Place, shape: Shape) -> Around {
        let (from, to) = ground.extent(place);
        let start = place.start.min(to);
        let end = start.saturating_add(shape.size).min(to);
        let near = if self.deep { usize::MAX } else { NEAR };
        let front = from.max(start.saturating_sub(near));
        let behind = to.min(end.saturating_add(near));
        Around {
            // SAFETY: pages of the block, provided, in front of its first byte: nobody's to write.
            front: unsafe { self.pattern.changed(front, start - front) },
            // SAFETY: as above, behind its last byte.
            behind: unsafe { self.pattern.changed(end, behind - end) },
        }
    }

    /// Makes what is around a block the pattern again.
    pub(super) fn mend(&self, around: Around) {
        for changed in [around.front, around.behind].into_iter().flatten() {
            // SAFETY: found within pages of a block that this thread alone has, outside of the block.
            unsafe { self.pattern.write(changed.first, changed.span) };
        }
    }

    /// Fence: the block is poisoned and waits. What has waited long enough is looked at; its fault, if any.
    #[inline]
    fn keep(&self, cell: u32, record: &Record, word: Word, place: Place, around: Around) -> Option<Fault> {
        if !around.is_clean() {
            self.mend(around);
        }
        let size = word.shape().size;
        if size > 0 {
            // SAFETY: the block is this thread's alone.
            unsafe { bytes::fill(place.start, size, FREED) };
        }
        record.set(word.with(State::Kept));
        let table = &self.small.table;
        let mut stash = self.stashes.own();
        stash.staged.push(table, cell);
        if stash.staged.len >= self.batch {
            let staged = core::mem::replace(&mut stash.staged, Chain::EMPTY);
            let mut depot = self.small.depot.lock();
            depot.quarantine.push(table, staged);
            if stash.expired.len == 0 && depot.quarantine.cells() > self.limit {
                stash.expired = depot.quarantine.pop(table).unwrap_or(Chain::EMPTY);
            }
        }
        let expired = stash.expired.pop(table)?;
        // Under the lock, which others do not wait for: it saves taking it twice.
        let late = self.expire(expired);
        if !stash.ready.push(expired) {
            drop(stash);
            self.put_by(expired);
        }
        late
    }

    /// Looks at a block that has waited, and makes its page ready for another.
    #[inline]
    pub(super) fn expire(&self, cell: u32) -> Option<Fault> {
        let record = self.small.record(cell)?;
        let mut tries = 0_u32;
        let word = loop {
            let word = record.word();
            if word.kind() == State::Kept && record.advance(word, State::Leaving).is_ok() {
                break word;
            }
            // Somebody looks at it.
            tries = tries.wrapping_add(1);
            relax(tries);
        };
        let shape = word.shape();
        let place = self.small.geometry.place(cell, shape);
        let around = self.around(&self.small, place, shape);
        // SAFETY: a page of a freed block, provided, this thread's alone.
        let written = unsafe { bytes::poison_changed(place.start, shape.size, self.deep) };
        // SAFETY: as above.
        unsafe { self.pattern.write(place.start, shape.size) };
        let late = if written.is_none() && around.is_clean() { None } else { self.written_late(cell, record, written, around) };
        record.set(word.with(State::Ready));
        late
    }

    #[cold]
    fn written_late(&self, cell: u32, record: &Record, written: Option<Changed>, around: Around) -> Option<Fault> {
        self.mend(around);
        let changed = written.or(around.front).or(around.behind)?;
        Some(self.late(cell, record, changed))
    }

    /// What was changed in a page after the block in it was freed.
    #[cold]
    pub(super) fn late(&self, cell: u32, record: &Record, changed: Changed) -> Fault {
        // Under Strict the page, and what is in it, may have come from another cell.
        let came_from = record.other.load(Relaxed).checked_sub(1).filter(|_| self.kind == Kind::Strict);
        let geometry = &self.small.geometry;
        let away = came_from
            .map_or(0, |from| geometry.address(geometry.guard_of(cell)).wrapping_sub(geometry.address(geometry.guard_of(from))));
        let first = changed.first.wrapping_sub(away);
        let block = self.known(&self.small, came_from.unwrap_or(cell));
        Fault { kind: ReportKind::UseAfterFree, block, address: first, changed: Some(Changed { first, ..changed }), owner: None }
    }

    /// A ready page for which the thread has no room: for the others, or for the system.
    #[cold]
    fn put_by(&self, cell: u32) {
        let table = &self.small.table;
        {
            let mut depot = self.small.depot.lock();
            if depot.ready.cells() < IDLE {
                let mut chain = Chain::EMPTY;
                chain.push(table, cell);
                depot.ready.push(table, chain);
                return;
            }
        }
        if let Some(record) = self.small.record(cell) {
            let word = record.word();
            let place = self.small.geometry.place(cell, word.shape());
            if self.small.revoke(place) {
                self.small.leave(cell, word.with(State::Gone));
            }
        }
    }

    /// Strict: the page goes to the next cell, or to the system.
    fn send_on(&self, cell: u32, word: Word, place: Place, around: Around) {
        let Some(to) = self.next_cell() else { return self.revoke(&self.small, cell, word, place) };
        self.mend(around);
        // SAFETY: the block is this thread's alone.
        unsafe { self.pattern.write(place.start, word.shape().size.min(self.small.extent(place).1.saturating_sub(place.start))) };
        if !self.small.pass_on(cell, to) {
            self.revoke(&self.small, cell, word, place);
            let kept = self.stashes.own().fresh.push(to);
            if !kept {
                self.small.unclaim(to, 1);
            }
            return;
        }
        if let Some(record) = self.small.record(to) {
            record.other.store(cell + 1, Relaxed);
            record.set(record.word().with(State::Ready));
        }
        self.small.leave(cell, word.with(State::Gone));
        let kept = self.stashes.own().ready.push(to);
        if !kept && let Some(record) = self.small.record(to) {
            let place = Place { start: 0, page: self.small.geometry.guard_of(to) + 1, pages: 1 };
            let word = record.word();
            if self.small.revoke(place) {
                self.small.leave(to, word.with(if word.is_block() { State::Gone } else { State::Never }));
            }
        }
    }

    /// Strict: where a freed page may go; `None` where it had better go back to the system.
    #[inline]
    fn next_cell(&self) -> Option<u32> {
        if self.back_end() != crate::mode::BackEnd::UserfaultfdMove {
            return None;
        }
        {
            let mut stash = self.stashes.own();
            if stash.ready.is_full() {
                return None;
            }
            if let Some(cell) = stash.fresh.pop() {
                return Some(cell);
            }
        }
        let mut claimed = self.small.claim_some(None, self.claims).ok()?;
        let cell = claimed.pop();
        self.stock_up(claimed);
        cell
    }

    /// Takes a block's pages out of reach. Where the system does not, they stay as they are, poisoned, for ever.
    fn revoke(&self, ground: &Ground<P>, cell: u32, word: Word, place: Place) {
        if !ground.revoke(place) {
            // SAFETY: still provided, this thread's alone.
            unsafe { bytes::fill(place.start, word.shape().size, FREED) };
            if let Some(record) = ground.record(cell) {
                record.set(word.with(State::Kept));
            }
            return;
        }
        let cells = ground.geometry.cells_for(word.shape()).unwrap_or(1);
        for body in cell + 1..cell + cells {
            ground.leave(body, Word(0).with(State::BodyGone));
        }
        ground.leave(cell, word.with(State::Gone));
    }
}
