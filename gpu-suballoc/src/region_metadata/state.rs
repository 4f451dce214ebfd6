//! What the records' lock guards, and what it may have to be given from outside.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::foreign::ForeignMemory;
use super::index::RecordIndex;
use super::resource_description::{ResourceDescription, ResourceDescriptions};
use super::reuse_cache::ReuseCache;
use super::table::RecordTable;
use crate::error::Limit;
use crate::host_block::HostBlock;

pub(super) struct MetadataState {
    pub(super) table: RecordTable,
    pub(super) index: RecordIndex,
    pub(super) kinds: ResourceDescriptions,
    pub(super) reuse_cache: ReuseCache,
    /// Memory objects of the application's that wrapped buffers lie in.
    pub(super) foreign: Option<NonNull<ForeignMemory>>,
    pub(super) counts: MetadataCounts,
}

// SAFETY: the pointers are to blocks that the records alone refer to, and are followed under their lock, but for a `ForeignMemory` that
// a mapping counts, whose own fields are behind its gate.
unsafe impl Send for MetadataState {}

/// How many there are of what; exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetadataCounts {
    /// Wrapped buffers, and their bytes.
    pub(crate) wrapped: u64,
    pub(crate) wrapped_bytes: u64,
    pub(crate) crops: u64,
    /// Regions that go with their last crop or mapping.
    pub(crate) pending_free: u64,
    /// Buffers kept for reuse, and their bytes.
    pub(crate) reusable: u64,
    pub(crate) reusable_bytes: u64,
}

/// What a call is about to put in.
#[derive(Clone, Copy, Default)]
pub(super) struct RecordReservation {
    /// Up to two.
    pub(super) slots: u32,
    pub(super) bucket: bool,
    pub(super) kind: Option<ResourceDescription>,
}

/// Memory that lacks for it.
#[derive(Clone, Copy)]
pub(super) enum RecordShortage {
    Directory(Layout),
    Chunk,
    Buckets(Layout),
    Kinds(Layout),
}

/// All that lacks for one call, in the order in which it is supplied.
pub(super) type RecordShortages = [Option<RecordShortage>; 4];

impl RecordShortage {
    pub(super) const fn layout(self) -> Layout {
        match self {
            Self::Chunk => RecordTable::CHUNK,
            Self::Directory(layout) | Self::Buckets(layout) | Self::Kinds(layout) => layout,
        }
    }
}

impl MetadataState {
    pub(super) const fn new() -> Self {
        Self {
            table: RecordTable::new(),
            index: RecordIndex::new(),
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

    pub(super) fn missing_capacity(
        &self,
        need: &RecordReservation,
    ) -> Result<RecordShortages, Limit> {
        let table = self.table.missing_capacity(need.slots)?;
        let buckets = if need.bucket {
            self.index.missing_capacity()
        } else {
            None
        };
        let kinds = need.kind.and_then(|kind| {
            self.kinds
                .missing_capacity()
                .filter(|_| self.kinds.find(&kind).is_none())
        });
        Ok([
            table.directory.map(RecordShortage::Directory),
            table.chunk.then_some(RecordShortage::Chunk),
            buckets.map(RecordShortage::Buckets),
            kinds.map(RecordShortage::Kinds),
        ])
    }

    /// Takes memory that lacked; gives back what is not needed any more, the block itself perhaps.
    pub(super) fn grow_with(
        &mut self,
        lack: RecordShortage,
        block: HostBlock,
    ) -> Option<HostBlock> {
        match lack {
            RecordShortage::Directory(_) => self.table.grow_directory(block),
            RecordShortage::Chunk => self.table.add_chunk(block),
            RecordShortage::Buckets(_) => {
                let spare = self.index.array().grow_with(block);
                self.index.spread(&mut self.table);
                spare
            }
            RecordShortage::Kinds(_) => self.kinds.array().grow_with(block),
        }
    }

    /// All memory, a block a call, until `None`.
    pub(super) fn detach_memory(&mut self) -> Option<HostBlock> {
        self.table
            .detach_memory()
            .or_else(|| self.index.detach_memory())
            .or_else(|| self.kinds.detach_memory())
            .or_else(|| self.reuse_cache.detach_memory())
    }
}
