//! The records of a cache: how many there are, and where their memory comes from.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};

use alloc_core::{HostAllocator, Scope};

use super::ref_records::{RefRecord, RefRecords};
use crate::threads;

/// Threads with a record at the same time; others use the common one.
pub(super) const RECORDS: usize = threads::SLOTS;
/// Holds in a record at the same time; more go into the common one, and those that are too many for it count in the entry.
pub(super) const WORDS: usize = 14;

impl RefRecords {
    /// Makes the record of the calling thread's slot, or the common one. Where there is no memory for it holds are counted in the entry.
    #[cold]
    pub(super) fn create_record(&self, slot: usize, memory: &dyn HostAllocator) {
        let Ok(block) = memory.allocate_zeroed(Layout::new::<RefRecord>(), Scope::Cache) else {
            return;
        };
        if !self.put(slot, block.cast()) {
            // SAFETY: just taken, seen by nobody.
            unsafe { memory.deallocate(block, Layout::new::<RefRecord>(), Scope::Cache) };
        }
    }

    /// All records go. Nobody looks any more.
    pub(super) fn free_all(&mut self, memory: &dyn HostAllocator) {
        for place in &mut self.records {
            if let Some(block) = NonNull::new(core::mem::replace(place.get_mut(), null_mut())) {
                // SAFETY: taken in `make` with this layout and scope; nobody refers to it.
                unsafe {
                    memory.deallocate(block.cast(), Layout::new::<RefRecord>(), Scope::Cache)
                };
            }
        }
    }
}
