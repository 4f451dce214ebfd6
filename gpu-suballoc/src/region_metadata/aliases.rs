//! Crops and mappings: the users of a region beside its owner, and what is freed with the last of them.

#![forbid(unsafe_code)]

use super::record::{CropRecord, RegionRecord};
use super::root_state::RemovalTime;
use super::state::{MetadataState, RecordReservation};
use super::{Leftovers, RecordView, RegionMetadata, ReservedSlots};
use crate::error::{GpuError, GpuMisuse, Limit};
use crate::id::{RegionPlace, RegionSlot};
use alloc_core::HostAllocator;

impl RegionMetadata {
    /// Reserves slots for a crop or a mapping, and for its `root` if that has no record yet. A refusal leaves nothing behind.
    pub(crate) fn prepare_alias(
        &self,
        memory: &dyn HostAllocator,
        crop: bool,
        root: bool,
    ) -> Result<ReservedSlots, GpuError> {
        let need = RecordReservation {
            record: crop,
            root,
            kind: None,
        };
        self.reserve(memory, &need)
    }

    /// Counts a crop of a root and fills its slot in one step. Returns its name. A root that is freed with its last crop can be cropped
    /// through another `crop` only, since its own id is stale.
    pub(crate) fn insert_crop(
        &self,
        number: u32,
        root: u32,
        key: RegionSlot,
        crop: bool,
        offset: u64,
        size: u64,
    ) -> Result<RegionSlot, GpuError> {
        let mut state = self.state.lock();
        let of = state.table.named_mut(root, key)?;
        if !(of.state.is_live() || crop && of.state.is_pending_free()) {
            return Err(GpuMisuse::Stale.into());
        }
        of.state.note_use();
        of.crops = of.crops.checked_add(1).ok_or(Limit::Aliases)?;
        let filled = state.table.fill(number, |header| {
            RegionRecord::Crop(CropRecord {
                offset,
                size,
                root,
                header,
            })
        });
        let generation = filled.ok_or(GpuMisuse::Stale)?;
        state.counts.crops += 1;
        Ok(RegionSlot {
            place: RegionPlace::CROP,
            slot: number,
            generation,
        })
    }

    /// Ends a crop or a wrapped buffer. A region in use is refused, unless its end may `wait` for its last use.
    pub(crate) fn end_alias(&self, key: RegionSlot, wait: bool) -> Result<Leftovers, GpuMisuse> {
        let mut state = self.state.lock();
        match state.begin_removal(key.slot, key, wait)? {
            RemovalTime::Now => Ok(state.remove_alias(key.slot)),
            RemovalTime::WhenUnused | RemovalTime::WithMove => Ok(Leftovers::default()),
        }
    }

    /// Counts a mapping of a region that has a record.
    pub(crate) fn count_map(&self, number: u32, key: RegionSlot) -> Result<(), GpuError> {
        let mut state = self.state.lock();
        let header = state.table.named_mut(number, key)?;
        if !header.state.is_live() {
            return Err(GpuMisuse::Stale.into());
        }
        header.state.note_use();
        header.maps = header.maps.checked_add(1).ok_or(Limit::Aliases)?;
        if let Some(&RegionRecord::Crop(CropRecord { root, .. })) = state.table.get(number)
            && let Some(RegionRecord::Root(root)) = state.table.get_mut(root)
        {
            root.header.state.note_use();
        }
        Ok(())
    }

    /// Whether a mapping is counted.
    pub(crate) fn is_mapped(&self, number: u32, key: RegionSlot) -> Result<bool, GpuMisuse> {
        Ok(self.state.lock().table.named_mut(number, key)?.maps > 0)
    }

    /// A counted mapping is undone by id from now on: no value stands for it.
    pub(crate) fn mark_mapped_by_id(&self, number: u32, key: RegionSlot) {
        if let Ok(header) = self.state.lock().table.named_mut(number, key) {
            // It is one of `maps`, which has as many bits.
            header.maps_by_id = header.maps_by_id.saturating_add(1);
        }
    }

    /// Counts a mapping off, and holds the root as a crop would until [`end_unmap`](RegionMetadata::end_unmap), so that the root lives while
    /// it is unmapped. Returns the root, and what is left of a crop that waited for this. `by_id` undoes only mappings that were
    /// [marked](RegionMetadata::mark_mapped_by_id): the others belong to values, whose pointers are good until they are dropped.
    pub(crate) fn begin_unmap(
        &self,
        number: u32,
        key: RegionSlot,
        by_id: bool,
    ) -> Result<(u32, RegionSlot, RecordView, Leftovers), GpuMisuse> {
        let mut state = self.state.lock();
        state.table.named_mut(number, key)?.remove_map(by_id)?;
        let root = match state.table.get(number) {
            Some(RegionRecord::Crop(crop)) => crop.root,
            _ => number,
        };
        let record = state.table.get_mut(root).ok_or(GpuMisuse::Stale)?;
        let root_key = record.key(root).ok_or(GpuMisuse::Stale)?;
        let view = record.view().ok_or(GpuMisuse::Stale)?;
        if let Some(header) = record.header_mut() {
            header.state.note_use();
            header.crops = header.crops.saturating_add(1);
        }
        Ok((root, root_key, view, state.remove_if_unused(number)))
    }

    /// Releases the root of [`begin_unmap`](RegionMetadata::begin_unmap).
    pub(crate) fn end_unmap(&self, root: u32) -> Leftovers {
        self.state.lock().release_root(root)
    }

    /// Counts off a mapping that failed. A region that waited for its last use is removed.
    pub(crate) fn end_map(&self, number: u32, key: RegionSlot) -> Result<Leftovers, GpuMisuse> {
        let mut state = self.state.lock();
        state.table.named_mut(number, key)?.remove_map(false)?;
        Ok(state.remove_if_unused(number))
    }
}

impl MetadataState {
    /// Begins the removal of a region. A region in use is refused, unless its removal may `wait` for its last use.
    pub(super) fn begin_removal(
        &mut self,
        number: u32,
        key: RegionSlot,
        wait: bool,
    ) -> Result<RemovalTime, GpuMisuse> {
        let time = self.table.named_mut(number, key)?.begin_removal(wait)?;
        self.counts.pending_free += u64::from(time == RemovalTime::WhenUnused);
        Ok(time)
    }

    /// Removes the record of a crop or of a wrapped buffer, and a root that waited for the end of the crop.
    pub(super) fn remove_alias(&mut self, number: u32) -> Leftovers {
        let Some(RegionRecord::Crop(crop)) = self.table.get_mut(number) else {
            return self.remove_wrapped(number);
        };
        let (root, detail) = (crop.root, crop.header.detail.take());
        self.counts.crops -= 1;
        self.table.release(number, true);
        let rest = self.release_root(root);
        let [first, _] = rest.details;
        Leftovers {
            details: [first, detail],
            ..rest
        }
    }

    /// Counts a crop of a root off. A root that waited for its last use is removed.
    fn release_root(&mut self, root: u32) -> Leftovers {
        if let Some(header) = self.table.get_mut(root).and_then(RegionRecord::header_mut) {
            header.crops = header.crops.saturating_sub(1);
        }
        self.remove_if_unused(root)
    }

    /// Removes a region that waits for its last use, if nothing uses it any more.
    fn remove_if_unused(&mut self, number: u32) -> Leftovers {
        let Some(record) = self.table.get_mut(number) else {
            return Leftovers::default();
        };
        if (record.header()).is_none_or(|it| it.is_used() || !it.state.is_pending_free()) {
            return Leftovers::default();
        }
        self.counts.pending_free -= 1;
        let RegionRecord::Root(root) = record else {
            return self.remove_alias(number);
        };
        // If the device is copying it, the end of the move frees it.
        let is_now = root.header.state.end_last_use() == RemovalTime::Now;
        Leftovers {
            root: is_now.then(|| root.removed(number)),
            ..Leftovers::default()
        }
    }
}
