//! Crops and mappings: who uses a region beside its owner, and what goes with the last of them.

#![forbid(unsafe_code)]

use alloc_core::HostAllocator;

use super::record::{Crop, Key, NIL, Record, State as Life};
use super::state::{Need, State};
use super::{Records, Rest, Seen, Slots};
use crate::error::{GpuError, Limit, Misuse};

/// Slots in the making of a crop or a mapping; `NIL` where none was wanted, or it was taken out.
#[derive(Clone, Copy, Debug)]
#[must_use = "it holds slots: fill them, or give them back"]
pub(crate) struct NewShare {
    pub(crate) crop: u32,
    pub(crate) root: u32,
    fresh: bool,
}

impl Records {
    /// Slots for a crop or a mapping: one for it, and one for its root, should that have no record yet. All or nothing, so that a
    /// refusal leaves nothing behind.
    pub(crate) fn prepare_share(
        &self,
        memory: &dyn HostAllocator,
        crop: bool,
        root: bool,
        indexed: bool,
    ) -> Result<NewShare, GpuError> {
        let need = Need { slots: u32::from(crop) + u32::from(root), bucket: root && indexed, ..Need::default() };
        let slots = self.reserve(memory, &need)?;
        let (crop, root) = match (crop, root) {
            (true, _) => (slots.first, slots.second),
            (false, _) => (NIL, slots.first),
        };
        Ok(NewShare { crop, root, fresh: slots.fresh })
    }

    /// Undoes [`prepare_share`](Records::prepare_share), as far as its slots were not taken out.
    pub(crate) fn drop_share_of(&self, memory: &dyn HostAllocator, new: &NewShare) {
        self.unreserve(memory, Slots { first: new.crop, second: new.root, fresh: new.fresh });
    }

    /// A crop of a root, in the caller's slot: counted and made in one step. Answers its generation. A root that waits for its last
    /// crop can be cropped through another `crop` alone, since its own id means nothing any more.
    pub(crate) fn put_crop(&self, number: u32, root: u32, key: Key, crop: bool, offset: u64, size: u64) -> Result<u32, GpuError> {
        let mut state = self.state.lock();
        let lives = |state| state == Life::Live || crop && state == Life::Waiting;
        let crops = match state.table.get_mut(root) {
            Some(Record::Root(root)) if root.key == key && lives(root.state) => &mut root.crops,
            Some(Record::Wrapped(wrapped)) if wrapped.generation == key.generation && lives(wrapped.state) => &mut wrapped.crops,
            _ => return Err(Misuse::Stale.into()),
        };
        *crops = crops.checked_add(1).ok_or(Limit::Shares)?;
        let Some(slot) = state.table.get_mut(number) else { return Err(Misuse::Stale.into()) };
        let generation = slot.taken().unwrap_or(0);
        *slot = Record::Crop(Crop { offset, size, detail: None, root, generation, maps: 0, maps_by_id: 0, waiting: false });
        state.counts.crops += 1;
        Ok(generation)
    }

    /// Ends a crop. Refused while it is mapped, unless it may `wait` for that to end.
    pub(crate) fn end_crop(&self, number: u32, generation: u32, wait: bool) -> Result<Rest, Misuse> {
        let mut state = self.state.lock();
        let State { table, counts, .. } = &mut *state;
        match table.get_mut(number) {
            Some(Record::Crop(crop)) if crop.generation == generation && !crop.waiting => {
                if crop.maps > 0 {
                    if !wait {
                        return Err(Misuse::Mapped);
                    }
                    crop.waiting = true;
                    counts.waiting += 1;
                    return Ok(Rest::default());
                }
            }
            _ => return Err(Misuse::Stale),
        }
        Ok(state.drop_crop(number))
    }

    /// Counts a mapping of a region that has a record.
    pub(crate) fn count_map(&self, number: u32, key: Key) -> Result<(), GpuError> {
        let mut state = self.state.lock();
        let maps = match state.table.get_mut(number) {
            Some(Record::Root(root)) if root.key == key && root.state == Life::Live => &mut root.maps,
            Some(Record::Wrapped(wrapped)) if wrapped.generation == key.generation && wrapped.state == Life::Live => {
                &mut wrapped.maps
            }
            Some(Record::Crop(crop)) if crop.generation == key.generation && !crop.waiting => &mut crop.maps,
            _ => return Err(Misuse::Stale.into()),
        };
        *maps = maps.checked_add(1).ok_or(Limit::Shares)?;
        Ok(())
    }

    /// Whether a mapping is counted.
    pub(crate) fn is_mapped(&self, number: u32, key: Key) -> Result<bool, Misuse> {
        let state = self.state.lock();
        match state.table.get(number) {
            Some(Record::Root(root)) if root.key == key => Ok(root.maps > 0),
            Some(Record::Wrapped(wrapped)) if wrapped.generation == key.generation => Ok(wrapped.maps > 0),
            Some(Record::Crop(crop)) if crop.generation == key.generation => Ok(crop.maps > 0),
            _ => Err(Misuse::Stale),
        }
    }

    /// A mapping that is counted is to be undone by id from now on: nobody has it as a value.
    pub(crate) fn lend_map(&self, number: u32, key: Key) {
        let mut state = self.state.lock();
        let by_id = match state.table.get_mut(number) {
            Some(Record::Root(one)) if one.key == key => &mut one.maps_by_id,
            Some(Record::Wrapped(one)) if one.generation == key.generation => &mut one.maps_by_id,
            Some(Record::Crop(one)) if one.generation == key.generation => &mut one.maps_by_id,
            _ => return,
        };
        // It is one of `maps`, which has as many bits.
        *by_id = by_id.saturating_add(1);
    }

    /// Counts a mapping off, and holds the root as a crop would until [`end_hold`](Records::end_hold), so that it is there while it is
    /// unmapped. Answers the root; and what is left of a crop that waited for this. By id only those are undone that were
    /// [lent](Records::lend_map): the others are somebody's value, whose pointer is good until that is dropped.
    pub(crate) fn begin_unmap(&self, number: u32, key: Key, by_id: bool) -> Result<(u32, Key, Seen, Option<Rest>), Misuse> {
        let mut state = self.state.lock();
        let (root, gone) = match state.table.get_mut(number) {
            Some(Record::Root(one)) if one.key == key => {
                count_off(&mut one.maps, &mut one.maps_by_id, by_id)?;
                (number, false)
            }
            Some(Record::Wrapped(one)) if one.generation == key.generation => {
                count_off(&mut one.maps, &mut one.maps_by_id, by_id)?;
                (number, false)
            }
            Some(Record::Crop(one)) if one.generation == key.generation => {
                count_off(&mut one.maps, &mut one.maps_by_id, by_id)?;
                (one.root, one.waiting && one.maps == 0)
            }
            _ => return Err(Misuse::Stale),
        };
        let (root_key, seen) = match state.table.get_mut(root) {
            Some(Record::Root(one)) => {
                one.crops = one.crops.saturating_add(1);
                (one.key, one.seen())
            }
            Some(Record::Wrapped(one)) => {
                one.crops = one.crops.saturating_add(1);
                (one.key(root), Seen::Wrapped(one.facts()))
            }
            _ => return Err(Misuse::Stale),
        };
        let rest = gone.then(|| state.drop_crop(number));
        Ok((root, root_key, seen, rest))
    }

    /// Lets go what [`begin_unmap`](Records::begin_unmap) held; a root that waited for the last one goes.
    pub(crate) fn end_hold(&self, root: u32) -> Rest {
        self.state.lock().drop_share(root)
    }

    /// Counts a mapping off; a region that waited for the last one goes.
    pub(crate) fn end_map(&self, number: u32, key: Key) -> Result<Rest, Misuse> {
        let mut state = self.state.lock();
        let (maps, waits) = match state.table.get_mut(number) {
            Some(Record::Root(root)) if root.key == key => (&mut root.maps, root.state == Life::Waiting),
            Some(Record::Wrapped(wrapped)) if wrapped.generation == key.generation => {
                (&mut wrapped.maps, wrapped.state == Life::Waiting)
            }
            Some(Record::Crop(crop)) if crop.generation == key.generation => (&mut crop.maps, crop.waiting),
            _ => return Err(Misuse::Stale),
        };
        *maps = maps.checked_sub(1).ok_or(Misuse::NotMapped)?;
        if *maps > 0 || !waits {
            return Ok(Rest::default());
        }
        Ok(state.drop_waiting(number))
    }
}

fn count_off(maps: &mut u16, by_ids: &mut u16, by_id: bool) -> Result<(), Misuse> {
    let less = maps.checked_sub(1).ok_or(Misuse::NotMapped)?;
    if by_id {
        *by_ids = by_ids.checked_sub(1).ok_or(Misuse::NotMapped)?;
    }
    *maps = less;
    Ok(())
}

impl State {
    /// The crop's record goes, and with it a root that waited for this.
    fn drop_crop(&mut self, number: u32) -> Rest {
        let Some(Record::Crop(crop)) = self.table.get_mut(number) else { return Rest::default() };
        let (root, detail, waited) = (crop.root, crop.detail.take(), crop.waiting);
        self.counts.waiting -= u64::from(waited);
        self.counts.crops -= 1;
        self.table.put_back(number, true);
        let rest = self.drop_share(root);
        let [first, _] = rest.details;
        Rest { details: [first, detail], ..rest }
    }

    /// One crop of a root less; a root that waited for the last one goes.
    fn drop_share(&mut self, root: u32) -> Rest {
        let waits = match self.table.get_mut(root) {
            Some(Record::Root(root)) => {
                root.crops = root.crops.saturating_sub(1);
                root.state == Life::Waiting
            }
            Some(Record::Wrapped(wrapped)) => {
                wrapped.crops = wrapped.crops.saturating_sub(1);
                wrapped.state == Life::Waiting
            }
            _ => false,
        };
        if waits { self.drop_waiting(root) } else { Rest::default() }
    }

    /// Lets a region go that waited, if nothing uses it any more.
    fn drop_waiting(&mut self, number: u32) -> Rest {
        match self.table.get_mut(number) {
            Some(Record::Root(root)) if root.crops == 0 && root.maps == 0 => {
                root.state = Life::Going;
                self.counts.waiting -= 1;
                Rest { root: Some(root.gone(number)), ..Rest::default() }
            }
            Some(Record::Wrapped(wrapped)) if wrapped.crops == 0 && wrapped.maps == 0 => {
                self.counts.waiting -= 1;
                self.drop_wrapped(number)
            }
            Some(Record::Crop(crop)) if crop.maps == 0 => self.drop_crop(number),
            _ => Rest::default(),
        }
    }
}
