//! Numbered values that never move, in chunks of 64, 64, 128, 256, .. that live until the cache is trimmed or dropped.
//!
//! ```text
//!   number 0..64 -> chunk 0 | 64..128 -> chunk 1 | 128..256 -> chunk 2 | 256..512 -> chunk 3 | ..
//! ```
//! A number always leads to a value of the same type, so readers need no lock.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};

use alloc_core::{AllocError, HostAllocator, Scope};

use crate::sync::{AtomicPtr, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// The number of no value.
pub(super) const NONE: u32 = u32::MAX;
/// Values of the first chunk.
const FIRST: u32 = 64;
/// Chunks, with 2^31 values in all.
const CHUNKS: usize = 26;

/// A type that a segment can hold.
///
/// # Safety
/// All zeros must be a valid value; it is used only through shared references, and must need no destructor.
pub(super) unsafe trait Zeroed: Sync {}

pub(super) struct ZeroedSegments<T: Zeroed> {
    chunks: [AtomicPtr<T>; CHUNKS],
    count: AtomicU32,
    owns: PhantomData<T>,
}

/// A chunk outside of the list.
pub(super) struct ZeroedChunk<T: Zeroed> {
    block: NonNull<T>,
    number: usize,
}

// SAFETY: values are `Sync`, and are reached only by shared references.
unsafe impl<T: Zeroed> Send for ZeroedSegments<T> {}
// SAFETY: as above.
unsafe impl<T: Zeroed> Sync for ZeroedSegments<T> {}

impl<T: Zeroed> ZeroedSegments<T> {
    pub(super) const fn new() -> Self {
        Self {
            chunks: [const { AtomicPtr::new(null_mut()) }; CHUNKS],
            count: AtomicU32::new(0),
            owns: PhantomData,
        }
    }

    /// The value of this number, if its chunk exists.
    #[inline(always)]
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        let (chunk, place) = split(number);
        let chunk = self.chunks.get(chunk)?.load(Acquire);
        if chunk.is_null() {
            return None;
        }
        // SAFETY: the chunk has at least `place + 1` values by `split`, all zeros at first, and does not move.
        Some(unsafe { &*chunk.wrapping_add(place as usize) })
    }

    /// The number of values.
    pub(super) fn count(&self) -> u32 {
        self.count.load(Acquire)
    }

    /// Allocates the next chunk for [`add`](Self::add).
    pub(super) fn chunk(&self, memory: &dyn HostAllocator) -> Result<ZeroedChunk<T>, AllocError> {
        let number = self
            .chunks
            .iter()
            .position(|chunk| chunk.load(Relaxed).is_null())
            .ok_or(AllocError)?;
        let block = memory.allocate_zeroed(layout::<T>(number).ok_or(AllocError)?, Scope::Cache)?;
        Ok(ZeroedChunk {
            block: block.cast(),
            number,
        })
    }

    /// Adds a chunk and returns the numbers of its values; `Err` with the chunk if another thread was faster. Requires the lock.
    pub(super) fn add(
        &self,
        chunk: ZeroedChunk<T>,
    ) -> Result<core::ops::Range<u32>, ZeroedChunk<T>> {
        let Some(place) = self
            .chunks
            .get(chunk.number)
            .filter(|place| place.load(Relaxed).is_null())
        else {
            return Err(chunk);
        };
        place.store(chunk.block.as_ptr(), Release);
        let first = first_of(chunk.number);
        let end = first.saturating_add(length(chunk.number));
        self.count.store(end, Release);
        Ok(first..end)
    }

    /// Removes the newest chunk. `&mut` excludes readers.
    pub(super) fn pop_chunk(&mut self) -> Option<ZeroedChunk<T>> {
        let number = self
            .chunks
            .iter()
            .rposition(|chunk| !chunk.load(Relaxed).is_null())?;
        let block = NonNull::new(self.chunks.get(number)?.swap(null_mut(), Relaxed))?;
        *self.count.get_mut() = first_of(number);
        Some(ZeroedChunk { block, number })
    }

    /// Numbers of the newest chunk's values, which [`pop_chunk`](Self::pop_chunk) would remove.
    pub(super) fn last_chunk(&mut self) -> Option<core::ops::Range<u32>> {
        let number = self
            .chunks
            .iter()
            .rposition(|chunk| !chunk.load(Relaxed).is_null())?;
        let first = first_of(number);
        Some(first..first.saturating_add(length(number)))
    }
}

impl<T: Zeroed> ZeroedChunk<T> {
    pub(super) fn bytes(&self) -> u64 {
        layout::<T>(self.number).map_or(0, |layout| layout.size() as u64)
    }

    pub(super) fn free(self, memory: &dyn HostAllocator) {
        if let Some(layout) = layout::<T>(self.number) {
            // SAFETY: allocated by the same allocator with this layout and scope; values have no destructor.
            unsafe { memory.deallocate(self.block.cast(), layout, Scope::Cache) };
        }
    }
}

/// The chunk of a number, and the index in it.
#[inline(always)]
const fn split(number: u32) -> (usize, u32) {
    // 0..64 are in chunk 0; above, the highest bit selects the chunk.
    let high = (number | (FIRST - 1)).ilog2();
    let chunk = (high + 1 - FIRST.ilog2()) as usize;
    (
        chunk,
        if chunk == 0 {
            number
        } else {
            number - (1 << high)
        },
    )
}

/// The number of a chunk's first value.
const fn first_of(chunk: usize) -> u32 {
    if chunk == 0 { 0 } else { FIRST << (chunk - 1) }
}

const fn length(chunk: usize) -> u32 {
    if chunk <= 1 {
        FIRST
    } else {
        FIRST << (chunk - 1)
    }
}

fn layout<T>(chunk: usize) -> Option<Layout> {
    Layout::array::<T>(length(chunk) as usize).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fill_the_chunks_in_order_without_gaps() {
        let mut next = (0, 0);
        for number in 0..100_000 {
            assert_eq!(split(number), next, "{number}");
            next.1 += 1;
            if next.1 == length(next.0) {
                next = (next.0 + 1, 0);
            }
        }
        assert_eq!(split(u32::MAX).0, CHUNKS);
    }
}
