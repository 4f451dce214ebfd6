//! What regions have beyond a place in memory: resources, names, crops, mappings; and who is not the allocator's own.
//!
//! ```text
//!   Region --- bare: nothing here
//!          \-- buffer, image, name, crop, mapping --- word of its place ---> record (Root)
//!   RegionId of a wrapped buffer or a crop: the record's own number and generation
//!
//!   Crop --- root: number ---> Root | Wrapped       always the root, never another crop; offsets from the root's start
//! ```
//!
//! Every method takes the lock for itself, for moments, and calls nobody under it but the pools, whose locks are taken within this one
//! where a place and a resource change or are read together. A call that needs memory here takes it first
//! ([`RegionMetadata::prepare_root`] and its siblings), so that what follows cannot fail; freeing takes none.

mod aliases;
mod detail;
mod foreign;
mod index;
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

pub(crate) use aliases::NewAlias;
pub(crate) use foreign::ForeignMemory;
pub(crate) use moves::{MoveEnd, MovingRoot};
pub(crate) use owned_regions::{CropRecordView, NewRoot, RecordView, RemovedRoot};
pub use record::Backing;
pub(crate) use record::WrappedBuffer;
pub(crate) use report::{AliasInfo, RecordInfo};
pub(crate) use resource_description::ResourceDescription;
pub(crate) use root_state::MoveEnding;
pub(crate) use state::MetadataCounts;

use core::ptr::NonNull;

use alloc_core::{HostAllocator, HostError, Scope};

use self::detail::RegionDetail;
use self::index::KeyFilter;
use self::record::{RegionRecord, WrappedBuffer as WrapFacts};
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
    filter: KeyFilter,
}

/// What a call that ends something leaves to be given back, outside of the lock.
#[must_use = "it holds memory and a root to be given back"]
#[derive(Default)]
pub(crate) struct Leftovers {
    /// A root that went with its last crop or mapping: its resource and its memory are the caller's to give back.
    pub(crate) root: Option<RemovedRoot>,
    details: [Option<RegionDetail>; 2],
    wrap: Option<NonNull<WrapFacts>>,
    foreign: Option<NonNull<ForeignMemory>>,
}

impl Leftovers {
    /// Gives the memory of the records back.
    pub(crate) fn free(self, memory: &dyn HostAllocator) -> Option<RemovedRoot> {
        for detail in self.details.into_iter().flatten() {
            detail.free(memory);
        }
        if let Some(wrap) = self.wrap {
            // SAFETY: taken with this layout and scope in `prepare_wrap`; its record is gone.
            unsafe { memory.deallocate(wrap.cast(), wrapped_buffers::WRAP, Scope::Object) };
        }
        if let Some(foreign) = self.foreign {
            // SAFETY: taken with this layout and scope in `prepare_wrap`; its last user is gone.
            unsafe { memory.deallocate(foreign.cast(), wrapped_buffers::FOREIGN, Scope::Object) };
        }
        self.root
    }
}

impl RegionMetadata {
    /// With room for the first kinds of buffers, and for all that may be kept.
    pub(crate) fn new(memory: &dyn HostAllocator, keep: u32) -> Result<Self, GpuError> {
        let mut state = MetadataState::new();
        let made = state.preallocate(memory, keep);
        if let Err(error) = made {
            state.free_all(memory);
            return Err(error);
        }
        Ok(Self {
            state: StateMutex::new(state),
            filter: KeyFilter::new(),
        })
    }

    /// False: there is certainly no record of this region in the index. One relaxed load.
    #[inline]
    pub(crate) fn may_know(&self, key: RegionSlot) -> bool {
        self.filter.may_have(key)
    }

    pub(crate) fn counts(&self) -> MetadataCounts {
        let state = self.state.lock();
        MetadataCounts {
            reusable: u64::from(state.reuse_cache.len()),
            reusable_bytes: state.reuse_cache.bytes(),
            ..state.counts
        }
    }

    /// Slots of the caller's own, to be filled or handed back, and room for what else it needs: all or nothing.
    fn reserve(
        &self,
        memory: &dyn HostAllocator,
        need: &RecordReservation,
    ) -> Result<ReservedSlots, GpuError> {
        let lacks = {
            let mut state = self.state.lock();
            let lacks = state.missing_capacity(need)?;
            if lacks.iter().all(Option::is_none) {
                return Ok(state.reserve_slots(need.slots));
            }
            lacks
        };
        self.reserve_with(memory, need, lacks)
    }

    #[cold]
    fn reserve_with(
        &self,
        memory: &dyn HostAllocator,
        need: &RecordReservation,
        mut lacks: RecordShortages,
    ) -> Result<ReservedSlots, GpuError> {
        loop {
            let mut blocks = [const { None::<HostBlock> }; 4];
            for (lack, block) in lacks.iter().zip(&mut blocks) {
                let Some(lack) = lack else { continue };
                match HostBlock::allocate(memory, lack.layout()) {
                    Ok(taken) => *block = Some(taken),
                    Err(error) => {
                        free_memory(memory, blocks);
                        return Err(error.into());
                    }
                }
            }
            let mut spares = [const { None::<HostBlock> }; 4];
            let slots = {
                let mut state = self.state.lock();
                for ((lack, block), spare) in lacks.iter().zip(blocks).zip(&mut spares) {
                    if let (Some(lack), Some(block)) = (lack, block) {
                        *spare = state.grow_with(*lack, block);
                    }
                }
                match state.missing_capacity(need) {
                    Ok(still) if still.iter().all(Option::is_none) => Ok(Some(ReservedSlots {
                        fresh: true,
                        ..state.reserve_slots(need.slots)
                    })),
                    Ok(still) => {
                        lacks = still;
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

    /// Undoes [`reserve`](RegionMetadata::reserve) where nothing was put in; a chunk that was taken for it goes back too.
    fn unreserve(&self, memory: &dyn HostAllocator, slots: ReservedSlots) {
        let spare = {
            let mut state = self.state.lock();
            for number in [slots.second, slots.first]
                .into_iter()
                .filter(|number| *number != NO_RECORD)
            {
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

    /// Gives a live record a name that [`NewName::new`] made, in place of the one it had.
    pub(crate) fn set_name(
        &self,
        memory: &dyn HostAllocator,
        number: u32,
        key: RegionSlot,
        new: NewName,
    ) -> Result<(), GpuError> {
        let NewName(detail) = new;
        let rest = {
            let mut state = self.state.lock();
            let place = match state.table.get_mut(number) {
                Some(RegionRecord::Root(root)) if root.is_named(key) => Some(&mut root.detail),
                Some(RegionRecord::Wrapped(wrapped)) if wrapped.key(number) == key => {
                    Some(&mut wrapped.detail)
                }
                Some(RegionRecord::Crop(crop)) if crop.key(number) == key => Some(&mut crop.detail),
                _ => None,
            };
            match place {
                Some(place) => Ok(core::mem::replace(place, detail)),
                None => Err(detail),
            }
        };
        let (left, result) = match rest {
            Ok(old) => (old, Ok(())),
            Err(new) => (new, Err(GpuMisuse::Stale.into())),
        };
        if let Some(left) = left {
            left.free(memory);
        }
        result
    }

    /// All memory back. Names, wrapped buffers and their backing go with it.
    pub(crate) fn free_all(&mut self, memory: &dyn HostAllocator) {
        self.free_all_wraps(memory);
        self.state.get_mut().free_all(memory);
    }
}

/// A name in the making, with tag and site.
#[must_use = "it holds memory: put it in, or free it"]
pub(crate) struct NewName(Option<RegionDetail>);

impl NewName {
    pub(crate) fn new(
        memory: &dyn HostAllocator,
        options: &RegionOptions<'_>,
    ) -> Result<Self, GpuError> {
        Ok(Self(RegionDetail::new(memory, options)?))
    }

    pub(crate) fn free(self, memory: &dyn HostAllocator) {
        if let Some(detail) = self.0 {
            detail.free(memory);
        }
    }
}

/// ReservedSlots that a call may put something in; `NO_RECORD` where it wanted fewer.
#[derive(Clone, Copy)]
struct ReservedSlots {
    first: u32,
    second: u32,
    /// A chunk may have been taken for them.
    fresh: bool,
}

impl MetadataState {
    fn reserve_slots(&mut self, count: u32) -> ReservedSlots {
        let first = if count > 0 {
            self.table.reserve()
        } else {
            None
        };
        let second = if count > 1 {
            self.table.reserve()
        } else {
            None
        };
        ReservedSlots {
            first: first.unwrap_or(NO_RECORD),
            second: second.unwrap_or(NO_RECORD),
            fresh: false,
        }
    }

    fn preallocate(&mut self, memory: &dyn HostAllocator, keep: u32) -> Result<(), GpuError> {
        if let Some(layout) = self.kinds.missing_capacity() {
            let block = HostBlock::allocate(memory, layout)?;
            let spare = self.kinds.array().grow_with(block);
            free_memory(memory, [spare]);
        }
        if keep > 0 {
            let layout = GrowableVec::<reuse_cache::ReusableBuffer>::layout(keep)
                .ok_or(HostError::TooLarge)?;
            let block = HostBlock::allocate(memory, layout)?;
            let spare = self.reuse_cache.array().grow_with(block);
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
        // SAFETY: taken with this layout and scope by `take`, from the one allocator of these records; nobody refers to it any more.
        unsafe { block.free(memory) };
    }
}
