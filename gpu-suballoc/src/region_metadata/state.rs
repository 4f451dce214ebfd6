//! The state behind the records' lock.

use core::ptr::NonNull;

use super::foreign::ForeignMemory;
use super::resource_description::ResourceDescriptions;
use super::reuse_cache::ReuseCache;
use super::table::RecordTable;
use crate::host_memory::{GrowableTable, Tables};

pub(super) struct MetadataState {
    pub(super) table: RecordTable,
    pub(super) kinds: ResourceDescriptions,
    pub(super) reuse_cache: ReuseCache,
    /// The application's memory objects of wrapped buffers.
    pub(super) foreign: Option<NonNull<ForeignMemory>>,
    pub(super) counts: MetadataCounts,
}

// SAFETY: the records alone refer to the blocks behind the pointers, and follow them under their lock. A `ForeignMemory` that a mapping
// counts is also used without it; its own fields are behind its gate.
unsafe impl Send for MetadataState {}

/// Exact counts of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetadataCounts {
    /// Wrapped buffers, and their bytes.
    pub(crate) wrapped: u64,
    pub(crate) wrapped_bytes: u64,
    pub(crate) crops: u64,
    /// Regions that are freed with their last crop or mapping.
    pub(crate) pending_free: u64,
    /// Buffers kept for reuse, and their bytes.
    pub(crate) reusable: u64,
    pub(crate) reusable_bytes: u64,
}

impl MetadataState {
    /// With capacity for `keep` buffers in the reuse cache.
    pub(super) const fn new(keep: u32) -> Self {
        Self {
            table: RecordTable::new(),
            kinds: ResourceDescriptions::new(),
            reuse_cache: ReuseCache::new(keep),
            foreign: None,
            counts: MetadataCounts {
                wrapped: 0,
                wrapped_bytes: 0,
                crops: 0,
                pending_free: 0,
                reusable: 0,
                reusable_bytes: 0,
            },
        }
    }
}

impl Tables for MetadataState {
    fn visit_tables(&mut self, visit: &mut dyn FnMut(&mut dyn GrowableTable)) {
        visit(&mut self.table);
        visit(&mut self.kinds);
        visit(&mut self.reuse_cache);
    }

    #[inline]
    fn is_filled(&self) -> bool {
        self.table.has_free() && self.kinds.missing().is_none()
    }
}
