//! Memory that grows and never moves: segments, each twice as long as the last, freed only at the end.
//!
//! ```text
//!   offset   0          64 KiB               192 KiB                                448 KiB
//!            | segment 0| segment 1          | segment 2                            | segment 3, not there yet
//! ```
//! An offset means the same bytes as long as the segments live: readers, also in a signal handler, need no lock.

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicPtr, AtomicUsize};

use alloc_core::{AllocError, HostAllocator, Scope};

pub(crate) const FIRST: usize = 64 * 1024;
/// Room for a record of 64 bytes for each 32-bit number.
const MAX_SEGMENTS: usize = 23;
const ALIGN: usize = 64;

#[derive(Debug)]
pub(crate) struct Segments {
    segments: [AtomicPtr<u8>; MAX_SEGMENTS],
    capacity: AtomicUsize,
}

const fn start_of(k: usize) -> usize {
    FIRST.wrapping_mul((1 << k) - 1)
}

/// Moved up by [`FIRST`], the offsets of a segment share their highest bit.
#[inline(always)]
const fn locate(offset: usize) -> (usize, usize) {
    let moved = offset.saturating_add(FIRST);
    let bit = moved.ilog2();
    ((bit - FIRST.ilog2()) as usize, moved ^ 1 << bit)
}

fn layout_of(k: usize) -> Result<Layout, AllocError> {
    let bytes = FIRST.checked_mul(1 << k).ok_or(AllocError)?;
    Layout::from_size_align(bytes, ALIGN).map_err(|_| AllocError)
}

impl Segments {
    pub(crate) const fn new() -> Self {
        Self { segments: [const { AtomicPtr::new(null_mut()) }; MAX_SEGMENTS], capacity: AtomicUsize::new(0) }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Acquire)
    }

    /// The segment need not be there.
    pub(crate) const fn end_at(offset: usize) -> usize {
        start_of(locate(offset).0 + 1)
    }

    /// Does nothing if another thread has grown the segments beyond what the caller has `seen`.
    #[cold]
    pub(crate) fn grow(&self, seen: usize, memory: &dyn HostAllocator) -> Result<(), AllocError> {
        if self.capacity() > seen {
            return Ok(());
        }
        let (k, _) = locate(seen);
        let place = self.segments.get(k).ok_or(AllocError)?;
        let layout = layout_of(k)?;
        let segment = memory.allocate_zeroed(layout, Scope::Instance)?;
        if place.compare_exchange(null_mut(), segment.as_ptr(), AcqRel, Relaxed).is_err() {
            // SAFETY: allocated just above; no other thread knows it.
            unsafe { memory.deallocate(segment, layout, Scope::Instance) };
        }
        self.capacity.fetch_max(start_of(k + 1), AcqRel);
        Ok(())
    }

    /// `None` where the `bytes` bytes are not all in one segment that is there.
    #[inline(always)]
    pub(crate) fn at(&self, offset: usize, bytes: usize) -> Option<NonNull<u8>> {
        let (k, place) = locate(offset);
        let at = self.byte(k, place)?;
        (bytes <= (FIRST << k) - place).then_some(at)
    }

    #[inline(always)]
    fn byte(&self, k: usize, place: usize) -> Option<NonNull<u8>> {
        let segment = NonNull::new(self.segments.get(k)?.load(Acquire))?;
        // SAFETY: `locate` returned a place below the segment's length.
        Some(unsafe { segment.add(place) })
    }

    /// # Safety
    /// `memory` is what they grew with; nothing in them is referred to any more.
    pub(crate) unsafe fn close(&mut self, memory: &dyn HostAllocator) {
        for (k, place) in self.segments.iter_mut().enumerate() {
            let segment = core::mem::replace(place.get_mut(), null_mut());
            if let (Some(segment), Ok(layout)) = (NonNull::new(segment), layout_of(k)) {
                // SAFETY: `grow` allocated it with this layout and scope; this function's contract.
                unsafe { memory.deallocate(segment, layout, Scope::Instance) };
            }
        }
        *self.capacity.get_mut() = 0;
    }
}

/// # Safety
/// All zeros is a record; it is changed through shared references alone; its alignment is up to a segment's, its size a
/// power of two from there up to [`FIRST`].
pub(crate) unsafe trait Record: Sync {}

#[derive(Debug)]
pub(crate) struct BlockRecordTable<T> {
    segments: Segments,
    records: PhantomData<T>,
}

impl<T: Record> BlockRecordTable<T> {
    pub(crate) const fn new() -> Self {
        Self { segments: Segments::new(), records: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let (k, place) = locate((number as usize).checked_mul(size_of::<T>())?);
        let record = self.segments.byte(k, place)?.cast();
        // SAFETY: its size divides every segment's, whose zeros were a record (`Record`).
        Some(unsafe { record.as_ref() })
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.segments.capacity() / size_of::<T>()).unwrap_or(u32::MAX)
    }

    /// As [`Segments::grow`].
    pub(crate) fn grow(&self, seen: u32, memory: &dyn HostAllocator) -> Result<(), AllocError> {
        if seen == u32::MAX {
            // Further records would have no numbers.
            return Err(AllocError);
        }
        self.segments.grow(seen as usize * size_of::<T>(), memory)
    }

    /// # Safety
    /// As [`Segments::close`].
    pub(crate) unsafe fn close(&mut self, memory: &dyn HostAllocator) {
        // SAFETY: this function's contract.
        unsafe { self.segments.close(memory) };
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU64;

    use alloc_core::FromGlobalAlloc;

    use super::*;
    use crate::{FailingAllocator, Fault};

    // SAFETY: zeros are one, and its size is 8.
    unsafe impl Record for AtomicU64 {}

    #[test]
    fn segments_follow_each_other() {
        assert_eq!((start_of(0), start_of(1), start_of(2), start_of(3)), (0, FIRST, 3 * FIRST, 7 * FIRST));
        for k in 0..MAX_SEGMENTS {
            assert_eq!(locate(start_of(k)), (k, 0));
            assert_eq!(locate(start_of(k + 1) - 1), (k, (FIRST << k) - 1));
            assert_eq!(Segments::end_at(start_of(k)), start_of(k + 1));
        }
    }

    #[test]
    fn bytes_are_there_within_one_segment_and_nowhere_else() {
        let memory = FailingAllocator::new(FromGlobalAlloc::SYSTEM, Fault::Never);
        let mut segments = Segments::new();
        assert_eq!(segments.at(0, 1), None);
        for k in 0..3 {
            segments.grow(start_of(k), &memory).expect("memory");
            assert_eq!(segments.capacity(), start_of(k + 1));
        }
        assert_eq!(memory.live_bytes(), segments.capacity() as u64);
        for k in 0..3 {
            let (start, end) = (start_of(k), start_of(k + 1));
            let first = segments.at(start, end - start).expect("the whole segment");
            let last = segments.at(end - 16, 16).expect("its end");
            assert_eq!(last.addr().get() - first.addr().get(), end - start - 16);
            assert_eq!(segments.at(end - 16, 17), None, "beyond its end");
        }
        for offset in [start_of(3), 1 << 31, usize::MAX - 63, usize::MAX] {
            assert_eq!(segments.at(offset, 1), None, "{offset:#x}");
        }
        memory.arm(Fault::From(0));
        assert!(segments.grow(start_of(3), &memory).is_err());
        assert_eq!(segments.capacity(), start_of(3), "as before");
        memory.disarm();
        segments.grow(start_of(2), &memory).expect("nothing to do");
        assert_eq!(segments.capacity(), start_of(3), "another thread was faster");
        // SAFETY: nothing refers to them.
        unsafe { segments.close(&memory) };
        assert_eq!((memory.live_bytes(), segments.at(0, 1)), (0, None));
    }

    #[test]
    fn a_record_is_found_by_its_number_and_the_last_number_is_none() {
        let memory = FromGlobalAlloc::SYSTEM;
        let mut table = BlockRecordTable::<AtomicU64>::new();
        assert_eq!((table.count(), table.get(0).is_none()), (0, true));
        table.grow(0, &memory).expect("memory");
        table.grow(table.count(), &memory).expect("memory");
        let numbers = (0..table.count()).step_by(if cfg!(miri) { 97 } else { 1 });
        for number in numbers.clone() {
            let former = table.get(number).expect("there").swap(number.into(), Relaxed);
            assert_eq!(former, 0, "record {number} is new");
        }
        for number in numbers {
            assert_eq!(table.get(number).expect("there").load(Relaxed), u64::from(number));
        }
        for number in [table.count(), u32::MAX / 2, u32::MAX] {
            assert!(table.get(number).is_none(), "{number}");
        }
        // SAFETY: nothing refers to them.
        unsafe { table.close(&memory) };
    }
}
