//! The lists are under one lock, and linked through the records, so they never grow.
//!
//! ```text
//!   never used: from `next` on --claim--> live --free--> Fence: quarantine --oldest, verified--> ready --> live
//!                 ^                                      Strict: the page moves to a claimed cell, which is ready
//!   gone (by size): addresses that rest, oldest first <--- the page was revoked, or moved away
//! ```

#![forbid(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use super::record::{CellTable, NONE, SlotKind};
use super::redzone::next_random;
use crate::os::lock::Abandoned;

const CLASSES: usize = 32;
/// Blocks of one size freed before an address is used again, while there are addresses that never were.
const DISTANCE: u32 = 1 << 17;
/// Ready pages beyond this number are returned to the system.
const IDLE: u32 = 8192;

#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) first: u32,
    last: u32,
    len: u32,
}

impl Queue {
    const EMPTY: Self = Self { first: NONE, last: NONE, len: 0 };

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn push(&mut self, table: &CellTable, cell: u32) {
        match table.get(self.last).filter(|_| self.len > 0) {
            Some(last) => last.link.store(cell, Relaxed),
            None => self.first = cell,
        }
        self.last = cell;
        self.len += 1;
    }

    pub(super) fn push_front(&mut self, table: &CellTable, cell: u32) {
        if self.len == 0 {
            return self.push(table, cell);
        }
        if let Some(record) = table.get(cell) {
            record.link.store(self.first, Relaxed);
            self.first = cell;
            self.len += 1;
        }
    }

    pub(super) fn pop(&mut self, table: &CellTable) -> Option<u32> {
        let left = self.len.checked_sub(1)?;
        let cell = self.first;
        self.first = table.get(cell)?.link.load(Relaxed);
        self.len = left;
        Some(cell)
    }
}

#[derive(Debug)]
pub(super) struct Lists {
    next: u32,
    pub(super) quarantine: Queue,
    /// Provided and filled with the pattern.
    pub(super) ready: Queue,
    /// First cells of inaccessible runs, by the logarithm of their length.
    gone: [Queue; CLASSES],
    random: u64,
}

pub(super) enum Claim {
    Cell(u32),
    /// Further records than this many are needed first.
    Missing(u32),
    Exhausted,
}

const fn class_of(cells: u32) -> usize {
    cells.next_power_of_two().trailing_zeros() as usize
}

impl Lists {
    pub(super) const fn new(random: u64) -> Self {
        Self { next: 0, quarantine: Queue::EMPTY, ready: Queue::EMPTY, gone: [Queue::EMPTY; CLASSES], random }
    }

    /// Of cells that were never used one is left out now and then: a program that always writes one stride too far
    /// does not always hit its next block.
    pub(super) fn claim(&mut self, table: &CellTable, all: u32, cells: u32) -> Claim {
        let class = class_of(cells);
        let Some(gone) = self.gone.get_mut(class) else {
            return Claim::Exhausted;
        };
        let chance = next_random(&mut self.random) as u32;
        let gap = if chance & 7 == 0 { chance >> 3 & 3 } else { 0 };
        let first = self.next.saturating_add(gap);
        let end = first.saturating_add(1 << class);
        if end <= all && gone.len() < DISTANCE {
            let count = table.count();
            if end > count {
                return Claim::Missing(count);
            }
            self.next = end;
            return Claim::Cell(first);
        }
        gone.pop(table).map_or(Claim::Exhausted, Claim::Cell)
    }

    pub(super) fn rested(&mut self, table: &CellTable, cells: u32) -> Option<u32> {
        self.gone.get_mut(class_of(cells))?.pop(table)
    }

    pub(super) fn rest(&mut self, table: &CellTable, cell: u32, cells: u32) {
        if let Some(gone) = self.gone.get_mut(class_of(cells)) {
            gone.push(table, cell);
        }
    }

    pub(super) fn wants_ready(&self) -> bool {
        self.ready.len() < IDLE
    }

    pub(super) fn make_ready(&mut self, table: &CellTable, cell: u32) -> bool {
        let is_wanted = self.wants_ready();
        if is_wanted {
            self.ready.push_front(table, cell);
        }
        is_wanted
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> u32 {
        self.quarantine.len()
    }

    pub(super) fn wait(&mut self, table: &CellTable, cell: u32) {
        if let Some(record) = table.get(cell) {
            record.set(record.word().with(SlotKind::Kept));
            self.quarantine.push(table, cell);
        }
    }

    /// The block is the caller's from here on.
    pub(super) fn oldest(&mut self, table: &CellTable, limit: u32) -> Option<u32> {
        if self.quarantine.len() <= limit {
            return None;
        }
        let cell = self.quarantine.pop(table)?;
        let record = table.get(cell)?;
        record.set(record.word().with(SlotKind::Leaving));
        Some(cell)
    }
}

impl Abandoned for Lists {
    /// Cells in the lists are lost, and stay as they were.
    fn abandoned(&mut self) {
        *self = Self { next: self.next, ..Self::new(self.random) };
    }
}
