//! A queue with two ends over a table that grows and never moves.

#![forbid(unsafe_code)]

use core::alloc::Layout;

use super::segments::{Donation, Segments};
use crate::range::Memory;

/// A range of a linear block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Ascending from the oldest to the newest.
    pub(super) serial: u64,
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// Entries from the oldest to the newest. What is taken out leaves room at either end, and the table is gone round in.
pub(super) struct Queue {
    table: Segments<Entry>,
    capacity: u32,
    first: u32,
    len: u32,
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self { table: Segments::new(), capacity: 0, first: 0, len: 0 }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    fn place(&self, nth: u32) -> u32 {
        let place = u64::from(self.first) + u64::from(nth);
        let capacity = u64::from(self.capacity);
        (if place < capacity { place } else { place - capacity }) as u32
    }

    /// The `nth`, counted from the oldest.
    pub(super) fn get(&self, nth: u32) -> Option<Entry> {
        if nth < self.len { self.table.get(self.place(nth)).copied() } else { None }
    }

    pub(super) fn first(&self) -> Option<Entry> {
        self.get(0)
    }

    pub(super) fn last(&self) -> Option<Entry> {
        self.get(self.len.checked_sub(1)?)
    }

    /// What has to be supplied before another entry fits. `None` too where there can be no more: then [`push`](Queue::push) says so.
    pub(super) fn lacks(&self) -> Option<Layout> {
        if self.len < self.capacity { None } else { self.table.lacks(self.capacity) }
    }

    /// Makes room for more; what is not needed comes back.
    pub(super) fn supply(&mut self, donation: Donation) -> Option<Memory> {
        let back = self.table.supply(donation, Entry::default);
        if back.is_none() {
            let old = self.capacity;
            while self.table.get(self.capacity).is_some() {
                self.capacity = self.capacity.saturating_mul(2) + 16;
            }
            // The new part is longer than the old one: what went round before goes on straight.
            let round = (self.first + self.len).saturating_sub(old);
            for place in 0..round {
                if let (Some(entry), Some(to)) = (self.table.get(place).copied(), self.table.get_mut(old + place)) {
                    *to = entry;
                }
            }
        }
        back
    }

    /// Adds the newest. False where there is no room.
    pub(super) fn push(&mut self, entry: Entry) -> bool {
        if self.len >= self.capacity {
            return false;
        }
        let place = self.place(self.len);
        let Some(to) = self.table.get_mut(place) else { return false };
        *to = entry;
        self.len += 1;
        true
    }

    pub(super) fn pop_first(&mut self) {
        if self.len > 0 {
            self.first = self.place(1);
            self.len -= 1;
        }
    }

    pub(super) fn pop_last(&mut self) {
        self.len = self.len.saturating_sub(1);
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// The entry with that serial.
    pub(super) fn find(&self, serial: u64) -> Option<Entry> {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = self.get(middle)?;
            if entry.serial == serial {
                return Some(entry);
            } else if entry.serial < serial {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        None
    }

    pub(super) fn withdraw(&mut self) -> Option<Memory> {
        self.len = 0;
        self.capacity = 0;
        self.table.withdraw()
    }
}
