#![forbid(unsafe_code)]

use super::detail::RegionDetail;
use super::record::{RecordKind, RecordView, RegionRecord, RootView};
use super::resource_description::{NO_DESCRIPTION, ResourceDescription};
use super::root_state::{RemovalTime, RootState};
use super::{Leftovers, MetadataState, RegionMetadata};
use crate::device::ResourceHandle;
use crate::error::{GpuError, GpuMisuse, Limit};
use crate::host_memory::lock_filled;
use crate::id::{RegionKey, RegionPlace};
#[cfg(feature = "cache")]
use crate::region::Ownership;
use crate::request::RegionOptions;
use alloc_core::HostAllocator;

#[must_use = "it holds a slot: insert or cancel it"]
pub(crate) struct NewRegion {
    pub(crate) slot: u32,
    description: u16,
    detail: Option<RegionDetail>,
}

/// The caller frees its resource and its memory, then calls [`RegionMetadata::finish_removal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "its resource and its memory must be freed"]
pub(crate) struct RemovedRoot {
    pub(crate) place: RegionPlace,
    pub(crate) view: RootView,
    pub(super) description: u16,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundRegion {
    pub(crate) root_key: RegionKey,
    pub(crate) root: RecordView,
    pub(crate) crop: Option<(u64, u64)>,
}

impl RegionMetadata {
    pub(crate) fn prepare(
        &self,
        memory: &dyn HostAllocator,
        description: Option<&ResourceDescription>,
        options: &RegionOptions<'_>,
    ) -> Result<NewRegion, GpuError> {
        let detail = RegionDetail::new(memory, options)?;
        let reserved = (lock_filled(&self.state, memory).map_err(GpuError::Host)).and_then(|mut state| {
            let slot = state.table.reserve().ok_or(Limit::Records)?;
            let description = description.map(|it| state.kinds.insert(*it));
            Ok((slot, description.unwrap_or(NO_DESCRIPTION)))
        });
        match reserved {
            Ok((slot, description)) => Ok(NewRegion { slot, description, detail }),
            Err(error) => {
                RegionDetail::free(detail, memory);
                Err(error)
            }
        }
    }

    pub(crate) fn cancel(&self, memory: &dyn HostAllocator, new: NewRegion) {
        self.state.lock().table.release(new.slot, false);
        RegionDetail::free(new.detail, memory);
    }

    pub(crate) fn insert_root(&self, new: NewRegion, at: RegionPlace, view: RootView) -> RegionKey {
        let slot = new.slot;
        let mut root = RegionRecord {
            size: view.asked,
            block: at.block,
            link: at.node,
            detail: new.detail,
            description: new.description,
            ..RegionRecord::NEW
        };
        root.set_resource(view.resource);
        let filled = self.state.lock().table.fill(slot, root);
        filled.unwrap_or(RegionKey { slot, generation: 0 })
    }

    /// `read` runs within the lock: a move changes place and resource in one step.
    pub(crate) fn look_up<T>(
        &self,
        key: RegionKey,
        read: impl FnOnce(RegionPlace) -> T,
    ) -> Result<(FoundRegion, Option<T>), GpuMisuse> {
        let mut state = self.state.lock();
        let record = state.table.live(key)?;
        let (slot, offset) = record.root(key.slot);
        let found = FoundRegion {
            crop: (record.kind == RecordKind::Crop).then_some((offset, record.size)),
            root_key: state.table.get(slot).ok_or(GpuMisuse::Stale)?.key(slot),
            root: state.view(slot).ok_or(GpuMisuse::Stale)?,
        };
        let read = match found.root {
            RecordView::Root(_, place) => Some(read(place)),
            RecordView::Wrapped(_) => None,
        };
        Ok((found, read))
    }

    pub(crate) fn place_of(&self, key: RegionKey) -> Option<RegionPlace> {
        let mut state = self.state.lock();
        let root = state.table.root_mut(key)?;
        Some(root.place(key.slot))
    }

    /// A region in use is refused, unless it may `wait` for its last use; so is an own region whose place `check`
    /// refuses, within the lock.
    pub(crate) fn begin_removal(
        &self,
        key: RegionKey,
        wait: bool,
        check: impl FnOnce(RegionPlace) -> Result<(), GpuMisuse>,
    ) -> Result<Leftovers, GpuMisuse> {
        let mut state = self.state.lock();
        let record = state.table.named_mut(key)?;
        if record.is_root() && record.state.is_live() {
            check(record.place(key.slot))?;
        }
        let time = record.begin_removal(wait)?;
        state.counts.pending_free += u64::from(time == RemovalTime::WhenUnused);
        Ok(match time {
            RemovalTime::Now => state.remove(key.slot),
            RemovalTime::WithMove | RemovalTime::WhenUnused => Leftovers::default(),
        })
    }

    pub(crate) fn finish_removal(&self, memory: &dyn HostAllocator, gone: RemovedRoot) {
        let slot = gone.place.slot;
        let mut state = self.state.lock();
        let record = state.table.get_mut(slot);
        let detail = record.and_then(|record| record.detail.take());
        state.table.release(slot, true);
        drop(state);
        RegionDetail::free(detail, memory);
    }

    /// One that a call was destroying when it unwound is left out.
    pub(crate) fn detach_resource(&self, slot: &mut u32) -> Option<ResourceHandle> {
        let mut state = self.state.lock();
        while let Some(record) = state.table.get_mut(*slot) {
            *slot += 1;
            if record.state != RootState::BeingRemoved
                && let Some(resource) = record.resource()
            {
                record.set_resource(None);
                return Some(resource);
            }
        }
        None
    }

    #[cfg(feature = "cache")]
    pub(crate) fn live_regions(&self, from: &mut u32, room: &mut [Option<(RegionKey, Ownership)>]) {
        let state = self.state.lock();
        let mut room = room.iter_mut();
        while let Some(record) = state.table.get(*from)
            && room.len() > 0
        {
            let ownership = match record.kind {
                RecordKind::Wrapped => Ownership::Wrapped,
                RecordKind::Crop => Ownership::CropAlias,
                _ => Ownership::Owned,
            };
            if record.is_region()
                && record.state.is_live()
                && let Some(place) = room.next()
            {
                *place = Some((record.key(*from), ownership));
            }
            *from += 1;
        }
    }
}

impl MetadataState {
    pub(super) fn view(&self, slot: u32) -> Option<RecordView> {
        let record = self.table.get(slot)?;
        match record.kind {
            _ if record.is_root() => Some(RecordView::Root(record.view(), record.place(slot))),
            RecordKind::Wrapped => (self.wraps.get(record.link)).map(|it| RecordView::Wrapped(*it)),
            _ => None,
        }
    }
}

impl RegionRecord {
    pub(super) fn removed(&self, slot: u32) -> RemovedRoot {
        RemovedRoot { place: self.place(slot), view: self.view(), description: self.description }
    }
}
