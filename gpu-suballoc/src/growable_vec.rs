//! A vector in one block that the caller allocates, for use under a lock (see `host_memory.rs`).

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::slice;

use crate::host_memory::HostBlock;

/// Entries in a row. Grows by [`missing_capacity`](GrowableVec::missing_capacity), allocated by the caller, and
/// [`grow_with`](GrowableVec::grow_with): at first to `FIRST` entries, then to twice as many. Drops no entry.
#[derive(Debug)]
pub(crate) struct GrowableVec<T, const FIRST: u32 = 4> {
    first: NonNull<T>,
    length: u32,
    capacity: u32,
    entries: PhantomData<T>,
}

// SAFETY: the table owns its entries; nothing else points to its memory.
unsafe impl<T: Send, const FIRST: u32> Send for GrowableVec<T, FIRST> {}

impl<T, const FIRST: u32> GrowableVec<T, FIRST> {
    pub(crate) const fn new() -> Self {
        Self {
            first: NonNull::dangling(),
            length: 0,
            capacity: 0,
            entries: PhantomData,
        }
    }

    /// The layout of `capacity` entries; `None` if it overflows.
    pub(crate) fn layout(capacity: u32) -> Option<Layout> {
        Layout::array::<T>(capacity as usize).ok()
    }

    /// What to allocate for `more` entries; `None` if there is capacity.
    pub(crate) fn missing_capacity(&self, more: u32) -> Option<Layout> {
        let wanted = self.length.checked_add(more)?;
        if wanted <= self.capacity {
            return None;
        }
        Self::layout(wanted.max(self.capacity.saturating_mul(2)).max(FIRST))
    }

    /// Moves into `block`. Returns the old memory, or `block` if it is not larger or has no
    /// [`layout`](GrowableVec::layout) of the vector.
    pub(crate) fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        let layout = block.layout();
        let capacity = layout.size().checked_div(size_of::<T>()).unwrap_or(0);
        let capacity = u32::try_from(capacity).unwrap_or(0);
        if capacity <= self.capacity || Self::layout(capacity) != Some(layout) {
            return Some(block);
        }
        let new = block.into_start().cast::<T>();
        // SAFETY: both hold at least `length` entries and are aligned for them, and two live blocks are disjoint.
        unsafe { new.copy_from_nonoverlapping(self.first, self.length as usize) };
        let old = self.memory();
        self.first = new;
        self.capacity = capacity;
        old
    }

    fn memory(&self) -> Option<HostBlock> {
        let layout = Self::layout(self.capacity).filter(|layout| layout.size() > 0)?;
        // SAFETY: `grow_with` received it with this layout. Both callers forget it in the same call.
        Some(unsafe { HostBlock::new(self.first.cast(), layout) })
    }

    /// Detaches the memory and forgets the entries.
    pub(crate) fn detach_memory(&mut self) -> Option<HostBlock> {
        let memory = self.memory();
        *self = Self::new();
        memory
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// The entry, without capacity.
    pub(crate) fn push(&mut self, entry: T) -> Result<(), T> {
        if self.length == self.capacity {
            return Err(entry);
        }
        // SAFETY: `length < capacity`, so the place is within the memory.
        let place = unsafe { self.first.add(self.length as usize) };
        // SAFETY: the place is the table's, aligned, and holds no entry.
        unsafe { place.write(entry) };
        self.length += 1;
        Ok(())
    }

    /// Removes the last entry.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.length = self.length.checked_sub(1)?;
        // SAFETY: the place is within the memory.
        let place = unsafe { self.first.add(self.length as usize) };
        // SAFETY: it holds an entry, which is the table's no longer.
        Some(unsafe { place.read() })
    }

    /// Keeps the first `length` entries.
    pub(crate) fn truncate(&mut self, length: u32) {
        self.length = self.length.min(length);
    }

    /// Removes an entry; the last one takes its place.
    pub(crate) fn swap_remove(&mut self, index: usize) -> Option<T> {
        let last = self.as_slice().len().checked_sub(1)?;
        if index > last {
            return None;
        }
        self.as_mut_slice().swap(index, last);
        self.pop()
    }

    #[inline]
    pub(crate) const fn as_slice(&self) -> &[T] {
        // SAFETY: the first `length` places hold entries; dangling only where there are none.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.length as usize) }
    }

    #[inline]
    pub(crate) const fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as for `as_slice`, and `&mut self` is exclusive.
        unsafe { slice::from_raw_parts_mut(self.first.as_ptr(), self.length as usize) }
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.as_slice().get(index as usize)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.as_mut_slice().get_mut(index as usize)
    }

    /// The number of entries.
    #[inline]
    pub(crate) const fn len(&self) -> u32 {
        self.length
    }

    /// The capacity in entries.
    #[inline]
    pub(crate) const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Bytes of memory.
    pub(crate) const fn memory_bytes(&self) -> u64 {
        self.capacity as u64 * size_of::<T>() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::{alloc, dealloc};
    use std::vec::Vec;

    use super::*;

    fn supply(table: &mut GrowableVec<u64>, layout: Layout) -> Option<HostBlock> {
        // SAFETY: the layout has a size.
        let block = NonNull::new(unsafe { alloc(layout) }).unwrap();
        // SAFETY: fresh, of that layout.
        table.grow_with(unsafe { HostBlock::new(block, layout) })
    }

    fn free(memory: HostBlock) {
        let layout = memory.layout();
        // SAFETY: it came from `supply` above.
        unsafe { dealloc(memory.into_start().as_ptr(), layout) };
    }

    #[test]
    fn it_grows_by_what_is_supplied_and_gives_all_of_it_back() {
        let mut table = GrowableVec::<u64>::new();
        assert_eq!(table.push(1), Err(1), "nothing was supplied yet");
        for entry in 0..100u64 {
            if let Some(layout) = table.missing_capacity(1) {
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
        assert_eq!(
            (table.get(7), table.get(99), table.len()),
            (Some(&70), None, 99)
        );

        // Another thread was faster: its memory is as good, ours goes back.
        let small = Layout::array::<u64>(4).unwrap();
        let unused = supply(&mut table, small).unwrap();
        assert_eq!(unused.layout(), small);
        free(unused);
        let odd = Layout::from_size_align(4096, 1).unwrap();
        let unused = supply(&mut table, odd).expect("not aligned for the entries");
        free(unused);
        free(table.detach_memory().unwrap());
        assert_eq!(table.as_slice().iter().collect::<Vec<_>>().len(), 0);
        assert!(table.detach_memory().is_none());
    }
}
