//! The slot map of regions: every region, owned, wrapped or a crop, has one slot, and its id is the slot's number and generation.
//!
//! ```text
//!   RegionId --> slot: Root      place in a pool, resource, requested bytes      the place's node names the slot
//!                      Wrapped   a buffer of the application's
//!                      Crop      root: slot, offset from the root's start        always of the root, never of another crop
//!                      each with: name, number of crops and mappings, state
//! ```
//!
//! Every method locks for itself, for a short time. Under this lock only locks of pools are acquired, where a place and a resource change or
//! are read together. A call that needs memory has it first ([`RegionMetadata::prepare_root`] and others), so that what follows
//! cannot fail. Freeing allocates nothing.

use self::detail::RegionDetail;
use self::record::RecordTable;
use self::resource_description::ResourceDescriptions;
use crate::error::{GpuError, GpuMisuse};
use crate::host_memory::{GrowableTable, Tables, fill, free_table};
use crate::id::RegionKey;
use crate::request::RegionOptions;
use crate::sync::StateMutex;
use alloc_core::{HostAllocator, Scope};
use core::ptr::NonNull;

mod aliases;
mod detail;
mod moves;
mod owned_regions;
mod record;
mod report;
mod resource_description;
mod root_state;
mod wrapped_buffers;

pub(crate) use moves::MovingRoot;
pub(crate) use owned_regions::{FoundRegion, NewRoot, RemovedRoot};
pub use record::Backing;
pub(crate) use record::{RecordView, RootView, WrappedBuffer};
pub(crate) use report::{AliasInfo, RecordInfo};
pub(crate) use resource_description::ResourceDescription;
pub(crate) use root_state::{EndedMove, MoveEnding};

/// All regions of one allocator.
pub(crate) struct RegionMetadata {
    state: StateMutex<MetadataState>,
}

/// What the end of a region, a crop or a mapping leaves to free without the lock.
#[must_use = "it holds memory and a root that must be freed"]
#[derive(Default)]
pub(crate) struct Leftovers {
    /// A root that ended, now or with its last crop or mapping: the caller frees its resource and its memory.
    pub(crate) root: Option<RemovedRoot>,
    details: [Option<RegionDetail>; 2],
    wrap: Option<NonNull<WrappedBuffer>>,
}

impl Leftovers {
    /// Frees the memory of the records. Returns the root.
    pub(crate) fn free(self, memory: &dyn HostAllocator) -> Option<RemovedRoot> {
        for detail in self.details {
            RegionDetail::free(detail, memory);
        }
        if let Some(wrap) = self.wrap {
            // SAFETY: allocated with this layout and scope in `insert_wrap`; its record is gone.
            unsafe { memory.deallocate(wrap.cast(), wrapped_buffers::WRAP, Scope::Object) };
        }
        self.root
    }
}

impl RegionMetadata {
    /// With capacity for the first descriptions of buffers.
    pub(crate) fn new(memory: &dyn HostAllocator) -> Result<Self, GpuError> {
        let mut state = MetadataState::new();
        fill(&mut state.kinds, memory)?;
        Ok(Self {
            state: StateMutex::new(state),
        })
    }

    pub(crate) fn counts(&self) -> MetadataCounts {
        self.state.lock().counts
    }

    /// Replaces the name of a live region.
    pub(crate) fn set_name(
        &self,
        memory: &dyn HostAllocator,
        key: RegionKey,
        options: &RegionOptions<'_>,
    ) -> Result<(), GpuError> {
        // Before the lock, so that a refusal leaves the former name.
        let new = RegionDetail::new(memory, options)?;
        let (unused, result) = match self.state.lock().table.named_mut(key) {
            Ok(header) if header.state.is_live() => {
                (core::mem::replace(&mut header.detail, new), Ok(()))
            }
            _ => (new, Err(GpuMisuse::Stale.into())),
        };
        RegionDetail::free(unused, memory);
        result
    }

    /// Frees all memory, that of names and wrapped buffers included.
    pub(crate) fn free_all(&mut self, memory: &dyn HostAllocator) {
        self.free_all_wraps(memory);
        (self.state.get_mut()).visit_tables(&mut |table| free_table(table, memory));
    }
}

// The state behind the records' lock.

struct MetadataState {
    table: RecordTable,
    kinds: ResourceDescriptions,
    /// The application's memory objects of wrapped buffers.
    counts: MetadataCounts,
}

// SAFETY: the records alone refer to the blocks behind the pointers, and follow them under their lock.
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
}

impl MetadataState {
    const fn new() -> Self {
        Self {
            table: RecordTable::new(),
            kinds: ResourceDescriptions::new(),
            counts: MetadataCounts {
                wrapped: 0,
                wrapped_bytes: 0,
                crops: 0,
                pending_free: 0,
            },
        }
    }
}

impl Tables for MetadataState {
    fn visit_tables(&mut self, visit: &mut dyn FnMut(&mut dyn GrowableTable)) {
        visit(&mut self.table);
        visit(&mut self.kinds);
    }

    #[inline]
    fn is_filled(&self) -> bool {
        self.table.has_free() && self.kinds.missing().is_none()
    }
}
