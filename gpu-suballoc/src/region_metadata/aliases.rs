//! Crops and mappings: who uses a region beside its owner, and what goes with the last of them.

#![forbid(unsafe_code)]

use crate::id::{NO_RECORD, RegionPlace, RegionSlot};
use alloc_core::HostAllocator;

use super::record::{CropRecord, RegionRecord};
use super::root_state::{RemovalTime, RootState as Life};
use super::state::{MetadataState, RecordReservation};
use super::{Leftovers, RecordView, RegionMetadata, ReservedSlots};
use crate::error::{GpuError, GpuMisuse, Limit};

/// ReservedSlots in the making of a crop or a mapping; `NO_RECORD` where none was wanted, or it was taken out.
#[derive(Clone, Copy, Debug)]
#[must_use = "it holds slots: fill them, or give them back"]
pub(crate) struct NewAlias {
    pub(crate) crop: u32,
    pub(crate) root: u32,
    fresh: bool,
}

impl RegionMetadata {
    /// Slots for a crop or a mapping: one for it, and one for its root, should that have no record yet. All or nothing, so that a
    /// refusal leaves nothing behind.
    pub(crate) fn prepare_alias(
        &self,
        memory: &dyn HostAllocator,
        crop: bool,
        root: bool,
        indexed: bool,
    ) -> Result<NewAlias, GpuError> {
        let need = RecordReservation {
            slots: u32::from(crop) + u32::from(root),
            bucket: root && indexed,
            ..RecordReservation::default()
        };
        let slots = self.reserve(memory, &need)?;
        let (crop, root) = match (crop, root) {
            (true, _) => (slots.first, slots.second),
            (false, _) => (NO_RECORD, slots.first),
        };
        Ok(NewAlias {
            crop,
            root,
            fresh: slots.fresh,
        })
    }

    /// Undoes [`prepare_alias`](RegionMetadata::prepare_alias), as far as its slots were not taken out.
    pub(crate) fn cancel_alias(&self, memory: &dyn HostAllocator, new: &NewAlias) {
        self.unreserve(
            memory,
            ReservedSlots {
                first: new.crop,
                second: new.root,
                fresh: new.fresh,
            },
        );
    }

    /// A crop of a root, in the caller's slot: counted and made in one step. Returns where it is. A root that waits for its last
    /// crop can be cropped through another `crop` alone, since its own id means nothing any more.
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
        let lives = |state: Life| state.is_live() || crop && state.is_pending_free();
        let crops = match state.table.get_mut(root) {
            Some(RegionRecord::Root(root)) if root.is_named(key) && lives(root.state) => {
                root.state.note_use();
                &mut root.crops
            }
            Some(RegionRecord::Wrapped(wrapped))
                if wrapped.key(root) == key && lives(wrapped.state) =>
            {
                &mut wrapped.crops
            }
            _ => return Err(GpuMisuse::Stale.into()),
        };
        *crops = crops.checked_add(1).ok_or(Limit::Aliases)?;
        let Some(slot) = state.table.get_mut(number) else {
            return Err(GpuMisuse::Stale.into());
        };
        let generation = slot.reserved_generation().unwrap_or(0);
        *slot = RegionRecord::Crop(CropRecord {
            offset,
            size,
            detail: None,
            root,
            generation,
            maps: 0,
            maps_by_id: 0,
            is_pending_free: false,
        });
        state.counts.crops += 1;
        Ok(RegionSlot {
            place: RegionPlace::CROP,
            slot: number,
            generation,
        })
    }

    /// Ends a crop. Refused while it is mapped, unless it may `wait` for that to end.
    pub(crate) fn end_crop(&self, key: RegionSlot, wait: bool) -> Result<Leftovers, GpuMisuse> {
        let mut state = self.state.lock();
        let MetadataState { table, counts, .. } = &mut *state;
        match table.get_mut(key.slot) {
            Some(RegionRecord::Crop(crop))
                if crop.key(key.slot) == key && !crop.is_pending_free =>
            {
                if crop.maps > 0 {
                    if !wait {
                        return Err(GpuMisuse::Mapped);
                    }
                    crop.is_pending_free = true;
                    counts.pending_free += 1;
                    return Ok(Leftovers::default());
                }
            }
            _ => return Err(GpuMisuse::Stale),
        }
        Ok(state.remove_crop(key.slot))
    }

    /// Counts a mapping of a region that has a record.
    pub(crate) fn count_map(&self, number: u32, key: RegionSlot) -> Result<(), GpuError> {
        let mut state = self.state.lock();
        let maps = match state.table.get_mut(number) {
            Some(RegionRecord::Root(root)) if root.is_named(key) && root.state.is_live() => {
                root.state.note_use();
                &mut root.maps
            }
            Some(RegionRecord::Wrapped(wrapped))
                if wrapped.key(number) == key && wrapped.state == Life::Live =>
            {
                &mut wrapped.maps
            }
            Some(RegionRecord::Crop(crop)) if crop.key(number) == key && !crop.is_pending_free => {
                &mut crop.maps
            }
            _ => return Err(GpuMisuse::Stale.into()),
        };
        *maps = maps.checked_add(1).ok_or(Limit::Aliases)?;
        if let Some(&RegionRecord::Crop(CropRecord { root, .. })) = state.table.get(number)
            && let Some(RegionRecord::Root(root)) = state.table.get_mut(root)
        {
            root.state.note_use();
        }
        Ok(())
    }

    /// Whether a mapping is counted.
    pub(crate) fn is_mapped(&self, number: u32, key: RegionSlot) -> Result<bool, GpuMisuse> {
        let state = self.state.lock();
        match state.table.get(number) {
            Some(RegionRecord::Root(root)) if root.is_named(key) => Ok(root.maps > 0),
            Some(RegionRecord::Wrapped(wrapped)) if wrapped.key(number) == key => {
                Ok(wrapped.maps > 0)
            }
            Some(RegionRecord::Crop(crop)) if crop.key(number) == key => Ok(crop.maps > 0),
            _ => Err(GpuMisuse::Stale),
        }
    }

    /// A mapping that is counted is to be undone by id from now on: nobody has it as a value.
    pub(crate) fn mark_mapped_by_id(&self, number: u32, key: RegionSlot) {
        let mut state = self.state.lock();
        let by_id = match state.table.get_mut(number) {
            Some(RegionRecord::Root(one)) if one.is_named(key) => &mut one.maps_by_id,
            Some(RegionRecord::Wrapped(one)) if one.key(number) == key => &mut one.maps_by_id,
            Some(RegionRecord::Crop(one)) if one.key(number) == key => &mut one.maps_by_id,
            _ => return,
        };
        // It is one of `maps`, which has as many bits.
        *by_id = by_id.saturating_add(1);
    }

    /// Counts a mapping off, and holds the root as a crop would until [`end_unmap`](RegionMetadata::end_unmap), so that it is there while it is
    /// unmapped. Answers the root; and what is left of a crop that waited for this. By id only those are undone that were
    /// [lent](RegionMetadata::mark_mapped_by_id): the others are somebody's value, whose pointer is good until that is dropped.
    pub(crate) fn begin_unmap(
        &self,
        number: u32,
        key: RegionSlot,
        by_id: bool,
    ) -> Result<(u32, RegionSlot, RecordView, Option<Leftovers>), GpuMisuse> {
        let mut state = self.state.lock();
        let (root, gone) = match state.table.get_mut(number) {
            Some(RegionRecord::Root(one)) if one.is_named(key) => {
                uncount_map(&mut one.maps, &mut one.maps_by_id, by_id)?;
                (number, false)
            }
            Some(RegionRecord::Wrapped(one)) if one.key(number) == key => {
                uncount_map(&mut one.maps, &mut one.maps_by_id, by_id)?;
                (number, false)
            }
            Some(RegionRecord::Crop(one)) if one.key(number) == key => {
                uncount_map(&mut one.maps, &mut one.maps_by_id, by_id)?;
                (one.root, one.is_pending_free && one.maps == 0)
            }
            _ => return Err(GpuMisuse::Stale),
        };
        let (root_key, seen) = match state.table.get_mut(root) {
            Some(RegionRecord::Root(one)) => {
                one.state.note_use();
                one.crops = one.crops.saturating_add(1);
                (one.key, one.view())
            }
            Some(RegionRecord::Wrapped(one)) => {
                one.crops = one.crops.saturating_add(1);
                (one.key(root), RecordView::Wrapped(one.buffer_info()))
            }
            _ => return Err(GpuMisuse::Stale),
        };
        let rest = gone.then(|| state.remove_crop(number));
        Ok((root, root_key, seen, rest))
    }

    /// Lets go what [`begin_unmap`](RegionMetadata::begin_unmap) held; a root that waited for the last one goes.
    pub(crate) fn end_unmap(&self, root: u32) -> Leftovers {
        self.state.lock().release_alias(root)
    }

    /// Counts a mapping off; a region that waited for the last one goes.
    pub(crate) fn end_map(&self, number: u32, key: RegionSlot) -> Result<Leftovers, GpuMisuse> {
        let mut state = self.state.lock();
        let (maps, waits) = match state.table.get_mut(number) {
            Some(RegionRecord::Root(root)) if root.is_named(key) => {
                (&mut root.maps, root.state.is_pending_free())
            }
            Some(RegionRecord::Wrapped(wrapped)) if wrapped.key(number) == key => {
                (&mut wrapped.maps, wrapped.state == Life::PendingFree)
            }
            Some(RegionRecord::Crop(crop)) if crop.key(number) == key => {
                (&mut crop.maps, crop.is_pending_free)
            }
            _ => return Err(GpuMisuse::Stale),
        };
        *maps = maps.checked_sub(1).ok_or(GpuMisuse::NotMapped)?;
        if *maps > 0 || !waits {
            return Ok(Leftovers::default());
        }
        Ok(state.remove_if_unused(number))
    }
}

fn uncount_map(maps: &mut u16, by_ids: &mut u16, by_id: bool) -> Result<(), GpuMisuse> {
    let less = maps.checked_sub(1).ok_or(GpuMisuse::NotMapped)?;
    if by_id {
        *by_ids = by_ids.checked_sub(1).ok_or(GpuMisuse::NotMapped)?;
    }
    *maps = less;
    Ok(())
}

impl MetadataState {
    /// The crop's record goes, and with it a root that waited for this.
    fn remove_crop(&mut self, number: u32) -> Leftovers {
        let Some(RegionRecord::Crop(crop)) = self.table.get_mut(number) else {
            return Leftovers::default();
        };
        let (root, detail, waited) = (crop.root, crop.detail.take(), crop.is_pending_free);
        self.counts.pending_free -= u64::from(waited);
        self.counts.crops -= 1;
        self.table.release(number, true);
        let rest = self.release_alias(root);
        let [first, _] = rest.details;
        Leftovers {
            details: [first, detail],
            ..rest
        }
    }

    /// One crop of a root less; a root that waited for the last one goes.
    fn release_alias(&mut self, root: u32) -> Leftovers {
        let waits = match self.table.get_mut(root) {
            Some(RegionRecord::Root(root)) => {
                root.crops = root.crops.saturating_sub(1);
                root.state.is_pending_free()
            }
            Some(RegionRecord::Wrapped(wrapped)) => {
                wrapped.crops = wrapped.crops.saturating_sub(1);
                wrapped.state == Life::PendingFree
            }
            _ => false,
        };
        if waits {
            self.remove_if_unused(root)
        } else {
            Leftovers::default()
        }
    }

    /// Lets a region go that waited, if nothing uses it any more.
    fn remove_if_unused(&mut self, number: u32) -> Leftovers {
        match self.table.get_mut(number) {
            Some(RegionRecord::Root(root)) if root.crops == 0 && root.maps == 0 => {
                self.counts.pending_free -= 1;
                // The device may be copying it: the end of the move is the end of it then.
                if root.state.end_last_use() != RemovalTime::Now {
                    return Leftovers::default();
                }
                Leftovers {
                    root: Some(root.removed(number)),
                    ..Leftovers::default()
                }
            }
            Some(RegionRecord::Wrapped(wrapped)) if wrapped.crops == 0 && wrapped.maps == 0 => {
                self.counts.pending_free -= 1;
                self.remove_wrapped(number)
            }
            Some(RegionRecord::Crop(crop)) if crop.maps == 0 => self.remove_crop(number),
            _ => Leftovers::default(),
        }
    }
}
