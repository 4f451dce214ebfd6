//! The slot map of regions: every region, owned, wrapped or a crop, has one slot, and its id is the slot's number and
//! generation.
//!
//! ```text
//!   RegionId --> slot: Root      place in a pool, resource, requested bytes      the place's node names the slot
//!                      Wrapped   a buffer of the application's
//!                      Crop      root: slot, offset from the root's start        always of the root, never of another crop
//!                      each with: name, number of crops and mappings, state
//! ```
//!
//! Every method locks for itself. Under this lock only locks of pools are acquired. A call that needs memory has it
//! first ([`RegionMetadata::prepare`]), so that what follows cannot fail.

use self::detail::RegionDetail;
use self::record::RecordTable;
use self::resource_description::MAX_DESCRIPTIONS;
use self::reuse_cache::ReuseCache;
use self::wrapped_buffers::ForeignMemory;
use crate::device::DeviceMemory;
use crate::error::GpuError;
use crate::growable_vec::Slots;
use crate::host_memory::{GrowableTable, Tables, free_table};
use crate::id::RegionKey;
use crate::request::RegionOptions;
use crate::sync::StateMutex;
use alloc_core::HostAllocator;

mod aliases;
mod detail;
mod moves;
mod owned_regions;
mod record;
mod report;
mod resource_description;
mod reuse_cache;
mod root_state;
mod wrapped_buffers;

pub(crate) use moves::MovingRoot;
pub(crate) use owned_regions::{FoundRegion, NewRegion, RemovedRoot};
pub use record::Backing;
pub(crate) use record::{RecordView, RootView, WrappedBuffer};
pub(crate) use report::{AliasInfo, RecordInfo};
pub(crate) use resource_description::ResourceDescription;
pub use root_state::{MoveOutcome, MoveResult};

pub(crate) struct RegionMetadata {
    state: StateMutex<MetadataState>,
}

#[must_use = "it holds memory and a root that must be freed"]
#[derive(Default)]
pub(crate) struct Leftovers {
    /// The caller frees its resource and its memory.
    pub(crate) root: Option<RemovedRoot>,
    details: [Option<RegionDetail>; 2],
}

impl Leftovers {
    pub(crate) fn free(self, memory: &dyn HostAllocator) -> Option<RemovedRoot> {
        for detail in self.details {
            RegionDetail::free(detail, memory);
        }
        self.root
    }
}

impl RegionMetadata {
    pub(crate) fn new(keep: u32) -> Self {
        Self {
            state: StateMutex::new(MetadataState {
                table: RecordTable::new(),
                kinds: Slots::up_to(MAX_DESCRIPTIONS),
                reuse_cache: ReuseCache::new(keep),
                wraps: Slots::up_to(0),
                foreign: Slots::up_to(0),
                counts: MetadataCounts::default(),
            }),
        }
    }

    pub(crate) fn counts(&self) -> MetadataCounts {
        let state = self.state.lock();
        MetadataCounts {
            reusable: u64::from(state.reuse_cache.entries.len()),
            reusable_bytes: state.reuse_cache.bytes,
            ..state.counts
        }
    }

    pub(crate) fn set_name(
        &self,
        memory: &dyn HostAllocator,
        key: RegionKey,
        options: &RegionOptions<'_>,
    ) -> Result<(), GpuError> {
        // Before the lock, so that a refusal leaves the former name.
        let new = RegionDetail::new(memory, options)?;
        let (unused, result) = match self.state.lock().table.live(key) {
            Ok(record) => (core::mem::replace(&mut record.detail, new), Ok(())),
            Err(error) => (new, Err(error.into())),
        };
        RegionDetail::free(unused, memory);
        result
    }

    /// With a `device`, the memory of wrapped buffers is unmapped.
    pub(crate) fn free_all(&mut self, device: Option<&dyn DeviceMemory>, memory: &dyn HostAllocator) {
        self.free_all_wraps(device, memory);
        (self.state.get_mut()).visit_tables(&mut |table| free_table(table, memory));
    }
}

struct MetadataState {
    table: RecordTable,
    kinds: Slots<ResourceDescription>,
    reuse_cache: ReuseCache,
    wraps: Slots<WrappedBuffer>,
    foreign: Slots<ForeignMemory>,
    counts: MetadataCounts,
}

// SAFETY: the pointers are addresses of the application's mapped memory, never followed here.
unsafe impl Send for MetadataState {}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetadataCounts {
    pub(crate) wrapped: u64,
    pub(crate) wrapped_bytes: u64,
    pub(crate) crops: u64,
    pub(crate) pending_free: u64,
    pub(crate) reusable: u64,
    pub(crate) reusable_bytes: u64,
}

impl Tables for MetadataState {
    fn visit_tables(&mut self, visit: &mut dyn FnMut(&mut dyn GrowableTable)) {
        visit(&mut self.table);
        visit(&mut self.kinds);
        visit(&mut self.reuse_cache);
        visit(&mut self.wraps);
        visit(&mut self.foreign);
    }
}
