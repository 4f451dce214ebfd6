//! The slots of records: chunks that never move, found by number through a directory.
//!
//! ```text
//!   number = chunk * 64 + place      directory: | chunk 0 | chunk 1 | ..      chunk: | record | x 64
//!                                    the first eight entries lie in the table itself
//! ```
//!
//! The table allocates no memory: its methods return the missing capacity, which the caller allocates without the lock (see `host_block.rs`).

use core::alloc::Layout;
use core::ptr::NonNull;

use super::record::{LAST_GENERATION, RecordHeader, RegionRecord, RootRecord};
use super::state::RecordShortage;
use crate::error::{GpuMisuse, Limit};
use crate::growable_vec::GrowableVec;
use crate::host_block::HostBlock;
use crate::id::{RegionKey, RegionPlace};

/// A power of two, so that a lookup divides nothing.
const PER_CHUNK: u32 = 64;
const CHUNK: Layout = Layout::new::<[RegionRecord; PER_CHUNK as usize]>();
/// Larger numbers are the pools' own, and [`NONE`].
const MAX_CHUNKS: u32 = crate::pool::FIRST_OWN / PER_CHUNK;
const INLINE: u32 = 8;
/// No slot.
const NONE: u32 = u32::MAX;

pub(super) struct RecordTable {
    first: [Option<NonNull<RegionRecord>>; INLINE as usize],
    directory: GrowableVec<NonNull<RegionRecord>, INLINE>,
    chunks: u32,
    free: u32,
    spare: u32,
}

// SAFETY: the table alone refers to the blocks behind the pointers; records are `Send`.
unsafe impl Send for RecordTable {}

impl RecordTable {
    pub(super) const CHUNK: Layout = CHUNK;

    pub(super) const fn new() -> Self {
        Self {
            first: [None; INLINE as usize],
            directory: GrowableVec::new(),
            chunks: 0,
            free: NONE,
            spare: 0,
        }
    }

    /// What is missing first to reserve a slot; `Err` if the table cannot grow.
    pub(super) fn missing_capacity(&self) -> Result<Option<RecordShortage>, Limit> {
        if self.spare > 0 {
            return Ok(None);
        }
        if self.chunks >= MAX_CHUNKS {
            return Err(Limit::Records);
        }
        let directory = self
            .directory
            .missing_capacity(1)
            .filter(|_| self.chunks >= INLINE);
        Ok(Some(
            directory.map_or(RecordShortage::Chunk, RecordShortage::Directory),
        ))
    }

    /// Moves into a longer directory. Returns the old one, or the block if it is not longer.
    pub(super) fn grow_directory(&mut self, block: HostBlock) -> Option<HostBlock> {
        self.directory.grow_with(block)
    }

    /// Adds a chunk. Returns it if the directory has no room.
    pub(super) fn add_chunk(&mut self, block: HostBlock) -> Option<HostBlock> {
        let has_place = self.chunks < INLINE || self.directory.missing_capacity(1).is_none();
        if block.layout() != CHUNK || !has_place {
            return Some(block);
        }
        let chunk = block.into_start().cast::<RegionRecord>();
        match self.first.get_mut(self.chunks as usize) {
            Some(entry) => *entry = Some(chunk),
            // The directory has room, see above.
            None => self.directory.push(chunk).ok()?,
        }
        let first = self.chunks * PER_CHUNK;
        for place in (0..PER_CHUNK).rev() {
            // SAFETY: within the chunk of `PER_CHUNK` records.
            let slot = unsafe { chunk.add(place as usize) };
            // SAFETY: the slot is writable, aligned, and the table's alone.
            unsafe {
                slot.write(RegionRecord::Free {
                    next: self.free,
                    generation: 1,
                })
            };
            self.free = first + place;
        }
        self.chunks += 1;
        self.spare += PER_CHUNK;
        None
    }

    /// Detaches the last chunk if none of its slots was ever reserved: a call that failed had added it.
    pub(super) fn detach_unused_chunk(&mut self) -> Option<HostBlock> {
        let last = self.chunks.checked_sub(1)?;
        let first = last * PER_CHUNK;
        let untouched = |number| {
            matches!(
                self.get(number),
                Some(RegionRecord::Free { generation: 1, .. })
            )
        };
        if !(first..first + PER_CHUNK).all(untouched) {
            return None;
        }
        let mut number = core::mem::replace(&mut self.free, NONE);
        let mut tail = NONE;
        while let Some(&RegionRecord::Free { next, .. }) = self.get(number) {
            if number < first {
                match self.get_mut(tail) {
                    Some(RegionRecord::Free { next, .. }) => *next = number,
                    _ => self.free = number,
                }
                tail = number;
            }
            number = next;
        }
        if let Some(RegionRecord::Free { next, .. }) = self.get_mut(tail) {
            *next = NONE;
        }
        self.spare -= PER_CHUNK;
        self.detach_last_chunk()
    }

    fn detach_last_chunk(&mut self) -> Option<HostBlock> {
        let last = self.chunks.checked_sub(1)?;
        let chunk = match self.first.get_mut(last as usize) {
            Some(entry) => entry.take(),
            None => self.directory.swap_remove((last - INLINE) as usize),
        }?;
        self.chunks = last;
        // SAFETY: `add_chunk` received it with this layout; nothing in the table refers to it any more.
        Some(unsafe { HostBlock::new(chunk.cast(), CHUNK) })
    }

    fn slot(&self, number: u32) -> Option<NonNull<RegionRecord>> {
        let chunk = number / PER_CHUNK;
        let start = match self.first.get(chunk as usize) {
            Some(entry) => (*entry)?,
            None => *self.directory.as_slice().get((chunk - INLINE) as usize)?,
        };
        // SAFETY: within the chunk of `PER_CHUNK` records.
        Some(unsafe { start.add((number % PER_CHUNK) as usize) })
    }

    pub(super) fn get(&self, number: u32) -> Option<&RegionRecord> {
        // SAFETY: every slot of a chunk is written by `add_chunk`; `&self` allows no writer.
        self.slot(number).map(|slot| unsafe { slot.as_ref() })
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut RegionRecord> {
        // SAFETY: every slot of a chunk is written by `add_chunk`; `&mut self` is exclusive.
        self.slot(number).map(|mut slot| unsafe { slot.as_mut() })
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
        self.spare -= 1;
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
            self.spare += 1;
        }
    }

    /// Each slot, in order of number.
    pub(super) fn each(&self) -> impl Iterator<Item = (u32, &RegionRecord)> {
        (0..self.chunks * PER_CHUNK)
            .filter_map(|number| self.get(number).map(|record| (number, record)))
    }

    /// Detaches one block of memory at each call, until `None`. The table is empty from the first call on.
    pub(super) fn detach_memory(&mut self) -> Option<HostBlock> {
        self.free = NONE;
        self.spare = 0;
        self.detach_last_chunk()
            .or_else(|| self.directory.detach_memory())
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{alloc, dealloc};
    use std::vec::Vec;

    use super::*;

    fn block(layout: Layout) -> HostBlock {
        // SAFETY: no layout of a table has size 0.
        let start = NonNull::new(unsafe { alloc(layout) }).unwrap();
        // SAFETY: fresh, of that layout.
        unsafe { HostBlock::new(start, layout) }
    }

    fn free_spare(spare: Option<HostBlock>) -> bool {
        let Some(block) = spare else {
            return false;
        };
        let layout = block.layout();
        // SAFETY: a block that was supplied with this layout.
        unsafe { dealloc(block.into_start().as_ptr(), layout) };
        true
    }

    fn grown(table: &mut RecordTable) {
        while let Some(shortage) = table.missing_capacity().unwrap() {
            let memory = block(shortage.layout());
            match shortage {
                RecordShortage::Chunk => assert!(!free_spare(table.add_chunk(memory))),
                _ => drop(free_spare(table.grow_directory(memory))),
            }
        }
    }

    #[test]
    fn slots_differ_come_back_and_are_retired() {
        let mut table = RecordTable::new();
        let mut numbers = Vec::new();
        for _ in 0..2000 {
            grown(&mut table);
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
        grown(&mut table);
        assert_ne!(table.reserve(), Some(77), "used up");
        let mut blocks = 0;
        while free_spare(table.detach_memory()) {
            blocks += 1;
        }
        assert_eq!(blocks, 2000usize.div_ceil(64) + 1);
        assert!(table.reserve().is_none() && table.get(0).is_none());
    }

    #[test]
    fn an_untouched_chunk_is_withdrawn_and_the_others_stay() {
        let mut table = RecordTable::new();
        grown(&mut table);
        let numbers: Vec<u32> = (0..63).map(|_| table.reserve().unwrap()).collect();
        assert!(!free_spare(table.add_chunk(block(CHUNK))));
        table.release(numbers[5], true);
        assert!(free_spare(table.detach_unused_chunk()));
        assert_eq!(
            (table.reserve(), table.reserve(), table.reserve()),
            (Some(numbers[5]), Some(63), None)
        );
        assert!(
            !free_spare(table.detach_unused_chunk()),
            "this one is in use"
        );
        assert!(matches!(
            table.missing_capacity(),
            Ok(Some(RecordShortage::Chunk))
        ));
        while free_spare(table.detach_memory()) {}
    }
}
