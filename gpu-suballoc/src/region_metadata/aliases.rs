#![forbid(unsafe_code)]

use super::record::{RecordKind, RegionRecord};
use super::root_state::RemovalTime;
use super::{Leftovers, MetadataState, RecordView, RegionMetadata};
use crate::error::{GpuError, GpuMisuse, Limit};
use crate::id::RegionKey;

impl RegionMetadata {
    /// A root that waits for its last crop can be cropped through another crop only.
    pub(crate) fn insert_crop(
        &self,
        slot: u32,
        of: RegionKey,
        (offset, size): (u64, u64),
    ) -> Result<RegionKey, GpuError> {
        let mut state = self.state.lock();
        let (link, base) = state.table.live(of)?.root(of.slot);
        let root = state.table.get_mut(link).ok_or(GpuMisuse::Stale)?;
        if !(root.state.is_live() || root.state.is_pending_free()) {
            return Err(GpuMisuse::Stale.into());
        }
        root.state.note_use();
        root.crops = root.crops.checked_add(1).ok_or(Limit::Aliases)?;
        state.counts.crops += 1;
        let crop = RegionRecord { kind: RecordKind::Crop, value: base + offset, size, link, ..RegionRecord::NEW };
        (state.table.fill(slot, crop)).ok_or_else(|| GpuMisuse::Stale.into())
    }

    /// The root does not move any more.
    pub(crate) fn count_map(&self, key: RegionKey) -> Result<(RecordView, u64), GpuError> {
        let mut state = self.state.lock();
        let record = state.table.live(key)?;
        record.maps = record.maps.checked_add(1).ok_or(Limit::Aliases)?;
        let (slot, offset) = record.root(key.slot);
        let root = state.table.get_mut(slot).ok_or(GpuMisuse::Stale)?;
        root.state.note_use();
        let root = state.view(slot).ok_or(GpuMisuse::Stale)?;
        Ok((root, offset))
    }

    pub(crate) fn is_mapped(&self, key: RegionKey) -> Result<bool, GpuMisuse> {
        Ok(self.state.lock().table.named(key)?.maps > 0)
    }

    pub(crate) fn mark_mapped_by_id(&self, key: RegionKey) {
        if let Ok(record) = self.state.lock().table.named_mut(key) {
            // It is one of `maps`, which has as many bits.
            record.maps_by_id += 1;
        }
    }

    /// The root is held as a crop would until [`end_unmap`](RegionMetadata::end_unmap). `by_id` undoes
    /// [marked](RegionMetadata::mark_mapped_by_id) mappings only: the others belong to values, whose pointers are good
    /// until they are dropped.
    pub(crate) fn begin_unmap(&self, key: RegionKey, by_id: bool) -> Result<(u32, RecordView, Leftovers), GpuMisuse> {
        let mut state = self.state.lock();
        let record = state.table.named_mut(key)?;
        record.remove_map(by_id)?;
        let (slot, _) = record.root(key.slot);
        let view = state.view(slot).ok_or(GpuMisuse::Stale)?;
        if let Some(root) = state.table.get_mut(slot) {
            root.state.note_use();
            root.crops += 1;
        }
        Ok((slot, view, state.remove_if_unused(key.slot)))
    }

    pub(crate) fn end_unmap(&self, root: u32) -> Leftovers {
        self.state.lock().release_root(root)
    }

    /// The mapping failed. A region that waited for its last use is removed.
    pub(crate) fn end_map(&self, key: RegionKey) -> Result<Leftovers, GpuMisuse> {
        let mut state = self.state.lock();
        state.table.named_mut(key)?.remove_map(false)?;
        Ok(state.remove_if_unused(key.slot))
    }
}

impl MetadataState {
    /// The caller frees resource and memory of a root; a root that waited for a crop goes with it.
    pub(super) fn remove(&mut self, slot: u32) -> Leftovers {
        let Some(record) = self.table.get_mut(slot) else {
            return Leftovers::default();
        };
        if record.is_root() {
            return Leftovers { root: Some(record.removed(slot)), ..Leftovers::default() };
        }
        let (root, detail) = (record.link, record.detail.take());
        if record.kind == RecordKind::Wrapped {
            self.table.release(slot, true);
            self.remove_wrapped(root);
            return Leftovers { details: [detail, None], ..Leftovers::default() };
        }
        self.counts.crops -= 1;
        self.table.release(slot, true);
        let rest = self.release_root(root);
        let [first, _] = rest.details;
        Leftovers { details: [first, detail], ..rest }
    }

    fn release_root(&mut self, root: u32) -> Leftovers {
        if let Some(root) = self.table.get_mut(root) {
            root.crops -= 1;
        }
        self.remove_if_unused(root)
    }

    fn remove_if_unused(&mut self, slot: u32) -> Leftovers {
        let unused = self.table.get_mut(slot).filter(|it| !it.is_used());
        let Some(record) = unused.filter(|it| it.state.is_pending_free()) else {
            return Leftovers::default();
        };
        // If the device is copying it, the end of the move frees it.
        let time = record.state.end_last_use();
        self.counts.pending_free -= 1;
        match time {
            RemovalTime::Now => self.remove(slot),
            _ => Leftovers::default(),
        }
    }
}
