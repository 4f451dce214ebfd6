//! The slots of records: 64 in a chunk, which never moves.

#![forbid(unsafe_code)]

use core::alloc::Layout;

use super::record::{LAST_GENERATION, RecordHeader, RegionRecord, RootRecord};
use crate::chunked::Chunked;
use crate::error::GpuMisuse;
use crate::host_memory::{GrowableTable, HostBlock};
use crate::id::{RegionKey, RegionPlace};

const CHUNK_RECORDS: usize = 64;
/// Larger numbers are the pools' own, and [`NONE`].
const MAX_RECORDS: u32 = crate::pool::FIRST_OWN;
/// No slot.
const NONE: u32 = u32::MAX;

/// In reserve it has one slot.
pub(super) struct RecordTable {
    records: Chunked<RegionRecord, CHUNK_RECORDS>,
    /// The first free slot.
    free: u32,
}

impl RecordTable {
    pub(super) const fn new() -> Self {
        Self {
            records: Chunked::new(),
            free: NONE,
        }
    }

    /// Whether a slot is free.
    pub(super) const fn has_free(&self) -> bool {
        self.free != NONE
    }

    pub(super) fn get(&self, number: u32) -> Option<&RegionRecord> {
        self.records.get(number)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut RegionRecord> {
        self.records.get_mut(number)
    }

    /// The record that `key` names.
    pub(super) fn named(&self, key: RegionKey) -> Result<&RegionRecord, GpuMisuse> {
        self.get(key.slot)
            .filter(|record| record.header().is_some() && record.generation() == key.generation)
            .ok_or(GpuMisuse::Stale)
    }

    /// The record that `key` names.
    pub(super) fn record_mut(&mut self, key: RegionKey) -> Result<&mut RegionRecord, GpuMisuse> {
        self.get_mut(key.slot)
            .filter(|record| record.header().is_some() && record.generation() == key.generation)
            .ok_or(GpuMisuse::Stale)
    }

    /// The header of the record that `key` names.
    pub(super) fn named_mut(&mut self, key: RegionKey) -> Result<&mut RecordHeader, GpuMisuse> {
        let record = self.record_mut(key)?;
        record.header_mut().ok_or(GpuMisuse::Stale)
    }

    /// The root in a slot.
    pub(super) fn root(&self, slot: u32) -> Option<&RootRecord> {
        match self.get(slot) {
            Some(RegionRecord::Root(root)) => Some(root),
            _ => None,
        }
    }

    /// The root at a place.
    pub(super) fn root_at(&self, at: RegionPlace) -> Option<&RootRecord> {
        self.root(at.slot).filter(|root| root.place(at.slot) == at)
    }

    /// The root that `key` names.
    pub(super) fn root_mut(&mut self, key: RegionKey) -> Option<&mut RootRecord> {
        match self.get_mut(key.slot) {
            Some(RegionRecord::Root(root)) if root.header.generation == key.generation => {
                Some(root)
            }
            _ => None,
        }
    }

    /// Reserves a slot: its number.
    pub(super) fn reserve(&mut self) -> Option<u32> {
        let number = self.free;
        let slot = self.get_mut(number)?;
        let RegionRecord::Free { next, generation } = *slot else {
            return None;
        };
        *slot = RegionRecord::Reserved { generation };
        self.free = next;
        Some(number)
    }

    /// Fills a reserved slot. Returns its name.
    pub(super) fn fill(
        &mut self,
        number: u32,
        record: impl FnOnce(RecordHeader) -> RegionRecord,
    ) -> Option<RegionKey> {
        let slot = self.get_mut(number)?;
        let generation = slot.generation();
        *slot = record(RecordHeader::new(generation));
        Some(RegionKey {
            slot: number,
            generation,
        })
    }

    /// Frees a slot, for the next generation if it was `used`. Drops nothing: its content must have been moved out.
    pub(super) fn release(&mut self, number: u32, used: bool) {
        let next = self.free;
        let Some(slot) = self.get_mut(number) else {
            return;
        };
        let generation = slot.generation() + u32::from(used);
        *slot = RegionRecord::Free { next, generation };
        if generation <= LAST_GENERATION {
            self.free = number;
        }
    }

    /// Each slot, in order of number.
    pub(super) fn each(&self) -> impl Iterator<Item = (u32, &RegionRecord)> {
        (0..self.records.len()).filter_map(|number| self.get(number).map(|record| (number, record)))
    }
}

impl GrowableTable for RecordTable {
    fn missing(&self) -> Option<Layout> {
        let can_grow = self.records.len() < MAX_RECORDS;
        (can_grow && !self.has_free()).then(|| self.records.missing())
    }

    fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        let (first, free) = (self.records.len(), self.free);
        let last = first + CHUNK_RECORDS as u32 - 1;
        let unneeded = self.records.grow_with(block, |number| RegionRecord::Free {
            next: if number == last { free } else { number + 1 },
            generation: 1,
        });
        if self.records.len() > first {
            self.free = first;
        }
        unneeded
    }

    fn detach_memory(&mut self) -> Option<HostBlock> {
        self.free = NONE;
        self.records.detach_memory()
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use alloc_core::FromGlobalAlloc;

    use super::*;
    use crate::host_memory::{fill, free_table};

    #[test]
    fn slots_differ_come_back_and_are_retired() {
        let memory = FromGlobalAlloc::SYSTEM;
        let mut table = RecordTable::new();
        assert!(table.reserve().is_none(), "without memory");
        let mut numbers = Vec::new();
        for _ in 0..2000 {
            fill(&mut table, &memory).unwrap();
            numbers.push(table.reserve().unwrap());
        }
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 2000);
        assert!(table.get(NONE).is_none() && table.get(4096).is_none());
        table.release(77, true);
        assert_eq!(table.reserve(), Some(77));
        assert_eq!(table.get(77).unwrap().generation(), 2);
        *table.get_mut(77).unwrap() = RegionRecord::Reserved {
            generation: LAST_GENERATION,
        };
        table.release(77, true);
        fill(&mut table, &memory).unwrap();
        assert_ne!(table.reserve(), Some(77), "used up");
        free_table(&mut table, &memory);
        assert!(table.reserve().is_none() && table.get(0).is_none());
    }
}
