//! A queue with two ends over a table that grows and never moves.

#![forbid(unsafe_code)]

use core::alloc::Layout;

use super::segments::Segments;
use crate::host_block::HostBlock;

/// A range of a linear block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueEntry {
    /// Ascending from the oldest to the newest.
    pub(super) serial: u64,
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// Entries from the oldest to the newest. What is taken out leaves room at either end, and the table is gone round in.
pub(super) struct RangeQueue {
    table: Segments<QueueEntry>,
    capacity: u32,
    first: u32,
    len: u32,
}

impl RangeQueue {
    pub(super) const fn new() -> Self {
        Self {
            table: Segments::new(),
            capacity: 0,
            first: 0,
            len: 0,
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    fn place(&self, nth: u32) -> u32 {
        let place = u64::from(self.first) + u64::from(nth);
        let capacity = u64::from(self.capacity);
        (if place < capacity {
            place
        } else {
            place - capacity
        }) as u32
    }

    /// The `nth`, counted from the oldest.
    pub(super) fn get(&self, nth: u32) -> Option<QueueEntry> {
        if nth < self.len {
            self.table.get(self.place(nth)).copied()
        } else {
            None
        }
    }

    pub(super) fn first(&self) -> Option<QueueEntry> {
        self.get(0)
    }

    pub(super) fn last(&self) -> Option<QueueEntry> {
        self.get(self.len.checked_sub(1)?)
    }

    /// What has to be supplied before another entry fits. `None` too where there can be no more: then [`push`](RangeQueue::push) says so.
    pub(super) fn missing_capacity(&self) -> Option<Layout> {
        if self.len < self.capacity {
            None
        } else {
            self.table.missing_capacity(self.capacity)
        }
    }

    /// Makes room for more; what is not needed comes back.
    pub(super) fn grow_with(&mut self, memory: HostBlock) -> Option<HostBlock> {
        let back = self.table.grow_with(memory, QueueEntry::default);
        if back.is_none() {
            let old = self.capacity;
            while self.table.get(self.capacity).is_some() {
                self.capacity = self.capacity.saturating_mul(2) + 16;
            }
            // The new part is longer than the old one: what went round before goes on straight.
            let round = (self.first + self.len).saturating_sub(old);
            for place in 0..round {
                if let (Some(entry), Some(to)) = (
                    self.table.get(place).copied(),
                    self.table.get_mut(old + place),
                ) {
                    *to = entry;
                }
            }
        }
        back
    }

    /// Adds the newest. False where there is no room.
    pub(super) fn push(&mut self, entry: QueueEntry) -> bool {
        if self.len >= self.capacity {
            return false;
        }
        let place = self.place(self.len);
        let Some(to) = self.table.get_mut(place) else {
            return false;
        };
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
    pub(super) fn find(&self, serial: u64) -> Option<QueueEntry> {
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

    pub(super) fn detach_memory(&mut self) -> Option<HostBlock> {
        self.len = 0;
        self.capacity = 0;
        self.table.detach_memory()
    }
}
