//! A table that grows and never moves: segments of 16, 32, 64 .. items in memory that the caller supplies.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use crate::host_block::HostBlock;
use crate::sync::{AtomicPtr, Ordering};

/// Log2 of the items in the first segment.
const FIRST: u32 = 4;
/// Segments, for 16 * (2^16 - 1) items.
const SEGMENTS: usize = 16;

/// Items that never move, found by number. One thread at a time may add; any may read what is there.
///
/// ```text
///   number + 16 =   1 x x x x     segment 0, item xxxx
///                 1 x x x x x     segment 1, item xxxxx    and so on: the highest bit chooses the segment
/// ```
pub(crate) struct Segments<T> {
    segments: [AtomicPtr<T>; SEGMENTS],
    owned: PhantomData<T>,
}

impl<T> Segments<T> {
    /// The limit of items.
    pub(crate) const MAX_LEN: u32 = (1 << (FIRST + SEGMENTS as u32)) - (1 << FIRST);

    /// Without an item.
    pub(crate) const fn new() -> Self {
        const { assert!(!core::mem::needs_drop::<T>(), "nobody drops the items") };
        Self {
            segments: [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS],
            owned: PhantomData,
        }
    }

    /// The segment of an item and its index there; for a number beyond [`MAX_LEN`](Self::MAX_LEN) a segment that does not exist.
    #[inline]
    const fn place(number: u32) -> (usize, usize) {
        // Near 2^32 this wraps to less than 16, whose highest bit is below that of the first segment.
        let shifted = number.wrapping_add(1 << FIRST);
        let top = (u32::BITS - 1).wrapping_sub(shifted.leading_zeros());
        (
            top.wrapping_sub(FIRST) as usize,
            (shifted ^ 1u32.wrapping_shl(top)) as usize,
        )
    }

    #[inline]
    fn find(&self, number: u32) -> Option<NonNull<T>> {
        let (segment, item) = Self::place(number);
        // Acquire: the segment's content was written before its address.
        let first = NonNull::new(self.segments.get(segment)?.load(Ordering::Acquire))?;
        // SAFETY: `item` is below the segment's length, by the arithmetic of `place`, and the segment was added with that length.
        Some(unsafe { first.add(item) })
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let item = self.find(number)?;
        // SAFETY: items of a segment are initialised before its address is stored, and stay until the table is dropped. A `&mut` to one
        // needs `&mut self`.
        Some(unsafe { item.as_ref() })
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let mut item = self.find(number)?;
        // SAFETY: as in `get`; `&mut self` excludes other references.
        Some(unsafe { item.as_mut() })
    }

    fn layout(segment: usize) -> Option<Layout> {
        (segment < SEGMENTS).then(|| Layout::array::<T>(1 << (FIRST as usize + segment)).ok())?
    }

    /// The memory to supply before item `number` exists; `None` if it exists, or never can.
    pub(crate) fn missing_capacity(&self, number: u32) -> Option<Layout> {
        let (segment, _) = Self::place(number);
        if self
            .segments
            .get(segment)?
            .load(Ordering::Relaxed)
            .is_null()
        {
            Self::layout(segment)
        } else {
            None
        }
    }

    /// Adds the next segment, filled with `make()`; one thread at a time. Returns `memory` if the next segment has another size.
    pub(crate) fn grow_with(
        &self,
        memory: HostBlock,
        make: impl FnMut() -> T,
    ) -> Option<HostBlock> {
        let next = self
            .segments
            .iter()
            .position(|segment| segment.load(Ordering::Relaxed).is_null());
        let next = next.filter(|next| Self::layout(*next) == Some(memory.layout()));
        let Some(segment) = next.and_then(|next| self.segments.get(next)) else {
            return Some(memory);
        };
        segment.store(memory.fill(make).as_ptr(), Ordering::Release);
        None
    }

    /// Removes the last segment's memory.
    pub(crate) fn detach_memory(&mut self) -> Option<HostBlock> {
        let last = self
            .segments
            .iter()
            .rposition(|segment| !segment.load(Ordering::Relaxed).is_null())?;
        let first = NonNull::new(
            self.segments
                .get(last)?
                .swap(ptr::null_mut(), Ordering::Relaxed),
        )?;
        let layout = Self::layout(last)?;
        // SAFETY: `grow_with` took it with this layout; its address was removed from the table, and `&mut self` excludes readers.
        Some(unsafe { HostBlock::new(first.cast(), layout) })
    }
}

// SAFETY: the pointers lead to items that this table owns.
unsafe impl<T: Send> Send for Segments<T> {}
// SAFETY: only references to items are shared; two threads that add at once, which callers exclude, would lose a segment, no more.
unsafe impl<T: Send + Sync> Sync for Segments<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn items_lie_side_by_side_and_stay() {
        let mut table = Segments::<u64>::new();
        assert!(table.get(0).is_none());
        assert!(table.get(u32::MAX).is_none());
        let mut blocks = Vec::new();
        for number in 0..200u32 {
            if let Some(layout) = table.missing_capacity(number) {
                // SAFETY: the layout is not empty.
                let block = NonNull::new(unsafe { std::alloc::alloc(layout) }).unwrap();
                // SAFETY: a new block of that layout.
                let memory = unsafe { HostBlock::new(block, layout) };
                assert!(table.grow_with(memory, || 7).is_none());
                blocks.push(block);
            }
            assert_eq!(table.get(number), Some(&7));
            *table.get_mut(number).unwrap() = u64::from(number);
        }
        assert_eq!(blocks.len(), 4, "16, 32, 64, 128");
        assert!((0..200u32).all(|number| table.get(number) == Some(&u64::from(number))));
        while let Some(memory) = table.detach_memory() {
            let layout = memory.layout();
            let block = memory.into_start();
            assert_eq!(blocks.pop(), Some(block));
            // SAFETY: from `alloc` above with that layout.
            unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
        }
        assert!(blocks.is_empty());
    }

    #[test]
    fn every_number_has_one_place_and_those_beyond_have_none() {
        let mut expected = (0, 0);
        for number in 0..100_000 {
            assert_eq!(Segments::<u8>::place(number), expected, "{number}");
            expected = if expected.1 + 1 == 16 << expected.0 {
                (expected.0 + 1, 0)
            } else {
                (expected.0, expected.1 + 1)
            };
        }
        let most = Segments::<u8>::MAX_LEN;
        assert_eq!(Segments::<u8>::place(most - 1).0, SEGMENTS - 1);
        for beyond in [
            most,
            1 << 30,
            u32::MAX - 16,
            u32::MAX - 15,
            u32::MAX - 1,
            u32::MAX,
        ] {
            assert!(Segments::<u8>::place(beyond).0 >= SEGMENTS, "{beyond}");
        }
    }

    #[test]
    fn a_block_of_another_size_comes_back() {
        let table = Segments::<u64>::new();
        let layout = Layout::new::<u64>();
        let mut there = 0u64;
        // SAFETY: a block of that layout, which comes back.
        let memory = unsafe { HostBlock::new(NonNull::from(&mut there).cast(), layout) };
        assert_eq!(
            table.grow_with(memory, || 0).map(|memory| memory.layout()),
            Some(layout)
        );
    }
}
