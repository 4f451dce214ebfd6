//! Records: what regions have beyond a place in memory, that is resources, names, crops and mappings; and wrapped buffers.
//!
//! ```text
//!   Region --- bare: no record
//!          \-- buffer, image, name, crop, mapping --- user data of its place ---> record (Root)
//!   RegionId of a wrapped buffer or a crop: the record's number and generation
//!
//!   Crop --- root: number ---> Root | Wrapped       always the root, never another crop; offsets from the root's start
//! ```
//!
//! Every method locks for itself, for a short time. Under this lock only locks of pools are acquired, where a place and a resource change or
//! are read together. A call that needs memory allocates it first ([`RegionMetadata::prepare_root`] and others), so that what follows
//! cannot fail. Freeing allocates nothing.

mod aliases;
mod detail;
mod foreign;
mod moves;
mod owned_regions;
mod record;
mod report;
mod resource_description;
mod reuse_cache;
mod root_state;
mod state;
mod table;
mod wrapped_buffers;

pub(crate) use foreign::ForeignMemory;
pub(crate) use moves::{MoveEnd, MovingRoot};
pub(crate) use owned_regions::{CropRecordView, NewRoot, RemovedRoot};
pub use record::Backing;
pub(crate) use record::{RecordView, RootView, WrappedBuffer};
pub(crate) use report::{AliasInfo, RecordInfo};
pub(crate) use resource_description::ResourceDescription;
pub(crate) use root_state::MoveEnding;
pub(crate) use state::MetadataCounts;

use core::ptr::NonNull;

use alloc_core::{HostAllocator, HostError, Scope};

use self::detail::RegionDetail;
use self::state::{MetadataState, RecordReservation, RecordShortages};
use crate::error::{GpuError, GpuMisuse};
use crate::growable_vec::GrowableVec;
use crate::host_block::HostBlock;
use crate::id::{NO_RECORD, RegionSlot};
use crate::request::RegionOptions;
use crate::sync::StateMutex;

/// All records of one allocator.
pub(crate) struct RegionMetadata {
    state: StateMutex<MetadataState>,
}

/// What the end of a region, a crop or a mapping leaves to free without the lock.
#[must_use = "it holds memory and a root that must be freed"]
#[derive(Default)]
pub(crate) struct Leftovers {
    /// A root that ended with its last crop or mapping: the caller frees its resource and its memory.
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
        let mut state = MetadataState::new();
        if let Err(error) = state.preallocate(memory, keep) {
            state.free_all(memory);
            return Err(error);
        }
        Ok(Self {
            state: StateMutex::new(state),
        })
    }

    pub(crate) fn counts(&self) -> MetadataCounts {
        let state = self.state.lock();
        MetadataCounts {
            reusable: u64::from(state.reuse_cache.entries.len()),
            reusable_bytes: state.reuse_cache.bytes,
            ..state.counts
        }
    }

    /// Reserves slots for the caller to fill or [unreserve](Self::unreserve), and the other capacity that it needs: all or nothing.
    fn reserve(
        &self,
        memory: &dyn HostAllocator,
        need: &RecordReservation,
    ) -> Result<ReservedSlots, GpuError> {
        let shortages = {
            let mut state = self.state.lock();
            let shortages = state.missing_capacity(need)?;
            if shortages.iter().all(Option::is_none) {
                return Ok(state.reserve_slots(need));
            }
            shortages
        };
        self.reserve_with(memory, need, shortages)
    }

    #[cold]
    fn reserve_with(
        &self,
        memory: &dyn HostAllocator,
        need: &RecordReservation,
        mut shortages: RecordShortages,
    ) -> Result<ReservedSlots, GpuError> {
        loop {
            let mut blocks = [const { None::<HostBlock> }; 3];
            for (shortage, block) in shortages.iter().zip(&mut blocks) {
                let Some(shortage) = shortage else { continue };
                match HostBlock::allocate(memory, shortage.layout()) {
                    Ok(new) => *block = Some(new),
                    Err(error) => {
                        free_memory(memory, blocks);
                        return Err(error.into());
                    }
                }
            }
            let mut spares = [const { None::<HostBlock> }; 3];
            let slots = {
                let mut state = self.state.lock();
                for ((shortage, block), spare) in shortages.iter().zip(blocks).zip(&mut spares) {
                    if let (Some(shortage), Some(block)) = (shortage, block) {
                        *spare = state.grow_with(*shortage, block);
                    }
                }
                match state.missing_capacity(need) {
                    Ok(still) if still.iter().all(Option::is_none) => Ok(Some(ReservedSlots {
                        fresh: true,
                        ..state.reserve_slots(need)
                    })),
                    Ok(still) => {
                        shortages = still;
                        Ok(None)
                    }
                    Err(limit) => Err(limit),
                }
            };
            free_memory(memory, spares);
            if let Some(slots) = slots? {
                return Ok(slots);
            }
        }
    }

    /// Releases the slots that were not filled, and frees a chunk that was allocated for them.
    pub(crate) fn unreserve(&self, memory: &dyn HostAllocator, slots: ReservedSlots) {
        let spare = {
            let mut state = self.state.lock();
            for number in [slots.root, slots.record] {
                // There is no slot `NO_RECORD`.
                state.table.release(number, false);
            }
            if slots.fresh {
                state.table.detach_unused_chunk()
            } else {
                None
            }
        };
        free_memory(memory, [spare]);
    }

    /// Replaces the name of a live record.
    pub(crate) fn set_name(
        &self,
        memory: &dyn HostAllocator,
        number: u32,
        key: RegionSlot,
        NewName(new): NewName,
    ) -> Result<(), GpuMisuse> {
        let (unused, result) = match self.state.lock().table.named_mut(number, key) {
            Ok(header) => (core::mem::replace(&mut header.detail, new), Ok(())),
            Err(rule) => (new, Err(rule)),
        };
        RegionDetail::free(unused, memory);
        result
    }

    /// Frees all memory, that of names and wrapped buffers included.
    pub(crate) fn free_all(&mut self, memory: &dyn HostAllocator) {
        self.free_all_wraps(memory);
        self.state.get_mut().free_all(memory);
    }
}

/// A new name, tag and site.
#[must_use = "it holds memory: set it, or free it"]
pub(crate) struct NewName(Option<RegionDetail>);

impl NewName {
    pub(crate) fn new(
        memory: &dyn HostAllocator,
        options: &RegionOptions<'_>,
    ) -> Result<Self, GpuError> {
        Ok(Self(RegionDetail::new(memory, options)?))
    }

    pub(crate) fn free(self, memory: &dyn HostAllocator) {
        RegionDetail::free(self.0, memory);
    }
}

/// Slots that a call reserved; `NO_RECORD` for those that it did not need or has filled.
#[derive(Clone, Copy, Debug)]
#[must_use = "it holds slots: fill or unreserve them"]
pub(crate) struct ReservedSlots {
    pub(crate) record: u32,
    pub(crate) root: u32,
    /// A chunk may have been allocated for them.
    fresh: bool,
}

impl MetadataState {
    fn reserve_slots(&mut self, need: &RecordReservation) -> ReservedSlots {
        let mut reserve = |is_needed: bool| {
            (is_needed.then(|| self.table.reserve()).flatten()).unwrap_or(NO_RECORD)
        };
        ReservedSlots {
            record: reserve(need.record),
            root: reserve(need.root),
            fresh: false,
        }
    }

    fn preallocate(&mut self, memory: &dyn HostAllocator, keep: u32) -> Result<(), GpuError> {
        if let Some(layout) = self.kinds.missing_capacity() {
            let block = HostBlock::allocate(memory, layout)?;
            let spare = self.kinds.0.grow_with(block);
            free_memory(memory, [spare]);
        }
        if keep > 0 {
            let layout = GrowableVec::<reuse_cache::ReusableBuffer>::layout(keep)
                .ok_or(HostError::TooLarge)?;
            let block = HostBlock::allocate(memory, layout)?;
            let spare = self.reuse_cache.entries.grow_with(block);
            free_memory(memory, [spare]);
        }
        Ok(())
    }

    fn free_all(&mut self, memory: &dyn HostAllocator) {
        while let Some(spare) = self.detach_memory() {
            free_memory(memory, [Some(spare)]);
        }
    }
}

fn free_memory(memory: &dyn HostAllocator, spares: impl IntoIterator<Item = Option<HostBlock>>) {
    for block in spares.into_iter().flatten() {
        // SAFETY: allocated with this layout and scope from the one allocator of these records; nothing refers to it any more.
        unsafe { block.free(memory) };
    }
}
