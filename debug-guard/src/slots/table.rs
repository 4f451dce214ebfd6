//! The side table: a record for each cell, in chunks that are allocated when their first cell is claimed.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

use alloc_core::{AllocError, HostAllocator};

use super::SCOPE;
use super::record::CellRecord;

/// Cells of a chunk.
pub(super) const CHUNK: u32 = 512;

/// Records of [`CHUNK`] neighbours. All zero: fresh.
type SideChunk = [CellRecord; CHUNK as usize];

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

    fn entry(&self, number: u32) -> Option<&AtomicPtr<SideChunk>> {
        if number >= self.chunks {
            return None;
        }
        // SAFETY: within the directory, which has `chunks` entries.
        let entry = unsafe { self.directory.add(number as usize) };
        // SAFETY: all zero when it was allocated, and only used as atomics since.
        Some(unsafe { entry.as_ref() })
    }

    pub(super) fn chunk(&self, number: u32) -> Option<&SideChunk> {
        let chunk = self.entry(number)?.load(Acquire);
        // SAFETY: null, or a chunk that stays until `close`.
        unsafe { chunk.as_ref() }
    }

    /// The record of `cell`; `None` if it was never needed.
    pub(super) fn get(&self, cell: u32) -> Option<&CellRecord> {
        self.chunk(cell / CHUNK)?.get((cell % CHUNK) as usize)
    }

    /// The records of all cells that were ever claimed, with their cells.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &CellRecord)> {
        let chunks = (0..self.chunks).filter_map(|number| Some((number, self.chunk(number)?)));
        chunks.flat_map(|(number, chunk)| (number * CHUNK..).zip(chunk))
    }

    /// Allocates a chunk for `number`, unless another thread is faster. Called with no lock held.
    pub(super) fn add(&self, number: u32, memory: &dyn HostAllocator) -> Result<(), AllocError> {
        let entry = self.entry(number).ok_or(AllocError)?;
        let layout = Layout::new::<SideChunk>();
        let chunk = memory.allocate_zeroed(layout, SCOPE)?;
        let mine = chunk.cast().as_ptr();
        let stands = entry.compare_exchange(null_mut(), mine, AcqRel, Relaxed);
        if stands.is_err() {
            // SAFETY: allocated above with this layout and scope; no other thread knows it.
            unsafe { memory.deallocate(chunk, layout, SCOPE) };
        }
        Ok(())
    }

    /// # Safety
    /// `memory` is what it was made with, and it is no longer used.
    pub(super) unsafe fn close(self, memory: &dyn HostAllocator) {
        let entries = (0..self.chunks).filter_map(|number| self.entry(number));
        for chunk in entries.filter_map(|entry| NonNull::new(entry.load(Relaxed))) {
            // SAFETY: allocated in `add` with this layout and scope; it is no longer used.
            unsafe { memory.deallocate(chunk.cast(), Layout::new::<SideChunk>(), SCOPE) };
        }
        if let Ok(layout) = Self::directory_layout(self.chunks) {
            // SAFETY: allocated in `new` with this layout and scope.
            unsafe { memory.deallocate(self.directory.cast(), layout, SCOPE) };
        }
    }
}
