//! Crops and mappings: the users of a region beside its owner, and what is freed with the last of them.

#![forbid(unsafe_code)]

use super::MetadataState;
use super::record::{CropRecord, RegionRecord};
use super::root_state::RemovalTime;
use super::{Leftovers, RecordView, RegionMetadata, ReservedSlot};
use crate::error::{GpuError, GpuMisuse, Limit};
use crate::id::{RegionKey, RegionPlace};

impl RegionMetadata {
    /// Counts a crop of `size` bytes from `offset` of a region, at its root, and fills the slot in one step. Returns its name. A root that is
    /// freed with its last crop can be cropped through another crop only, since its own id is stale.
    pub(crate) fn insert_crop(
        &self,
        slot: ReservedSlot,
        of: RegionKey,
        (offset, size): (u64, u64),
    ) -> Result<RegionKey, GpuError> {
        let mut state = self.state.lock();
        let (root, base) = match state.table.named(of)? {
            RegionRecord::Crop(crop) if crop.header.state.is_live() => (crop.root(), crop.offset),
            RegionRecord::Crop(_) => return Err(GpuMisuse::Stale.into()),
            _ => (of.slot, 0),
        };
        let header = state
            .table
            .get_mut(root)
            .and_then(RegionRecord::header_mut)
            .ok_or(GpuMisuse::Stale)?;
        if !(header.state.is_live() || root != of.slot && header.state.is_pending_free()) {
            return Err(GpuMisuse::Stale.into());
        }
        header.state.note_use();
        header.crops = header.crops.checked_add(1).ok_or(Limit::Aliases)?;
        state.counts.crops += 1;
        let filled = state.table.fill(slot.number, |header| {
            RegionRecord::Crop(CropRecord::new(root, (base + offset, size), header))
        });
        filled.ok_or_else(|| GpuMisuse::Stale.into())
    }

    /// Counts a mapping of a region.
    pub(crate) fn count_map(&self, key: RegionKey) -> Result<(), GpuError> {
        let mut state = self.state.lock();
        let header = state.table.named_mut(key)?;
        if !header.state.is_live() {
            return Err(GpuMisuse::Stale.into());
        }
        header.state.note_use();
        header.maps = header.maps.checked_add(1).ok_or(Limit::Aliases)?;
        if let Some(RegionRecord::Crop(crop)) = state.table.get(key.slot)
            && let root = crop.root()
            && let Some(RegionRecord::Root(root)) = state.table.get_mut(root)
        {
            root.header.state.note_use();
        }
        Ok(())
    }

    /// Whether a mapping is counted.
    pub(crate) fn is_mapped(&self, key: RegionKey) -> Result<bool, GpuMisuse> {
        Ok(self.state.lock().table.named_mut(key)?.maps > 0)
    }

    /// The place of the own root of a region whose mapping was counted: it does not move any more.
    pub(crate) fn mapped_place(&self, key: RegionKey) -> Result<RegionPlace, GpuMisuse> {
        let state = self.state.lock();
        let slot = match state.table.named(key)? {
            RegionRecord::Crop(crop) => crop.root(),
            _ => key.slot,
        };
        let root = state.table.root(slot).ok_or(GpuMisuse::Stale)?;
        Ok(root.place(slot))
    }

    /// A counted mapping is undone by id from now on: no value stands for it.
    pub(crate) fn mark_mapped_by_id(&self, key: RegionKey) {
        if let Ok(header) = self.state.lock().table.named_mut(key) {
            // It is one of `maps`, which has as many bits.
            header.maps_by_id = header.maps_by_id.saturating_add(1);
        }
    }

    /// Counts a mapping off, and holds the root as a crop would until [`end_unmap`](RegionMetadata::end_unmap), so that the root lives while
    /// it is unmapped. Returns the root, and what is left of a crop that waited for this. `by_id` undoes only mappings that were
    /// [marked](RegionMetadata::mark_mapped_by_id): the others belong to values, whose pointers are good until they are dropped.
    pub(crate) fn begin_unmap(
        &self,
        key: RegionKey,
        by_id: bool,
    ) -> Result<(u32, RecordView, Leftovers), GpuMisuse> {
        let mut state = self.state.lock();
        state.table.named_mut(key)?.remove_map(by_id)?;
        let root = match state.table.get(key.slot) {
            Some(RegionRecord::Crop(crop)) => crop.root(),
            _ => key.slot,
        };
        let record = state.table.get_mut(root).ok_or(GpuMisuse::Stale)?;
        let view = record.view(root).ok_or(GpuMisuse::Stale)?;
        if let Some(header) = record.header_mut() {
            header.state.note_use();
            header.crops = header.crops.saturating_add(1);
        }
        Ok((root, view, state.remove_if_unused(key.slot)))
    }

    /// Releases the root of [`begin_unmap`](RegionMetadata::begin_unmap).
    pub(crate) fn end_unmap(&self, root: u32) -> Leftovers {
        self.state.lock().release_root(root)
    }

    /// Counts off a mapping that failed. A region that waited for its last use is removed.
    pub(crate) fn end_map(&self, key: RegionKey) -> Result<Leftovers, GpuMisuse> {
        let mut state = self.state.lock();
        state.table.named_mut(key)?.remove_map(false)?;
        Ok(state.remove_if_unused(key.slot))
    }
}

impl MetadataState {
    /// Removes a region whose removal was begun. Of a root the caller frees resource and memory; with a crop a root goes that waited for
    /// the crop's end.
    pub(super) fn remove(&mut self, slot: u32) -> Leftovers {
        let crop = match self.table.get_mut(slot) {
            Some(RegionRecord::Crop(crop)) => crop,
            Some(RegionRecord::Root(root)) => {
                return Leftovers {
                    root: Some(root.removed(slot)),
                    ..Leftovers::default()
                };
            }
            _ => return self.remove_wrapped(slot),
        };
        let (root, detail) = (crop.root(), crop.header.detail.take());
        self.counts.crops -= 1;
        self.table.release(slot, true);
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
    fn remove_if_unused(&mut self, slot: u32) -> Leftovers {
        let unused = self.table.get_mut(slot).filter(|it| !it.is_used());
        let header = unused.and_then(RegionRecord::header_mut);
        let Some(header) = header.filter(|it| it.state.is_pending_free()) else {
            return Leftovers::default();
        };
        // If the device is copying it, the end of the move frees it.
        let time = header.state.end_last_use();
        self.counts.pending_free -= 1;
        match time {
            RemovalTime::Now => self.remove(slot),
            _ => Leftovers::default(),
        }
    }
}
