//! The slots that records lie in: chunks that never move, found by number through a directory.
//!
//! ```text
//!   number = chunk * 64 + place      directory: | chunk 0 | chunk 1 | ..      chunk: | record | x 64
//! ```
//!
//! The table takes no memory itself. Whoever wants a slot and finds none is told what lacks, allocates it outside of the lock,
//! and supplies it.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::array::{Array, Spare};
use super::record::{LAST_GENERATION, NIL, Record};
use crate::error::Limit;

/// A power of two, so that finding a record divides nothing.
const PER_CHUNK: u32 = 64;
const CHUNK: Layout = Layout::new::<[Record; PER_CHUNK as usize]>();
/// Numbers above are words of the pools' own, and `NIL`.
const MOST_CHUNKS: u32 = 0xfc00_0000 / PER_CHUNK;
const FIRST_DIRECTORY: u32 = 8;

pub(super) struct Table {
    directory: Array<NonNull<Record>>,
    free: u32,
}

/// Memory that a table wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableLack {
    Chunk,
    Directory(u32),
}

impl TableLack {
    /// `None` when it is more than can be addressed.
    pub(super) fn layout(self) -> Option<Layout> {
        match self {
            Self::Chunk => Some(CHUNK),
            Self::Directory(capacity) => Array::<NonNull<Record>>::layout(capacity),
        }
    }
}

// SAFETY: the pointers are to blocks that the table alone refers to; what lies in them may be sent.
unsafe impl Send for Table {}

impl Table {
    pub(super) const fn new() -> Self {
        Self { directory: Array::new(), free: NIL }
    }

    /// What must be supplied before there is a slot; `Err` when there can be no more.
    pub(super) fn lacks(&self) -> Result<Option<TableLack>, Limit> {
        if self.free != NIL {
            return Ok(None);
        }
        if self.directory.len() >= MOST_CHUNKS {
            return Err(Limit::Records);
        }
        Ok(Some(self.directory.lacks(FIRST_DIRECTORY, MOST_CHUNKS).map_or(TableLack::Chunk, TableLack::Directory)))
    }

    /// Takes memory that lacked; gives back what it replaces, or the block itself where it lacks no more.
    ///
    /// # Safety
    /// `block` is one of `lack.layout()` that nothing else refers to.
    pub(super) unsafe fn supply(&mut self, lack: TableLack, block: NonNull<u8>) -> Option<Spare> {
        if self.lacks() != Ok(Some(lack)) {
            return lack.layout().map(|layout| (block, layout));
        }
        match lack {
            // SAFETY: the caller's promise.
            TableLack::Directory(capacity) => unsafe { self.directory.supply(capacity, block) },
            TableLack::Chunk => {
                let chunk = block.cast::<Record>();
                let first = self.directory.len() * PER_CHUNK;
                if self.directory.push(chunk).is_err() {
                    return Some((block, CHUNK));
                }
                for place in (0..PER_CHUNK).rev() {
                    // SAFETY: within the chunk of `PER_CHUNK` records.
                    let slot = unsafe { chunk.add(place as usize) };
                    // SAFETY: the slot is writable, aligned, and nobody else's.
                    unsafe { slot.write(Record::Free { next: self.free, generation: 1 }) };
                    self.free = first + place;
                }
                None
            }
        }
    }

    fn slot(&self, number: u32) -> Option<NonNull<Record>> {
        let start = self.directory.as_slice().get((number / PER_CHUNK) as usize)?;
        // SAFETY: within the chunk of `PER_CHUNK` records.
        Some(unsafe { start.add((number % PER_CHUNK) as usize) })
    }

    pub(super) fn get(&self, number: u32) -> Option<&Record> {
        // SAFETY: every slot of a chunk is written by `supply`; `&self` allows no writer.
        self.slot(number).map(|slot| unsafe { slot.as_ref() })
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Record> {
        // SAFETY: every slot of a chunk is written by `supply`; `&mut self` is the one way in.
        self.slot(number).map(|mut slot| unsafe { slot.as_mut() })
    }

    /// A slot of one's own, with its number.
    pub(super) fn take(&mut self) -> Option<u32> {
        let number = self.free;
        let slot = self.get_mut(number)?;
        let Record::Free { next, generation } = *slot else { return None };
        *slot = Record::Taken { generation };
        self.free = next;
        Some(number)
    }

    /// Makes a slot free again, for the next generation. What was in it must have been taken out: this drops nothing.
    pub(super) fn put_back(&mut self, number: u32, used: bool) {
        let next = self.free;
        let Some(slot) = self.get_mut(number) else { return };
        let generation = slot.generation() + u32::from(used);
        *slot = Record::Free { next, generation };
        if generation <= LAST_GENERATION {
            self.free = number;
        }
    }

    /// Each slot, in order of number.
    pub(super) fn each(&self) -> impl Iterator<Item = (u32, &Record)> {
        (0..self.directory.len() * PER_CHUNK).filter_map(|number| self.get(number).map(|record| (number, record)))
    }

    /// All memory, a block a call, until `None`. The table is empty from the first call on.
    pub(super) fn dismantle(&mut self) -> Option<Spare> {
        self.free = NIL;
        let last = self.directory.as_slice().len().checked_sub(1);
        match last.and_then(|last| self.directory.swap_remove(last)) {
            Some(chunk) => Some((chunk.cast(), CHUNK)),
            None => self.directory.dismantle(),
        }
    }
}

impl Record {
    fn generation(&self) -> u32 {
        match self {
            Self::Free { generation, .. } | Self::Taken { generation } => *generation,
            Self::Root(root) => root.generation,
            Self::Wrapped(wrapped) => wrapped.generation,
            Self::Crop(crop) => crop.generation,
        }
    }

    /// The generation of a slot that was taken.
    pub(super) fn taken(&self) -> Option<u32> {
        match self {
            Self::Taken { generation } => Some(*generation),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{alloc, dealloc};
    use std::vec::Vec;

    use super::*;

    fn supplied(table: &mut Table) {
        while let Ok(Some(lack)) = table.lacks() {
            // SAFETY: no lack has size 0.
            let block = NonNull::new(unsafe { alloc(lack.layout().unwrap()) }).unwrap();
            // SAFETY: just taken with the lack's layout.
            if let Some((spare, layout)) = unsafe { table.supply(lack, block) } {
                // SAFETY: a block that was supplied with this layout.
                unsafe { dealloc(spare.as_ptr(), layout) };
            }
        }
    }

    #[test]
    fn slots_differ_come_back_and_are_retired() {
        let mut table = Table::new();
        let mut numbers = Vec::new();
        for _ in 0..2000 {
            supplied(&mut table);
            numbers.push(table.take().unwrap());
        }
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 2000);
        assert!(table.get(NIL).is_none() && table.get(4096).is_none());
        table.put_back(77, true);
        assert_eq!(table.take(), Some(77));
        assert_eq!(table.get(77).unwrap().taken(), Some(2));
        *table.get_mut(77).unwrap() = Record::Taken { generation: LAST_GENERATION };
        table.put_back(77, true);
        supplied(&mut table);
        assert_ne!(table.take(), Some(77), "used up");
        let mut blocks = 0;
        while let Some((block, layout)) = table.dismantle() {
            blocks += 1;
            // SAFETY: a block that was supplied with this layout.
            unsafe { dealloc(block.as_ptr(), layout) };
        }
        assert_eq!(blocks, 2000usize.div_ceil(64) + 1);
        assert!(table.take().is_none() && table.get(0).is_none());
    }
}
