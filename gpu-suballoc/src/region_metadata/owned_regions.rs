//! The allocator's own regions: from the record that waits for one to the record that is gone.

#![forbid(unsafe_code)]

use crate::id::{NO_RECORD, RegionSlot};
use crate::region::RegionContent;
use alloc_core::HostAllocator;

use super::detail::RegionDetail;
use super::record::{RegionRecord, RootRecord};
use super::resource_description::{ResourceDescription, ResourceDescriptions};
use super::root_state::{RemovalTime, RootState as Life};
use super::state::{MetadataState, RecordReservation};
use super::table::TableShortage;
use super::{RegionMetadata, ReservedSlots};
use crate::error::{GpuError, GpuMisuse};
use crate::request::RegionOptions;

/// A record in the making: everything that can fail has succeeded.
#[must_use = "it holds a slot: put it in, or hand it back"]
pub(crate) struct NewRoot {
    slots: ReservedSlots,
    detail: Option<RegionDetail>,
    kind: u16,
}

impl NewRoot {
    /// The record's.
    pub(crate) const fn number(&self) -> u32 {
        self.slots.first
    }
}

/// A root whose resource and memory are to be given back by the caller, who then says [`RegionMetadata::finish_removal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "its resource and its memory are to be given back"]
pub(crate) struct RemovedRoot {
    pub(crate) number: u32,
    pub(crate) key: RegionSlot,
    pub(crate) resource: u64,
    pub(crate) content: RegionContent,
    pub(crate) asked: u64,
    pub(super) kind: u16,
}

impl RemovedRoot {
    /// What its record said of it.
    pub(crate) const fn view(&self) -> RecordView {
        RecordView::Root {
            resource: self.resource,
            content: self.content,
            asked: self.asked,
        }
    }
}

/// What a record says of the region that an id names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RecordView {
    Root {
        resource: u64,
        content: RegionContent,
        asked: u64,
    },
    Wrapped(super::WrappedBuffer),
}

/// What the records say of a crop: a part of a root, from its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CropRecordView {
    /// The root's record.
    pub(crate) number: u32,
    pub(crate) root_key: RegionSlot,
    pub(crate) root: RecordView,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl RegionMetadata {
    /// A record for a region that will be placed: slot, name, and the kind of resource it was made as.
    pub(crate) fn prepare_root(
        &self,
        memory: &dyn HostAllocator,
        kind: Option<&ResourceDescription>,
        options: &RegionOptions<'_>,
    ) -> Result<NewRoot, GpuError> {
        let detail = RegionDetail::new(memory, options)?;
        match self.reserve(
            memory,
            &RecordReservation {
                slots: 1,
                kind: kind.copied(),
                ..RecordReservation::default()
            },
        ) {
            Ok(slots) => {
                let kind = kind.map_or(ResourceDescriptions::NONE, |kind| {
                    self.state.lock().kinds.insert(*kind)
                });
                Ok(NewRoot {
                    slots,
                    detail,
                    kind,
                })
            }
            Err(error) => {
                if let Some(detail) = detail {
                    detail.free(memory);
                }
                Err(error)
            }
        }
    }

    /// Undoes [`prepare_root`](RegionMetadata::prepare_root).
    pub(crate) fn cancel_root(&self, memory: &dyn HostAllocator, new: NewRoot) {
        self.unreserve(memory, new.slots);
        if let Some(detail) = new.detail {
            detail.free(memory);
        }
    }

    /// The region is placed, its resource bound: from here on it is somebody's.
    pub(crate) fn insert_root(
        &self,
        new: NewRoot,
        key: RegionSlot,
        resource: u64,
        content: RegionContent,
        asked: u64,
    ) {
        self.state
            .lock()
            .put_root(new.slots.first, key, |root| RootRecord {
                resource,
                content,
                asked,
                detail: new.detail,
                kind: new.kind,
                ..root
            });
    }

    /// A record for a region that may have none, which is the region's once its place says so.
    pub(crate) fn create_bare(
        &self,
        memory: &dyn HostAllocator,
        key: RegionSlot,
    ) -> Result<u32, GpuError> {
        let need = RecordReservation {
            slots: 1,
            ..RecordReservation::default()
        };
        {
            let mut state = self.state.lock();
            if state.table.missing_capacity(need.slots)? == TableShortage::default() {
                let number = state.reserve_slots(need.slots).first;
                state.put_root(number, key, |root| root);
                return Ok(number);
            }
        }
        let slots = self.reserve(memory, &need)?;
        self.insert_bare(slots.first, key);
        Ok(slots.first)
    }

    /// A record for a region that had none, in the slot that was prepared for it.
    pub(crate) fn insert_bare(&self, number: u32, key: RegionSlot) {
        self.state.lock().put_root(number, key, |root| root);
    }

    /// Takes back what [`insert_bare`](RegionMetadata::insert_bare) did, where somebody else was first.
    pub(crate) fn cancel_bare(&self, number: u32) {
        let mut state = self.state.lock();
        if let Some(RegionRecord::Root(_)) = state.table.get(number) {
            state.table.release(number, true);
        }
    }

    /// As [`insert_bare`](RegionMetadata::insert_bare), for a region whose place has no room for the number. Answers the number that counts:
    /// somebody may have been first.
    pub(crate) fn insert_indexed(&self, number: u32, key: RegionSlot) -> u32 {
        let mut state = self.state.lock();
        if let Some(first) = state.index.find(key, &state.table) {
            state.table.release(number, false);
            return first;
        }
        self.filter.add(key);
        state.put_root(number, key, |root| root);
        let MetadataState { table, index, .. } = &mut *state;
        index.insert(number, table);
        number
    }

    /// The record of a region whose place has no room for its number.
    pub(crate) fn find_indexed(&self, key: RegionSlot) -> Option<u32> {
        if !self.may_know(key) {
            return None;
        }
        let state = self.state.lock();
        state.index.find(key, &state.table)
    }

    /// What is known of a region that has a record and is no crop.
    pub(crate) fn view(&self, number: u32, key: RegionSlot) -> Result<RecordView, GpuMisuse> {
        self.view_with(number, key, || ()).map(|(seen, ())| seen)
    }

    /// The same, and what `place` reads within this lock, that of the pools: a move changes both in one step.
    pub(crate) fn view_with<T>(
        &self,
        number: u32,
        key: RegionSlot,
        place: impl FnOnce() -> T,
    ) -> Result<(RecordView, T), GpuMisuse> {
        let state = self.state.lock();
        let seen = match state.table.get(number) {
            Some(RegionRecord::Root(root)) if root.is_named(key) && root.state.is_live() => {
                Ok(root.view())
            }
            Some(RegionRecord::Wrapped(wrapped))
                if wrapped.key(number) == key && wrapped.state == Life::Live =>
            {
                Ok(RecordView::Wrapped(wrapped.buffer_info()))
            }
            _ => Err(GpuMisuse::Stale),
        }?;
        Ok((seen, place()))
    }

    /// What is known of a crop and of its root, in one look: after a second one the root's number might be another's.
    pub(crate) fn view_crop(
        &self,
        number: u32,
        key: RegionSlot,
    ) -> Result<CropRecordView, GpuMisuse> {
        self.view_crop_with(number, key, |_| ())
            .map(|(seen, ())| seen)
    }

    /// The same, and what `place` reads of the root within this lock.
    pub(crate) fn view_crop_with<T>(
        &self,
        number: u32,
        key: RegionSlot,
        place: impl FnOnce(RegionSlot) -> T,
    ) -> Result<(CropRecordView, T), GpuMisuse> {
        let state = self.state.lock();
        let Some(RegionRecord::Crop(crop)) = state.table.get(number) else {
            return Err(GpuMisuse::Stale);
        };
        if crop.key(number) != key || crop.is_pending_free {
            return Err(GpuMisuse::Stale);
        }
        let (root_key, root) = match state.table.get(crop.root) {
            Some(RegionRecord::Root(root)) => (root.key, root.view()),
            Some(RegionRecord::Wrapped(wrapped)) => (
                wrapped.key(crop.root),
                RecordView::Wrapped(wrapped.buffer_info()),
            ),
            _ => return Err(GpuMisuse::Stale),
        };
        let seen = CropRecordView {
            number: crop.root,
            root_key,
            root,
            offset: crop.offset,
            size: crop.size,
        };
        Ok((seen, place(root_key)))
    }

    /// Begins the end of a root: from here on nobody finds it. Refused while it has crops or mappings, unless it may `wait` for
    /// the last of them: `None` then, and also where it is being moved, which it goes with.
    pub(crate) fn begin_removal(
        &self,
        number: u32,
        key: RegionSlot,
        wait: bool,
    ) -> Result<Option<RemovedRoot>, GpuMisuse> {
        let mut state = self.state.lock();
        let MetadataState { table, counts, .. } = &mut *state;
        let Some(RegionRecord::Root(root)) = table.get_mut(number) else {
            return Err(GpuMisuse::Stale);
        };
        if !root.is_named(key) || !root.state.is_live() {
            return Err(GpuMisuse::Stale);
        }
        let is_used = root.is_used();
        if is_used && !wait {
            return Err(if root.crops > 0 {
                GpuMisuse::HasCrops
            } else {
                GpuMisuse::Mapped
            });
        }
        match root.state.begin_removal(is_used).ok_or(GpuMisuse::Stale)? {
            RemovalTime::Now => Ok(Some(root.removed(number))),
            RemovalTime::WithMove => Ok(None),
            RemovalTime::WhenUnused => {
                counts.pending_free += 1;
                Ok(None)
            }
        }
    }

    /// Resource and memory are given back: the end of the record.
    pub(crate) fn finish_removal(
        &self,
        memory: &dyn HostAllocator,
        gone: RemovedRoot,
        indexed: bool,
    ) {
        let detail = {
            let mut state = self.state.lock();
            let MetadataState { table, index, .. } = &mut *state;
            if indexed {
                index.remove(gone.key, table);
            }
            let detail = match table.get_mut(gone.number) {
                Some(RegionRecord::Root(root)) => root.detail.take(),
                _ => None,
            };
            table.release(gone.number, true);
            detail
        };
        if indexed {
            self.filter.remove(gone.key);
        }
        if let Some(detail) = detail {
            detail.free(memory);
        }
    }
}

impl MetadataState {
    fn put_root(
        &mut self,
        number: u32,
        key: RegionSlot,
        fill: impl FnOnce(RootRecord) -> RootRecord,
    ) {
        let Some(slot) = self.table.get_mut(number) else {
            return;
        };
        let root = RootRecord {
            resource: 0,
            asked: 0,
            detail: None,
            key,
            crops: 0,
            next: NO_RECORD,
            generation: slot.reserved_generation().unwrap_or(0),
            maps: 0,
            maps_by_id: 0,
            kind: ResourceDescriptions::NONE,
            content: RegionContent::Bare,
            state: Life::Live,
        };
        *slot = RegionRecord::Root(fill(root));
    }
}

impl RootRecord {
    pub(super) fn view(&self) -> RecordView {
        RecordView::Root {
            resource: self.resource,
            content: self.content,
            asked: self.asked,
        }
    }

    pub(super) fn removed(&self, number: u32) -> RemovedRoot {
        let Self {
            key,
            resource,
            content,
            asked,
            kind,
            ..
        } = *self;
        RemovedRoot {
            number,
            key,
            resource,
            content,
            asked,
            kind,
        }
    }
}
