//! The allocator's own regions: their slots, from the request to the end; and lookups of all regions.

#![forbid(unsafe_code)]

use super::MetadataState;
use super::detail::RegionDetail;
use super::record::{RecordHeader, RecordView, RegionRecord, RootRecord, RootView};
use super::resource_description::ResourceDescription;
use super::root_state::{RemovalTime, RootState};
use super::{Leftovers, RegionMetadata, ReservedSlot};
use crate::error::{GpuError, GpuMisuse};
use crate::id::{RegionKey, RegionPlace};
#[cfg(feature = "cache")]
use crate::region::Ownership;
use crate::region::RegionContent;
use crate::request::RegionOptions;
use alloc_core::HostAllocator;

/// A reserved slot with everything that can fail.
#[must_use = "it holds a slot: insert or cancel it"]
pub(crate) struct NewRoot {
    slot: ReservedSlot,
    detail: Option<RegionDetail>,
}

impl NewRoot {
    /// The slot's number.
    pub(crate) const fn number(&self) -> u32 {
        self.slot.number
    }
}

/// A root whose resource and memory the caller frees; then it calls [`RegionMetadata::finish_removal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "its resource and its memory must be freed"]
pub(crate) struct RemovedRoot {
    pub(crate) place: RegionPlace,
    pub(crate) view: RootView,
    pub(super) kind: u16,
}

/// A region, as its slot says: the root, and which part of it the region is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundRegion {
    pub(crate) root_key: RegionKey,
    pub(crate) root: RecordView,
    /// Offset and size of a crop.
    pub(crate) crop: Option<(u64, u64)>,
}

impl RegionMetadata {
    /// Prepares the slot of a region that will be placed: name, and the description of its resource.
    pub(crate) fn prepare_root(
        &self,
        memory: &dyn HostAllocator,
        kind: Option<&ResourceDescription>,
        options: &RegionOptions<'_>,
    ) -> Result<NewRoot, GpuError> {
        let detail = RegionDetail::new(memory, options)?;
        match self.reserve(memory, kind) {
            Ok(slot) => Ok(NewRoot { slot, detail }),
            Err(error) => {
                RegionDetail::free(detail, memory);
                Err(error)
            }
        }
    }

    /// Undoes [`prepare_root`](RegionMetadata::prepare_root).
    pub(crate) fn cancel_root(&self, memory: &dyn HostAllocator, new: NewRoot) {
        self.unreserve(new.slot);
        RegionDetail::free(new.detail, memory);
    }

    /// Fills the slot of a region that is placed, and whose resource is bound. Returns its name.
    pub(crate) fn insert_root(&self, new: NewRoot, at: RegionPlace, view: RootView) -> RegionKey {
        let NewRoot { slot, detail } = new;
        let fill = |header| {
            RegionRecord::Root(RootRecord {
                resource: view.resource,
                asked: view.asked,
                block: at.block,
                node: at.node,
                header: RecordHeader {
                    detail,
                    kind: slot.kind,
                    content: view.content,
                    ..header
                },
            })
        };
        let filled = self.state.lock().table.fill(slot.number, fill);
        filled.unwrap_or(RegionKey {
            slot: slot.number,
            generation: 0,
        })
    }

    /// Looks up a region, and calls `read` with the place of its root, if that is the allocator's, within the same lock: a move changes place
    /// and resource in one step.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`].
    pub(crate) fn look_up<T>(
        &self,
        key: RegionKey,
        read: impl FnOnce(RegionPlace) -> T,
    ) -> Result<(FoundRegion, Option<T>), GpuMisuse> {
        let state = self.state.lock();
        let record = state.table.named(key)?;
        if !(record.header()).is_some_and(|header| header.state.is_live()) {
            return Err(GpuMisuse::Stale);
        }
        let (slot, crop) = match record {
            RegionRecord::Crop(crop) => (crop.root(), Some((crop.offset, crop.size))),
            _ => (key.slot, None),
        };
        let root = state.table.get(slot).ok_or(GpuMisuse::Stale)?;
        let found = FoundRegion {
            root_key: root.key(slot),
            root: root.view(slot).ok_or(GpuMisuse::Stale)?,
            crop,
        };
        let read = match found.root {
            RecordView::Root(_, place) => Some(read(place)),
            RecordView::Wrapped(_) => None,
        };
        Ok((found, read))
    }

    /// The place of a root of the allocator's own, whatever its state.
    pub(crate) fn place_of(&self, key: RegionKey) -> Option<RegionPlace> {
        let mut state = self.state.lock();
        let root = state.table.root_mut(key)?;
        Some(root.place(key.slot))
    }

    /// Ends a region, whose id is stale from then on. A region in use is refused, unless its end may `wait` for its last use; so is what
    /// `check` refuses, which gets the place of an own region within the lock. Nothing is left of what waits for its last use or for the
    /// end of a move.
    pub(crate) fn begin_removal(
        &self,
        key: RegionKey,
        wait: bool,
        check: impl FnOnce(RegionPlace) -> Result<(), GpuMisuse>,
    ) -> Result<Leftovers, GpuMisuse> {
        let mut state = self.state.lock();
        if let RegionRecord::Root(root) = state.table.named(key)?
            && root.header.state.is_live()
        {
            check(root.place(key.slot))?;
        }
        let time = state.table.record_mut(key)?.begin_removal(wait)?;
        state.counts.pending_free += u64::from(time == RemovalTime::WhenUnused);
        Ok(match time {
            RemovalTime::Now => state.remove(key.slot),
            RemovalTime::WithMove | RemovalTime::WhenUnused => Leftovers::default(),
        })
    }

    /// Frees the slot of a root whose resource and memory were freed.
    pub(crate) fn finish_removal(&self, memory: &dyn HostAllocator, gone: RemovedRoot) {
        let slot = gone.place.slot;
        let mut state = self.state.lock();
        let header = state.table.get_mut(slot).and_then(RegionRecord::header_mut);
        let detail = header.and_then(|header| header.detail.take());
        state.table.release(slot, true);
        drop(state);
        RegionDetail::free(detail, memory);
    }

    /// The next buffer or image of the allocator's own, from `slot` on, which is advanced. The record forgets it: the caller destroys it, as the
    /// allocator ends. One that a call was destroying when it unwound is left out.
    pub(crate) fn detach_resource(&self, slot: &mut u32) -> Option<(RegionContent, u64)> {
        let mut state = self.state.lock();
        while let Some(record) = state.table.get_mut(*slot) {
            *slot += 1;
            if let RegionRecord::Root(root) = record
                && root.header.state != RootState::BeingRemoved
                && root.resource != 0
            {
                return Some((root.header.content, core::mem::take(&mut root.resource)));
            }
        }
        None
    }

    /// Fills `room` with the live regions from the slot `from` on, which is advanced.
    #[cfg(feature = "cache")]
    pub(crate) fn live_regions(&self, from: &mut u32, room: &mut [Option<(RegionKey, Ownership)>]) {
        let state = self.state.lock();
        let mut room = room.iter_mut();
        while let Some(record) = state.table.get(*from)
            && room.len() > 0
        {
            let ownership = match record {
                RegionRecord::Wrapped(_) => Ownership::Wrapped,
                RegionRecord::Crop(_) => Ownership::CropAlias,
                _ => Ownership::Owned,
            };
            if (record.header()).is_some_and(|header| header.state.is_live())
                && let Some(place) = room.next()
            {
                *place = Some((record.key(*from), ownership));
            }
            *from += 1;
        }
    }
}

impl MetadataState {
    /// The root in a slot whose removal was begun, for the caller to free.
    pub(super) fn removed_root(&self, slot: u32) -> Option<RemovedRoot> {
        let root = self.table.root(slot)?;
        (root.header.state == RootState::BeingRemoved).then(|| root.removed(slot))
    }
}

impl RootRecord {
    pub(super) const fn removed(&self, slot: u32) -> RemovedRoot {
        RemovedRoot {
            place: self.place(slot),
            view: self.view(),
            kind: self.header.kind,
        }
    }
}
