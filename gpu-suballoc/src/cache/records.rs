//! The number and memory of a cache's reference records.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};

use alloc_core::{HostAllocator, Scope};

use super::ref_records::{RefRecord, RefRecords};
use crate::threads;

/// Threads with a record at the same time; other threads use the common record.
pub(super) const RECORDS: usize = threads::SLOTS;
/// References in a record at the same time. Further ones stand in the common record, and then count in the entry.
pub(super) const WORDS: usize = 14;

impl RefRecords {
    /// Creates the record of the calling thread's slot, or the common one. Without memory for it, references count in the entry.
    #[cold]
    pub(super) fn create_record(&self, slot: usize, memory: &dyn HostAllocator) {
        let Ok(block) = memory.allocate_zeroed(Layout::new::<RefRecord>(), Scope::Cache) else {
            return;
        };
        if !self.put(slot, block.cast()) {
            // SAFETY: just allocated, not visible to other threads.
            unsafe { memory.deallocate(block, Layout::new::<RefRecord>(), Scope::Cache) };
        }
    }

    /// Frees all records. `&mut` excludes readers.
    pub(super) fn free_all(&mut self, memory: &dyn HostAllocator) {
        for place in &mut self.records {
            if let Some(block) = NonNull::new(core::mem::replace(place.get_mut(), null_mut())) {
                // SAFETY: allocated in `create_record` with this layout and scope; nothing refers to it.
                unsafe {
                    memory.deallocate(block.cast(), Layout::new::<RefRecord>(), Scope::Cache)
                };
            }
        }
    }
}
