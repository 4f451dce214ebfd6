//! The records of the allocator's own regions.

#![forbid(unsafe_code)]

use super::detail::RegionDetail;
use super::record::{RecordHeader, RecordView, RegionRecord, RootRecord, RootView};
use super::resource_description::{ResourceDescription, ResourceDescriptions};
use super::root_state::{RemovalTime, RootState};
use super::state::{MetadataState, RecordReservation};
use super::table::TableShortage;
use super::{RegionMetadata, ReservedSlots};
use crate::error::{GpuError, GpuMisuse};
use crate::id::RegionSlot;
use crate::request::RegionOptions;
use alloc_core::HostAllocator;

/// A reserved record with everything that can fail.
#[must_use = "it holds a slot: insert or cancel it"]
pub(crate) struct NewRoot {
    slots: ReservedSlots,
    detail: Option<RegionDetail>,
    kind: u16,
}

impl NewRoot {
    /// The record's number.
    pub(crate) const fn number(&self) -> u32 {
        self.slots.record
    }
}

/// A root whose resource and memory the caller frees; then it calls [`RegionMetadata::finish_removal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "its resource and its memory must be freed"]
pub(crate) struct RemovedRoot {
    pub(crate) number: u32,
    pub(crate) key: RegionSlot,
    pub(crate) view: RootView,
    pub(super) kind: u16,
}

/// A crop and its root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CropRecordView {
    /// The root's record.
    pub(crate) number: u32,
    pub(crate) root_key: RegionSlot,
    pub(crate) root: RecordView,
    /// From the start of the root.
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// The need of a call for one record.
pub(super) const ONE: RecordReservation = RecordReservation {
    record: true,
    root: false,
    kind: None,
};

impl RegionMetadata {
    /// Prepares the record of a region that will be placed: slot, name, and the description of its resource.
    pub(crate) fn prepare_root(
        &self,
        memory: &dyn HostAllocator,
        kind: Option<&ResourceDescription>,
        options: &RegionOptions<'_>,
    ) -> Result<NewRoot, GpuError> {
        let detail = RegionDetail::new(memory, options)?;
        let kind = kind.copied();
        match self.reserve(memory, &RecordReservation { kind, ..ONE }) {
            Ok(slots) => Ok(NewRoot {
                slots,
                detail,
                kind: kind.map_or(ResourceDescriptions::NONE, |kind| {
                    self.state.lock().kinds.insert(kind)
                }),
            }),
            Err(error) => {
                RegionDetail::free(detail, memory);
                Err(error)
            }
        }
    }

    /// Undoes [`prepare_root`](RegionMetadata::prepare_root).
    pub(crate) fn cancel_root(&self, memory: &dyn HostAllocator, new: NewRoot) {
        self.unreserve(memory, new.slots);
        RegionDetail::free(new.detail, memory);
    }

    /// Inserts the record of a region that is placed, and whose resource is bound.
    pub(crate) fn insert_root(&self, new: NewRoot, key: RegionSlot, view: RootView) {
        let NewRoot {
            slots,
            detail,
            kind,
        } = new;
        self.state
            .lock()
            .put_root(slots.record, |header| RootRecord {
                resource: view.resource,
                asked: view.asked,
                ..RootRecord::new(
                    key,
                    RecordHeader {
                        detail,
                        kind,
                        content: view.content,
                        ..header
                    },
                )
            });
    }

    /// Creates a record for a region that may have none; it is the region's record once the region's place has its number.
    pub(crate) fn create_bare(
        &self,
        memory: &dyn HostAllocator,
        key: RegionSlot,
    ) -> Result<u32, GpuError> {
        {
            let mut state = self.state.lock();
            if state.table.missing_capacity(1)? == TableShortage::default() {
                let number = state.reserve_slots(&ONE).record;
                state.put_bare(number, key);
                return Ok(number);
            }
        }
        let number = self.reserve(memory, &ONE)?.record;
        self.insert_bare(number, key);
        Ok(number)
    }

    /// Inserts the record of a region that had none.
    pub(crate) fn insert_bare(&self, number: u32, key: RegionSlot) {
        self.state.lock().put_bare(number, key);
    }

    /// Undoes [`insert_bare`](RegionMetadata::insert_bare), if another thread inserted a record first.
    pub(crate) fn cancel_bare(&self, number: u32) {
        let mut state = self.state.lock();
        if let Some(RegionRecord::Root(_)) = state.table.get(number) {
            state.table.release(number, true);
        }
    }

    /// The region of a record that is no crop.
    pub(crate) fn view(&self, number: u32, key: RegionSlot) -> Result<RecordView, GpuMisuse> {
        self.view_with(number, key, || ()).map(|(view, ())| view)
    }

    /// As [`view`](Self::view), with what `place` reads of the pools within this lock: a move changes both in one step.
    pub(crate) fn view_with<T>(
        &self,
        number: u32,
        key: RegionSlot,
        place: impl FnOnce() -> T,
    ) -> Result<(RecordView, T), GpuMisuse> {
        let state = self.state.lock();
        let record = state.table.named(number, key)?;
        let is_live = (record.header()).is_some_and(|header| header.state.is_live());
        let view = record.view().filter(|_| is_live).ok_or(GpuMisuse::Stale)?;
        Ok((view, place()))
    }

    /// A crop and its root, read within one lock: later the root's number may be another root's.
    pub(crate) fn view_crop(
        &self,
        number: u32,
        key: RegionSlot,
    ) -> Result<CropRecordView, GpuMisuse> {
        self.view_crop_with(number, key, |_| ())
            .map(|(view, ())| view)
    }

    /// As [`view_crop`](Self::view_crop), with what `place` reads of the root within this lock.
    pub(crate) fn view_crop_with<T>(
        &self,
        number: u32,
        key: RegionSlot,
        place: impl FnOnce(RegionSlot) -> T,
    ) -> Result<(CropRecordView, T), GpuMisuse> {
        let state = self.state.lock();
        let crop = match state.table.named(number, key)? {
            RegionRecord::Crop(crop) if crop.header.state.is_live() => crop,
            _ => return Err(GpuMisuse::Stale),
        };
        let root = state.table.get(crop.root).ok_or(GpuMisuse::Stale)?;
        let root_key = root.key(crop.root).ok_or(GpuMisuse::Stale)?;
        let view = CropRecordView {
            number: crop.root,
            root_key,
            root: root.view().ok_or(GpuMisuse::Stale)?,
            offset: crop.offset,
            size: crop.size,
        };
        Ok((view, place(root_key)))
    }

    /// Begins the removal of a root, whose id is stale from now on. A root in use is refused, unless its removal may `wait` for its last
    /// use. `None` if it waits for that, or for the end of a move.
    pub(crate) fn begin_removal(
        &self,
        number: u32,
        key: RegionSlot,
        wait: bool,
    ) -> Result<Option<RemovedRoot>, GpuMisuse> {
        let mut state = self.state.lock();
        match state.begin_removal(number, key, wait)? {
            RemovalTime::Now => Ok(state.removed_root(number, key)),
            RemovalTime::WithMove | RemovalTime::WhenUnused => Ok(None),
        }
    }

    /// Frees the record of a root whose resource and memory were freed.
    pub(crate) fn finish_removal(&self, memory: &dyn HostAllocator, gone: RemovedRoot) {
        let detail = {
            let mut state = self.state.lock();
            let table = &mut state.table;
            let header = table
                .get_mut(gone.number)
                .and_then(RegionRecord::header_mut);
            let detail = header.and_then(|header| header.detail.take());
            table.release(gone.number, true);
            detail
        };
        RegionDetail::free(detail, memory);
    }
}

impl MetadataState {
    fn put_root(&mut self, number: u32, root: impl FnOnce(RecordHeader) -> RootRecord) {
        self.table
            .fill(number, |header| RegionRecord::Root(root(header)));
    }

    fn put_bare(&mut self, number: u32, key: RegionSlot) {
        self.put_root(number, |header| RootRecord::new(key, header));
    }

    /// The root whose removal was begun, for the caller to free.
    pub(super) fn removed_root(&self, number: u32, key: RegionSlot) -> Option<RemovedRoot> {
        let root = self.table.root(number, key)?;
        (root.header.state == RootState::BeingRemoved).then(|| root.removed(number))
    }
}

impl RootRecord {
    pub(super) const fn removed(&self, number: u32) -> RemovedRoot {
        RemovedRoot {
            number,
            key: self.key,
            view: self.view(),
            kind: self.header.kind,
        }
    }
}
