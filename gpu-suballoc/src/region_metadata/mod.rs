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
use self::reuse_cache::ReuseCache;
use self::wrapped_buffers::ForeignMemory;
use crate::device::DeviceMemory;
use crate::error::{GpuError, GpuMisuse, Limit};
use crate::host_memory::{GrowableTable, Tables, fill, free_table, lock_filled};
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
mod reuse_cache;
mod root_state;
mod wrapped_buffers;

pub(crate) use moves::{MoveEnd, MovingRoot};
pub(crate) use owned_regions::{FoundRegion, NewRoot, RemovedRoot};
pub use record::Backing;
pub(crate) use record::{RecordView, RootView, WrappedBuffer};
pub(crate) use report::{AliasInfo, RecordInfo};
pub(crate) use resource_description::ResourceDescription;
pub(crate) use root_state::MoveEnding;

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
    foreign: Option<NonNull<ForeignMemory>>,
}

impl Leftovers {
    /// Frees the memory of the records. Returns the root.
    pub(crate) fn free(self, memory: &dyn HostAllocator) -> Option<RemovedRoot> {
        for detail in self.details {
            RegionDetail::free(detail, memory);
        }
        if let Some(wrap) = self.wrap {
            // SAFETY: allocated with this layout and scope in `prepare_wrap`; its record is gone.
            unsafe { memory.deallocate(wrap.cast(), wrapped_buffers::WRAP, Scope::Object) };
        }
        if let Some(foreign) = self.foreign {
            // SAFETY: allocated with this layout and scope in `prepare_wrap`; its last user is gone.
            unsafe { memory.deallocate(foreign.cast(), wrapped_buffers::FOREIGN, Scope::Object) };
        }
        self.root
    }
}

impl RegionMetadata {
    /// With capacity for the first descriptions of buffers, and for `keep` buffers in the reuse cache.
    pub(crate) fn new(memory: &dyn HostAllocator, keep: u32) -> Result<Self, GpuError> {
        let mut state = MetadataState::new(keep);
        let filled =
            fill(&mut state.kinds, memory).and_then(|()| fill(&mut state.reuse_cache, memory));
        let mut new = Self {
            state: StateMutex::new(state),
        };
        match filled {
            Ok(()) => Ok(new),
            Err(error) => {
                new.free_all(None, memory);
                Err(error.into())
            }
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

    /// Reserves a slot for the caller to fill or [unreserve](Self::unreserve), and notes the description of its resource: all or nothing.
    fn reserve(
        &self,
        memory: &dyn HostAllocator,
        kind: Option<&ResourceDescription>,
    ) -> Result<ReservedSlot, GpuError> {
        let mut state = lock_filled(&self.state, memory)?;
        let number = state.table.reserve().ok_or(Limit::Records)?;
        let kind = kind.map(|kind| state.kinds.insert(*kind));
        Ok(ReservedSlot {
            number,
            kind: kind.unwrap_or(ResourceDescriptions::NONE),
        })
    }

    /// Releases a slot that was not filled.
    pub(crate) fn unreserve(&self, slot: ReservedSlot) {
        self.state.lock().table.release(slot.number, false);
    }

    /// Reserves a slot for a crop.
    pub(crate) fn prepare_crop(
        &self,
        memory: &dyn HostAllocator,
    ) -> Result<ReservedSlot, GpuError> {
        self.reserve(memory, None)
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

    /// Frees all memory, that of names and wrapped buffers included. With a `device`, unmaps the memory of wrapped buffers.
    pub(crate) fn free_all(
        &mut self,
        device: Option<&dyn DeviceMemory>,
        memory: &dyn HostAllocator,
    ) {
        self.free_all_wraps(device, memory);
        (self.state.get_mut()).visit_tables(&mut |table| free_table(table, memory));
    }
}

/// A slot that a call reserved.
#[derive(Clone, Copy, Debug)]
#[must_use = "fill or unreserve it"]
pub(crate) struct ReservedSlot {
    pub(crate) number: u32,
    /// Of its resource's description.
    kind: u16,
}

// The state behind the records' lock.

struct MetadataState {
    table: RecordTable,
    kinds: ResourceDescriptions,
    reuse_cache: ReuseCache,
    /// The application's memory objects of wrapped buffers.
    foreign: Option<NonNull<ForeignMemory>>,
    counts: MetadataCounts,
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
    const fn new(keep: u32) -> Self {
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
