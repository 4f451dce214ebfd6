//! The slots that records lie in: chunks that never move, found by number through a directory.
//!
//! ```text
//!   number = chunk * 64 + place      directory: | chunk 0 | chunk 1 | ..      chunk: | record | x 64
//!                                    the first eight entries lie in the table itself
//! ```
//!
//! The table takes no memory itself. Whoever wants slots and finds none is told what lacks, allocates it outside of the lock,
//! and supplies it.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::record::{LAST_GENERATION, RegionRecord};
use crate::error::Limit;
use crate::growable_vec::GrowableVec;
use crate::host_block::HostBlock;
use crate::id::NO_RECORD;

/// A power of two, so that finding a record divides nothing.
const PER_CHUNK: u32 = 64;
const CHUNK: Layout = Layout::new::<[RegionRecord; PER_CHUNK as usize]>();
/// Numbers above are words of the pools' own, and `NO_RECORD`.
const MAX_CHUNKS: u32 = crate::pool::FIRST_OWN / PER_CHUNK;
const INLINE: u32 = 8;

pub(super) struct RecordTable {
    first: [Option<NonNull<RegionRecord>>; INLINE as usize],
    directory: GrowableVec<NonNull<RegionRecord>, INLINE>,
    chunks: u32,
    free: u32,
    spare: u32,
}

/// Memory that a table wants, at once: a longer directory, a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TableShortage {
    pub(super) directory: Option<Layout>,
    pub(super) chunk: bool,
}

// SAFETY: the pointers are to blocks that the table alone refers to; what lies in them may be sent.
unsafe impl Send for RecordTable {}

impl RecordTable {
    pub(super) const CHUNK: Layout = CHUNK;

    pub(super) const fn new() -> Self {
        Self {
            first: [None; INLINE as usize],
            directory: GrowableVec::new(),
            chunks: 0,
            free: NO_RECORD,
            spare: 0,
        }
    }

    /// What must be supplied before there are so many slots (64 at most); `Err` when there can be no more.
    pub(super) fn missing_capacity(&self, slots: u32) -> Result<TableShortage, Limit> {
        if self.spare >= slots {
            return Ok(TableShortage::default());
        }
        if self.chunks >= MAX_CHUNKS {
            return Err(Limit::Records);
        }
        let directory = if self.chunks < INLINE {
            None
        } else {
            self.directory.missing_capacity(1)
        };
        Ok(TableShortage {
            directory,
            chunk: true,
        })
    }

    /// Takes a longer directory; gives back the one it replaces, or the block itself where it is no longer.
    pub(super) fn grow_directory(&mut self, block: HostBlock) -> Option<HostBlock> {
        self.directory.grow_with(block)
    }

    /// Takes a chunk, if there is room for it in the directory; else it comes back.
    pub(super) fn add_chunk(&mut self, block: HostBlock) -> Option<HostBlock> {
        let has_place = self.chunks < INLINE || self.directory.missing_capacity(1).is_none();
        if block.layout() != CHUNK || !has_place {
            return Some(block);
        }
        let chunk = block.into_start().cast::<RegionRecord>();
        match self.first.get_mut(self.chunks as usize) {
            Some(entry) => *entry = Some(chunk),
            // There is room: it was asked for above.
            None => self.directory.push(chunk).ok()?,
        }
        let first = self.chunks * PER_CHUNK;
        for place in (0..PER_CHUNK).rev() {
            // SAFETY: within the chunk of `PER_CHUNK` records.
            let slot = unsafe { chunk.add(place as usize) };
            // SAFETY: the slot is writable, aligned, and nobody else's.
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

    /// The last chunk, if nobody has ever had a slot of it: what a call that failed after all had supplied.
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
        let mut number = core::mem::replace(&mut self.free, NO_RECORD);
        let mut tail = NO_RECORD;
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
            *next = NO_RECORD;
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
        // SAFETY: `add_chunk` was handed it with this layout; nothing in the table leads to it any more.
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
        // SAFETY: every slot of a chunk is written by `supply`; `&self` allows no writer.
        self.slot(number).map(|slot| unsafe { slot.as_ref() })
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut RegionRecord> {
        // SAFETY: every slot of a chunk is written by `supply`; `&mut self` is the one way in.
        self.slot(number).map(|mut slot| unsafe { slot.as_mut() })
    }

    /// A slot of one's own, with its number.
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

    /// Makes a slot free again, for the next generation. What was in it must have been taken out: this drops nothing.
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

    /// All memory, a block a call, until `None`. The table is empty from the first call on.
    pub(super) fn detach_memory(&mut self) -> Option<HostBlock> {
        self.free = NO_RECORD;
        self.spare = 0;
        self.detach_last_chunk()
            .or_else(|| self.directory.detach_memory())
    }
}

impl RegionRecord {
    pub(super) fn generation(&self) -> u32 {
        match self {
            Self::Free { generation, .. } | Self::Reserved { generation } => *generation,
            Self::Root(root) => root.generation,
            Self::Wrapped(wrapped) => wrapped.generation,
            Self::Crop(crop) => crop.generation,
        }
    }

    /// The generation of a slot that was taken.
    pub(super) fn reserved_generation(&self) -> Option<u32> {
        match self {
            Self::Reserved { generation } => Some(*generation),
            _ => None,
        }
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
        let TableShortage { directory, chunk } = table.missing_capacity(1).unwrap();
        if let Some(layout) = directory {
            free_spare(table.grow_directory(block(layout)));
        }
        if chunk {
            assert!(!free_spare(table.add_chunk(block(CHUNK))));
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
        assert!(table.get(NO_RECORD).is_none() && table.get(4096).is_none());
        table.release(77, true);
        assert_eq!(table.reserve(), Some(77));
        assert_eq!(table.get(77).unwrap().reserved_generation(), Some(2));
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
        assert_eq!(
            table.missing_capacity(1),
            Ok(TableShortage {
                directory: None,
                chunk: true
            })
        );
        while free_spare(table.detach_memory()) {}
    }
}
