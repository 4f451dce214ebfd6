//! The front of each bin: the number of its first hole, four bytes a bin, in memory that is donated.

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use super::node::NIL;
use super::store::Memory;

/// The first hole of each bin; [`NIL`]: the bin is empty.
#[derive(Debug)]
pub(super) struct Heads {
    first: NonNull<Cell<u32>>,
    /// 0 while there is no memory.
    count: u32,
    bins: u32,
}

// SAFETY: the pointer is to memory that the heads own alone since it was donated.
unsafe impl Send for Heads {}

impl Heads {
    /// For bins below `bins`, without memory.
    pub(super) const fn new(bins: u32) -> Self {
        Self { first: NonNull::dangling(), count: 0, bins }
    }

    /// The front of a bin. `None` without memory.
    #[inline]
    pub(super) fn at(&self, bin: u32) -> Option<&Cell<u32>> {
        // SAFETY: all `count` heads are initialised, in memory that is their own; without it the count is 0.
        let heads = unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.count as usize) };
        heads.get(bin as usize)
    }

    /// What to allocate, where there is no memory yet.
    #[inline]
    pub(super) fn lacks(&self) -> Option<Layout> {
        if self.count != 0 { None } else { self.layout() }
    }

    fn layout(&self) -> Option<Layout> {
        Layout::array::<Cell<u32>>(self.bins as usize).ok()
    }

    /// Takes the memory over, with all bins empty; `block` comes back where there is memory already.
    ///
    /// # Safety
    /// `block` was allocated with the layout that [`lacks`](Self::lacks) named, and nobody else uses it until it is given back.
    pub(super) unsafe fn supply(&mut self, block: NonNull<u8>) -> Option<Memory> {
        let layout = self.layout()?;
        if self.count != 0 {
            return Some(Memory { block, layout });
        }
        let heads = block.cast::<Cell<u32>>();
        for bin in 0..self.bins {
            // SAFETY: the layout has room for `bins` heads.
            let place = unsafe { heads.add(bin as usize) };
            // SAFETY: within the donated block, which is aligned for a head.
            unsafe { place.write(Cell::new(NIL)) };
        }
        self.first = heads;
        self.count = self.bins;
        None
    }

    /// Gives the memory back.
    pub(super) fn withdraw(&mut self) -> Option<Memory> {
        if self.count == 0 {
            return None;
        }
        let memory = Memory { block: self.first.cast(), layout: self.layout()? };
        *self = Self::new(self.bins);
        Some(memory)
    }

    /// All bins are empty.
    pub(super) fn clear(&self) {
        for bin in 0..self.count {
            if let Some(head) = self.at(bin) {
                head.set(NIL);
            }
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.count) * size_of::<Cell<u32>>() as u64
    }
}
