//! The side table: a record for each cell, in chunks that are allocated when their first cell is claimed.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{
    AtomicPtr, AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use alloc_core::{AllocError, HostAllocator, Scope};

use super::record::CellRecord;

/// Cells of a chunk.
pub(super) const CHUNK: u32 = 512;

/// Records of [`CHUNK`] neighbours. All zero: fresh.
#[repr(C)]
#[derive(Debug)]
pub(super) struct SideChunk {
    /// The number of its cells: cell / [`CHUNK`]. A dead chunk serves other cells.
    number: AtomicU32,
    /// Cells that are not free.
    pub(super) busy: AtomicU32,
    pub(super) standing: AtomicU32,
    /// The next in the list of retired chunks, plus one.
    pub(super) next: AtomicU32,
    records: [CellRecord; CHUNK as usize],
}

impl SideChunk {
    pub(super) fn records(&self) -> &[CellRecord; CHUNK as usize] {
        &self.records
    }

    /// As if fresh, for the cells of `number`.
    pub(super) fn renew(&self, number: u32) {
        self.number.store(number, Release);
        for record in &self.records {
            record.forget();
        }
    }
}

/// Finds a cell's record.
#[derive(Debug)]
pub(super) struct SideTable {
    directory: NonNull<AtomicPtr<SideChunk>>,
    chunks: u32,
}

// SAFETY: made of atomics and of memory that stays until `close`.
unsafe impl Send for SideTable {}
// SAFETY: as above.
unsafe impl Sync for SideTable {}

/// The scope of metadata: it lives as long as its guard.
pub(super) const SCOPE: Scope = Scope::Instance;

impl SideTable {
    pub(super) fn new(memory: &dyn HostAllocator, cells: u32) -> Result<Self, AllocError> {
        let chunks = cells.div_ceil(CHUNK);
        let directory = memory
            .allocate_zeroed(Self::directory_layout(chunks)?, SCOPE)?
            .cast();
        Ok(Self { directory, chunks })
    }

    fn directory_layout(chunks: u32) -> Result<Layout, AllocError> {
        Layout::array::<AtomicPtr<SideChunk>>(chunks as usize).map_err(|_| AllocError)
    }

    #[inline]
    fn entry(&self, number: u32) -> Option<&AtomicPtr<SideChunk>> {
        if number >= self.chunks {
            return None;
        }
        // SAFETY: within the directory, which has `chunks` entries.
        let entry = unsafe { self.directory.add(number as usize) };
        // SAFETY: all zero when it was taken, and only used as atomics since.
        Some(unsafe { entry.as_ref() })
    }

    #[inline]
    pub(super) fn chunk(&self, number: u32) -> Option<&SideChunk> {
        let chunk = self.entry(number)?.load(Acquire);
        // SAFETY: null, or a chunk that stays until `close`.
        let chunk = unsafe { chunk.as_ref() }?;
        (chunk.number.load(Relaxed) == number).then_some(chunk)
    }

    /// The record of `cell`; `None` if it was never needed, or serves another cell now.
    #[inline]
    pub(super) fn get(&self, cell: u32) -> Option<&CellRecord> {
        self.chunk(cell / CHUNK)?
            .records
            .get((cell % CHUNK) as usize)
    }

    /// The number of chunks that there can be.
    pub(super) fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Allocates a chunk for `number`, unless another thread is faster. Called with no lock held.
    pub(super) fn add(&self, number: u32, memory: &dyn HostAllocator) -> Result<(), AllocError> {
        let entry = self.entry(number).ok_or(AllocError)?;
        let layout = Layout::new::<SideChunk>();
        let block = memory.allocate_zeroed(layout, SCOPE)?.cast::<SideChunk>();
        // SAFETY: all zero is a fresh chunk; no other thread knows it.
        unsafe { block.as_ref() }.number.store(number, Relaxed);
        if entry
            .compare_exchange(null_mut(), block.as_ptr(), AcqRel, Relaxed)
            .is_err()
        {
            // SAFETY: allocated above with this layout and scope; no other thread knows it.
            unsafe { memory.deallocate(block.cast(), layout, SCOPE) };
        }
        Ok(())
    }

    /// Lets the dead chunk of `old` serve the cells of `number`, which have none. Called with the shared free list locked.
    pub(super) fn pass_on(&self, old: u32, number: u32) {
        let (Some(from), Some(to)) = (self.entry(old), self.entry(number)) else {
            return;
        };
        let chunk = from.swap(null_mut(), AcqRel);
        // SAFETY: null, or a chunk that stays until `close`.
        let Some(renewed) = (unsafe { chunk.as_ref() }) else {
            return;
        };
        renewed.renew(number);
        if to
            .compare_exchange(null_mut(), chunk, AcqRel, Relaxed)
            .is_err()
        {
            // Another thread allocated a chunk for `number` meanwhile.
            renewed.renew(old);
            from.store(chunk, Release);
        }
    }

    /// # Safety
    /// `memory` is what it was made with, and it is no longer used.
    pub(super) unsafe fn close(self, memory: &dyn HostAllocator) {
        for number in 0..self.chunks {
            let chunk = self
                .entry(number)
                .and_then(|entry| NonNull::new(entry.load(Relaxed)));
            if let Some(chunk) = chunk {
                // SAFETY: allocated in `add` with this layout and scope; it is no longer used.
                unsafe { memory.deallocate(chunk.cast(), Layout::new::<SideChunk>(), SCOPE) };
            }
        }
        if let Ok(layout) = Self::directory_layout(self.chunks) {
            // SAFETY: allocated in `new` with this layout and scope.
            unsafe { memory.deallocate(self.directory.cast(), layout, SCOPE) };
        }
    }
}
