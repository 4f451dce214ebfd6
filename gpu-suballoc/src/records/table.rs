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

use super::array::{Array, Spare};
use super::record::{LAST_GENERATION, NIL, Record};
use crate::error::Limit;

/// A power of two, so that finding a record divides nothing.
const PER_CHUNK: u32 = 64;
const CHUNK: Layout = Layout::new::<[Record; PER_CHUNK as usize]>();
/// Numbers above are words of the pools' own, and `NIL`.
const MOST_CHUNKS: u32 = 0xfa00_0000 / PER_CHUNK;
const INLINE: u32 = 8;

pub(super) struct Table {
    first: [Option<NonNull<Record>>; INLINE as usize],
    directory: Array<NonNull<Record>>,
    chunks: u32,
    free: u32,
    spare: u32,
}

/// Memory that a table wants, at once: a longer directory, a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TableLack {
    pub(super) directory: Option<u32>,
    pub(super) chunk: bool,
}

// SAFETY: the pointers are to blocks that the table alone refers to; what lies in them may be sent.
unsafe impl Send for Table {}

impl Table {
    pub(super) const CHUNK: Layout = CHUNK;

    pub(super) const fn new() -> Self {
        Self { first: [None; INLINE as usize], directory: Array::new(), chunks: 0, free: NIL, spare: 0 }
    }

    pub(super) fn directory_layout(capacity: u32) -> Option<Layout> {
        Array::<NonNull<Record>>::layout(capacity)
    }

    /// What must be supplied before there are so many slots (64 at most); `Err` when there can be no more.
    pub(super) fn lacks(&self, slots: u32) -> Result<TableLack, Limit> {
        if self.spare >= slots {
            return Ok(TableLack::default());
        }
        if self.chunks >= MOST_CHUNKS {
            return Err(Limit::Records);
        }
        let directory = if self.chunks < INLINE { None } else { self.directory.lacks(INLINE, MOST_CHUNKS) };
        Ok(TableLack { directory, chunk: true })
    }

    /// Takes a longer directory; gives back the one it replaces, or the block itself where it is no longer.
    ///
    /// # Safety
    /// `block` is one of `directory_layout(capacity)` that nothing else refers to.
    pub(super) unsafe fn supply_directory(&mut self, capacity: u32, block: NonNull<u8>) -> Option<Spare> {
        // SAFETY: the caller's promise.
        unsafe { self.directory.supply(capacity, block) }
    }

    /// Takes a chunk, if there is room for it in the directory; else it comes back.
    ///
    /// # Safety
    /// `block` is one of [`Table::CHUNK`] that nothing else refers to.
    pub(super) unsafe fn supply_chunk(&mut self, block: NonNull<u8>) -> Option<Spare> {
        let chunk = block.cast::<Record>();
        match self.first.get_mut(self.chunks as usize) {
            Some(entry) => *entry = Some(chunk),
            None => {
                if self.directory.push(chunk).is_err() {
                    return Some((block, CHUNK));
                }
            }
        }
        let first = self.chunks * PER_CHUNK;
        for place in (0..PER_CHUNK).rev() {
            // SAFETY: within the chunk of `PER_CHUNK` records.
            let slot = unsafe { chunk.add(place as usize) };
            // SAFETY: the slot is writable, aligned, and nobody else's.
            unsafe { slot.write(Record::Free { next: self.free, generation: 1 }) };
            self.free = first + place;
        }
        self.chunks += 1;
        self.spare += PER_CHUNK;
        None
    }

    /// The last chunk, if nobody has ever had a slot of it: what a call that failed after all had supplied.
    pub(super) fn withdraw_chunk(&mut self) -> Option<Spare> {
        let last = self.chunks.checked_sub(1)?;
        let first = last * PER_CHUNK;
        let untouched = |number| matches!(self.get(number), Some(Record::Free { generation: 1, .. }));
        if !(first..first + PER_CHUNK).all(untouched) {
            return None;
        }
        let mut number = core::mem::replace(&mut self.free, NIL);
        let mut tail = NIL;
        while let Some(&Record::Free { next, .. }) = self.get(number) {
            if number < first {
                match self.get_mut(tail) {
                    Some(Record::Free { next, .. }) => *next = number,
                    _ => self.free = number,
                }
                tail = number;
            }
            number = next;
        }
        if let Some(Record::Free { next, .. }) = self.get_mut(tail) {
            *next = NIL;
        }
        self.spare -= PER_CHUNK;
        self.drop_last()
    }

    fn drop_last(&mut self) -> Option<Spare> {
        let last = self.chunks.checked_sub(1)?;
        let chunk = match self.first.get_mut(last as usize) {
            Some(entry) => entry.take(),
            None => self.directory.swap_remove((last - INLINE) as usize),
        }?;
        self.chunks = last;
        Some((chunk.cast(), CHUNK))
    }

    fn slot(&self, number: u32) -> Option<NonNull<Record>> {
        let chunk = number / PER_CHUNK;
        let start = match self.first.get(chunk as usize) {
            Some(entry) => (*entry)?,
            None => *self.directory.as_slice().get((chunk - INLINE) as usize)?,
        };
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
        self.spare -= 1;
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
            self.spare += 1;
        }
    }

    /// Each slot, in order of number.
    pub(super) fn each(&self) -> impl Iterator<Item = (u32, &Record)> {
        (0..self.chunks * PER_CHUNK).filter_map(|number| self.get(number).map(|record| (number, record)))
    }

    /// All memory, a block a call, until `None`. The table is empty from the first call on.
    pub(super) fn dismantle(&mut self) -> Option<Spare> {
        self.free = NIL;
        self.spare = 0;
        self.drop_last().or_else(|| self.directory.dismantle())
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

    fn block(layout: Layout) -> NonNull<u8> {
        // SAFETY: no layout of a table has size 0.
        NonNull::new(unsafe { alloc(layout) }).unwrap()
    }

    fn give(spare: Option<Spare>) -> bool {
        if let Some((block, layout)) = spare {
            // SAFETY: a block that was supplied with this layout.
            unsafe { dealloc(block.as_ptr(), layout) };
        }
        spare.is_some()
    }

    fn supplied(table: &mut Table) {
        let TableLack { directory, chunk } = table.lacks(1).unwrap();
        if let Some(capacity) = directory {
            // SAFETY: just taken with the layout.
            give(unsafe { table.supply_directory(capacity, block(Table::directory_layout(capacity).unwrap())) });
        }
        if chunk {
            // SAFETY: just taken with the layout.
            assert!(!give(unsafe { table.supply_chunk(block(CHUNK)) }));
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
        while give(table.dismantle()) {
            blocks += 1;
        }
        assert_eq!(blocks, 2000usize.div_ceil(64) + 1);
        assert!(table.take().is_none() && table.get(0).is_none());
    }

    #[test]
    fn an_untouched_chunk_is_withdrawn_and_the_others_stay() {
        let mut table = Table::new();
        supplied(&mut table);
        let numbers: Vec<u32> = (0..63).map(|_| table.take().unwrap()).collect();
        // SAFETY: just taken with the layout.
        assert!(!give(unsafe { table.supply_chunk(block(CHUNK)) }));
        table.put_back(numbers[5], true);
        assert!(give(table.withdraw_chunk()));
        assert_eq!((table.take(), table.take(), table.take()), (Some(numbers[5]), Some(63), None));
        assert!(!give(table.withdraw_chunk()), "this one is in use");
        assert_eq!(table.lacks(1), Ok(TableLack { directory: None, chunk: true }));
        while give(table.dismantle()) {}
    }
}
