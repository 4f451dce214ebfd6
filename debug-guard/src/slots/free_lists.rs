//! Lists of cells: small arrays, chains through the side table, queues of chains. None allocates to grow.

#![forbid(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use super::record::{CellRecord, NONE};
use super::table::SideTable;

/// Cells in a thread's stack.
pub(super) const SMALL_STACK: usize = 64;

/// A stack of a few cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct SmallStack {
    cells: [u32; SMALL_STACK],
    len: usize,
}

impl SmallStack {
    pub(super) const EMPTY: Self = Self {
        cells: [NONE; SMALL_STACK],
        len: 0,
    };

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_full(&self) -> bool {
        self.len == SMALL_STACK
    }

    /// False when it is full.
    #[inline]
    pub(super) fn push(&mut self, cell: u32) -> bool {
        let Some(place) = self.cells.get_mut(self.len) else {
            return false;
        };
        *place = cell;
        self.len += 1;
        true
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        let last = self.len.checked_sub(1)?;
        self.len = last;
        self.cells.get(last).copied()
    }

    /// Reverses the order.
    pub(super) fn reverse(&mut self) {
        if let Some(held) = self.cells.get_mut(..self.len) {
            held.reverse();
        }
    }
}

/// Cells linked through their records, the newest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    pub(super) first: u32,
    pub(super) len: u32,
}

impl Chain {
    pub(super) const EMPTY: Self = Self {
        first: NONE,
        len: 0,
    };

    #[inline]
    pub(super) fn push(&mut self, table: &SideTable, cell: u32) {
        if let Some(record) = table.get(cell) {
            self.push_record(cell, record);
        }
    }

    /// As [`push`](Self::push), where the record is known.
    #[inline]
    pub(super) fn push_record(&mut self, cell: u32, record: &CellRecord) {
        record.link.store(self.first, Relaxed);
        self.first = cell;
        self.len += 1;
    }

    #[inline]
    pub(super) fn pop(&mut self, table: &SideTable) -> Option<u32> {
        let left = self.len.checked_sub(1)?;
        let cell = self.first;
        self.first = table.get(cell)?.link.load(Relaxed);
        self.len = left;
        Some(cell)
    }
}

/// Chains, first in, first out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    head: u32,
    tail: u32,
    cells: u32,
}

impl Queue {
    pub(super) const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        cells: 0,
    };

    /// How many cells all its chains have.
    pub(super) const fn cells(&self) -> u32 {
        self.cells
    }

    pub(super) fn push(&mut self, table: &SideTable, chain: Chain) {
        let Some(first) = table.get(chain.first).filter(|_| chain.len > 0) else {
            return;
        };
        first.count.store(chain.len, Relaxed);
        first.other.store(NONE, Relaxed);
        match table.get(self.tail).filter(|_| self.cells > 0) {
            Some(tail) => tail.other.store(chain.first, Relaxed),
            None => self.head = chain.first,
        }
        self.tail = chain.first;
        self.cells += chain.len;
    }

    pub(super) fn pop(&mut self, table: &SideTable) -> Option<Chain> {
        if self.cells == 0 {
            return None;
        }
        let first = table.get(self.head)?;
        let chain = Chain {
            first: self.head,
            len: first.count.load(Relaxed),
        };
        self.head = first.other.load(Relaxed);
        self.cells = self.cells.saturating_sub(chain.len);
        Some(chain)
    }
}

/// A ring of a few cells, which delays them until their records are prefetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrefetchRing {
    cells: [u32; 4],
    at: usize,
}

impl PrefetchRing {
    pub(super) const EMPTY: Self = Self {
        cells: [NONE; 4],
        at: 0,
    };

    /// Adds one cell and removes the oldest.
    #[inline]
    pub(super) fn turn(&mut self, on: u32) -> Option<u32> {
        let [a, b, c, d] = &mut self.cells;
        let place = match self.at & 3 {
            0 => a,
            1 => b,
            2 => c,
            _ => d,
        };
        self.at = self.at.wrapping_add(1);
        Some(core::mem::replace(place, on)).filter(|&cell| cell != NONE)
    }

    /// Removes any cell.
    pub(super) fn clear_one(&mut self) -> Option<u32> {
        let place = self.cells.iter_mut().find(|cell| **cell != NONE)?;
        Some(core::mem::replace(place, NONE))
    }
}
