//! The state behind the records' lock, and the capacity that a call may be missing.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::foreign::ForeignMemory;
use super::resource_description::{ResourceDescription, ResourceDescriptions};
use super::reuse_cache::ReuseCache;
use super::table::RecordTable;
use crate::error::Limit;
use crate::host_block::HostBlock;

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

/// Missing capacity.
#[derive(Clone, Copy)]
pub(super) enum RecordShortage {
    Directory(Layout),
    Chunk,
    Kinds(Layout),
}

impl RecordShortage {
    pub(super) const fn layout(self) -> Layout {
        match self {
            Self::Chunk => RecordTable::CHUNK,
            Self::Directory(layout) | Self::Kinds(layout) => layout,
        }
    }
}

impl MetadataState {
    pub(super) const fn new() -> Self {
        Self {
            table: RecordTable::new(),
            kinds: ResourceDescriptions::new(),
            reuse_cache: ReuseCache::new(),
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

    /// What is missing first to insert a region with this description.
    pub(super) fn missing_capacity(
        &self,
        kind: Option<&ResourceDescription>,
    ) -> Result<Option<RecordShortage>, Limit> {
        if let Some(shortage) = self.table.missing_capacity()? {
            return Ok(Some(shortage));
        }
        let kinds = kind.filter(|kind| self.kinds.find(kind).is_none());
        let kinds = kinds.and_then(|_| self.kinds.missing_capacity());
        Ok(kinds.map(RecordShortage::Kinds))
    }

    /// Grows into `block`. Returns memory that is not needed any more, perhaps the block itself.
    pub(super) fn grow_with(
        &mut self,
        shortage: RecordShortage,
        block: HostBlock,
    ) -> Option<HostBlock> {
        match shortage {
            RecordShortage::Directory(_) => self.table.grow_directory(block),
            RecordShortage::Chunk => self.table.add_chunk(block),
            RecordShortage::Kinds(_) => self.kinds.0.grow_with(block),
        }
    }

    /// Detaches one block of memory at each call, until `None`.
    pub(super) fn detach_memory(&mut self) -> Option<HostBlock> {
        self.table
            .detach_memory()
            .or_else(|| self.kinds.0.detach_memory())
            .or_else(|| self.reuse_cache.entries.detach_memory())
    }
}
