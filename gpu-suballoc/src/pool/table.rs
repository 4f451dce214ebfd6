//! A table in memory that is supplied: it never takes any itself, so that it may grow under a lock.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::slice;

use crate::range::Memory;

/// How many entries the first piece of memory has room for.
const FIRST: usize = 4;

/// Entries in a row. What it needs to grow is asked for ([`lacks`](Table::lacks)), made outside of the lock, and
/// [supplied](Table::supply).
pub(super) struct Table<T> {
    first: NonNull<T>,
    length: usize,
    capacity: usize,
    entries: PhantomData<T>,
}

// SAFETY: the table owns its entries; nothing else points to its memory.
unsafe impl<T: Send> Send for Table<T> {}

impl<T> Table<T> {
    pub(super) const fn new() -> Self {
        Self { first: NonNull::dangling(), length: 0, capacity: 0, entries: PhantomData }
    }

    /// What memory would do, where there is no room for `more` entries; `None` where there is.
    pub(super) fn lacks(&self, more: usize) -> Option<Layout> {
        let wanted = self.length.checked_add(more)?;
        if wanted <= self.capacity {
            return None;
        }
        Layout::array::<T>(wanted.max(self.capacity.saturating_mul(2)).max(FIRST)).ok()
    }

    /// Moves into `block`; gives back what is no longer needed: the old memory, or `block` where it is no better.
    ///
    /// # Safety
    /// `block` is a live block of `layout`, which [`lacks`](Table::lacks) named, and the table's from now on.
    pub(super) unsafe fn supply(&mut self, layout: Layout, block: NonNull<u8>) -> Option<Memory> {
        let capacity = layout.size().checked_div(size_of::<T>()).unwrap_or(0);
        if capacity <= self.capacity {
            return Some(Memory { block, layout });
        }
        let new = block.cast::<T>();
        // SAFETY: both hold at least `length` entries, `lacks` saw to the alignment, and two live blocks are disjoint.
        unsafe { new.copy_from_nonoverlapping(self.first, self.length) };
        let old = self.memory();
        self.first = new;
        self.capacity = capacity;
        old
    }

    fn memory(&self) -> Option<Memory> {
        let layout = Layout::array::<T>(self.capacity).ok().filter(|layout| layout.size() > 0)?;
        Some(Memory { block: self.first.cast(), layout })
    }

    /// Gives the table's memory back; the entries are forgotten.
    pub(super) fn dismantle(&mut self) -> Option<Memory> {
        let memory = self.memory();
        *self = Self::new();
        memory
    }

    /// Puts an entry behind the last.
    ///
    /// # Errors
    /// The entry, where there is no room.
    pub(super) fn push(&mut self, entry: T) -> Result<(), T> {
        if self.length == self.capacity {
            return Err(entry);
        }
        // SAFETY: `length < capacity`, so the place is within the memory.
        let place = unsafe { self.first.add(self.length) };
        // SAFETY: the place is the table's, aligned, and holds no entry.
        unsafe { place.write(entry) };
        self.length += 1;
        Ok(())
    }

    /// Takes the last entry out.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.length = self.length.checked_sub(1)?;
        // SAFETY: the place is within the memory.
        let place = unsafe { self.first.add(self.length) };
        // SAFETY: it holds an entry, which is the table's no longer.
        Some(unsafe { place.read() })
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[T] {
        // SAFETY: the first `length` places hold entries; dangling only where there are none.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.length) }
    }

    #[inline]
    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as for `as_slice`, and `&mut self` is the one way in.
        unsafe { slice::from_raw_parts_mut(self.first.as_ptr(), self.length) }
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&T> {
        self.as_slice().get(index as usize)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.as_mut_slice().get_mut(index as usize)
    }

    /// How many entries there are; what does not fit a number of 32 bits is never put in.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.length as u32
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{alloc, dealloc};
    use std::vec::Vec;

    use super::*;

    fn supply(table: &mut Table<u64>, layout: Layout) -> Option<Memory> {
        // SAFETY: the layout has a size.
        let block = NonNull::new(unsafe { alloc(layout) }).unwrap();
        // SAFETY: fresh, of the layout that was named.
        unsafe { table.supply(layout, block) }
    }

    fn free(memory: Memory) {
        // SAFETY: it came from `supply` above.
        unsafe { dealloc(memory.block.as_ptr(), memory.layout) };
    }

    #[test]
    fn it_grows_by_what_is_supplied_and_gives_all_of_it_back() {
        let mut table = Table::<u64>::new();
        assert_eq!(table.push(1), Err(1), "nothing was supplied yet");
        for entry in 0..100u64 {
            if let Some(layout) = table.lacks(1) {
                assert!(supply(&mut table, layout).is_none_or(|old| {
                    free(old);
                    true
                }));
            }
            table.push(entry).unwrap();
        }
        assert!(table.as_slice().iter().copied().eq(0..100));
        assert_eq!(table.pop(), Some(99));
        *table.get_mut(7).unwrap() = 70;
        assert_eq!((table.get(7), table.get(99), table.len()), (Some(&70), None, 99));

        // Another thread was faster: its memory is as good, ours goes back.
        let small = Layout::array::<u64>(4).unwrap();
        let unused = supply(&mut table, small).unwrap();
        assert_eq!(unused.layout, small);
        free(unused);
        free(table.dismantle().unwrap());
        assert_eq!(table.as_slice().iter().collect::<Vec<_>>().len(), 0);
        assert!(table.dismantle().is_none());
    }
}
