//! The allocator's own regions: from the record that waits for one to the record that is gone.

#![forbid(unsafe_code)]

use alloc_core::HostAllocator;

use super::detail::Detail;
use super::kinds::{Kind, Kinds};
use super::record::{Crop, Key, NIL, Record, Root, State as Life};
use super::state::{Need, State};
use super::{Records, Rest, Slots};
use crate::allocator::{Content, Region};
use crate::error::{GpuError, Limit, Misuse};
use crate::request::RegionOptions;

/// A record in the making: everything that can fail has succeeded.
#[must_use = "it holds a slot: put it in, or hand it back"]
pub(crate) struct NewRoot {
    slots: Slots,
    detail: Option<Detail>,
    kind: u16,
}

impl NewRoot {
    /// The record's.
    pub(crate) const fn number(&self) -> u32 {
        self.slots.first
    }
}

/// Slots in the making of a crop or a mapping; `NIL` where none was wanted, or it was taken out.
#[derive(Clone, Copy, Debug)]
#[must_use = "it holds slots: fill them, or give them back"]
pub(crate) struct NewShare {
    pub(crate) crop: u32,
    pub(crate) root: u32,
    fresh: bool,
}

/// A root whose resource and memory are to be given back by the caller, who then says [`Records::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "its resource and its memory are to be given back"]
pub(crate) struct GoneRoot {
    pub(crate) number: u32,
    pub(crate) key: Key,
    pub(crate) resource: u64,
    pub(crate) content: Content,
    pub(crate) asked: u64,
    kind: u16,
}

/// What a record says of the region that an id names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen {
    Root {
        resource: u64,
        content: Content,
        asked: u64,
    },
    Wrapped(super::Wrap),
    /// Of a root, from its start.
    Crop {
        root: u32,
        offset: u64,
        size: u64,
    },
}

impl Records {
    /// A record for a region that will be placed: slot, name, and the kind of resource it was made as.
    pub(crate) fn prepare_root(
        &self,
        memory: &dyn HostAllocator,
        kind: Option<&Kind>,
        options: &RegionOptions<'_>,
    ) -> Result<NewRoot, GpuError> {
        let detail = Detail::new(memory, options)?;
        match self.reserve(memory, &Need { slots: 1, kind: kind.copied(), ..Need::default() }) {
            Ok(slots) => {
                let kind = kind.map_or(Kinds::NONE, |kind| self.state.lock().kinds.note(*kind));
                Ok(NewRoot { slots, detail, kind })
            }
            Err(error) => {
                if let Some(detail) = detail {
                    detail.free(memory);
                }
                Err(error)
            }
        }
    }

    /// Undoes [`prepare_root`](Records::prepare_root).
    pub(crate) fn drop_root(&self, memory: &dyn HostAllocator, new: NewRoot) {
        self.unreserve(memory, new.slots);
        if let Some(detail) = new.detail {
            detail.free(memory);
        }
    }

    /// The region is placed, its resource bound: from here on it is somebody's.
    pub(crate) fn put_root(&self, new: NewRoot, key: Key, resource: u64, content: Content, asked: u64) {
        self.state.lock().put_root(new.slots.first, key, |root| Root {
            resource,
            content,
            asked,
            detail: new.detail,
            kind: new.kind,
            ..root
        });
    }

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

    /// A record for a region that had none, in the slot that was prepared for it.
    pub(crate) fn put_bare(&self, number: u32, key: Key) {
        self.state.lock().put_root(number, key, |root| root);
    }

    /// Takes back what [`put_bare`](Records::put_bare) did, where somebody else was first.
    pub(crate) fn take_bare(&self, number: u32) {
        let mut state = self.state.lock();
        if let Some(Record::Root(_)) = state.table.get(number) {
            state.table.put_back(number, true);
        }
    }

    /// As [`put_bare`](Records::put_bare), for a region whose place has no room for the number. Answers the number that counts:
    /// somebody may have been first.
    pub(crate) fn put_indexed(&self, number: u32, key: Key) -> u32 {
        let mut state = self.state.lock();
        if let Some(first) = state.index.find(key, &state.table) {
            state.table.put_back(number, false);
            return first;
        }
        self.filter.add(key);
        state.put_root(number, key, |root| root);
        let State { table, index, .. } = &mut *state;
        index.insert(number, table);
        number
    }

    /// The record of a region whose place has no room for its number.
    pub(crate) fn indexed(&self, key: Key) -> Option<u32> {
        if !self.may_know(key) {
            return None;
        }
        let state = self.state.lock();
        state.index.find(key, &state.table)
    }

    /// What is known of a region that has a record.
    pub(crate) fn see(&self, number: u32, key: Key) -> Result<Seen, Misuse> {
        let state = self.state.lock();
        match state.table.get(number) {
            Some(Record::Root(root)) if root.key == key && root.state == Life::Live => Ok(root.seen()),
            Some(Record::Wrapped(wrapped)) if wrapped.generation == key.generation && wrapped.state == Life::Live => {
                Ok(Seen::Wrapped(wrapped.facts()))
            }
            Some(Record::Crop(crop)) if crop.generation == key.generation && !crop.waiting => {
                Ok(Seen::Crop { root: crop.root, offset: crop.offset, size: crop.size })
            }
            _ => Err(Misuse::Stale),
        }
    }

    /// What is known of the root of a crop, with its key.
    pub(crate) fn see_root(&self, number: u32) -> Result<(Key, Seen), Misuse> {
        let state = self.state.lock();
        match state.table.get(number) {
            Some(Record::Root(root)) => Ok((root.key, root.seen())),
            Some(Record::Wrapped(wrapped)) => Ok((wrapped.key(number), Seen::Wrapped(wrapped.facts()))),
            _ => Err(Misuse::Stale),
        }
    }

    /// Begins the end of a root: from here on nobody finds it. Refused while it has crops or mappings, unless it may `wait` for
    /// the last of them: `None` then.
    pub(crate) fn part(&self, number: u32, key: Key, wait: bool) -> Result<Option<GoneRoot>, Misuse> {
        let mut state = self.state.lock();
        let State { table, counts, .. } = &mut *state;
        let Some(Record::Root(root)) = table.get_mut(number) else { return Err(Misuse::Stale) };
        if root.key != key || root.state != Life::Live {
            return Err(Misuse::Stale);
        }
        if root.crops > 0 || root.maps > 0 {
            if !wait {
                return Err(if root.crops > 0 { Misuse::HasCrops } else { Misuse::Mapped });
            }
            root.state = Life::Waiting;
            counts.waiting += 1;
            return Ok(None);
        }
        root.state = Life::Going;
        Ok(Some(root.gone(number)))
    }

    /// Resource and memory are given back: the end of the record.
    pub(crate) fn forget(&self, memory: &dyn HostAllocator, gone: GoneRoot, indexed: bool) {
        let detail = {
            let mut state = self.state.lock();
            let State { table, index, .. } = &mut *state;
            if indexed {
                index.remove(gone.key, table);
            }
            let detail = match table.get_mut(gone.number) {
                Some(Record::Root(root)) => root.detail.take(),
                _ => None,
            };
            table.put_back(gone.number, true);
            detail
        };
        if indexed {
            self.filter.remove(gone.key);
        }
        if let Some(detail) = detail {
            detail.free(memory);
        }
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
        *slot = Record::Crop(Crop { offset, size, detail: None, root, generation, maps: 0, waiting: false });
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

    /// Counts a mapping off, and holds the root as a crop would until [`end_hold`](Records::end_hold), so that it is there while it is
    /// unmapped. Answers the root; and what is left of a crop that waited for this.
    pub(crate) fn begin_unmap(&self, number: u32, key: Key) -> Result<(u32, Key, Seen, Option<Rest>), Misuse> {
        let mut state = self.state.lock();
        let (root, gone) = match state.table.get_mut(number) {
            Some(Record::Root(one)) if one.key == key => {
                one.maps = one.maps.checked_sub(1).ok_or(Misuse::NotMapped)?;
                (number, false)
            }
            Some(Record::Wrapped(one)) if one.generation == key.generation => {
                one.maps = one.maps.checked_sub(1).ok_or(Misuse::NotMapped)?;
                (number, false)
            }
            Some(Record::Crop(one)) if one.generation == key.generation => {
                one.maps = one.maps.checked_sub(1).ok_or(Misuse::NotMapped)?;
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

impl State {
    fn put_root(&mut self, number: u32, key: Key, fill: impl FnOnce(Root) -> Root) {
        let Some(slot) = self.table.get_mut(number) else { return };
        let root = Root {
            resource: 0,
            asked: 0,
            detail: None,
            key,
            crops: 0,
            next: NIL,
            generation: slot.taken().unwrap_or(0),
            maps: 0,
            kind: Kinds::NONE,
            content: Content::Bare,
            state: Life::Live,
        };
        *slot = Record::Root(fill(root));
    }

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

impl Root {
    fn seen(&self) -> Seen {
        Seen::Root { resource: self.resource, content: self.content, asked: self.asked }
    }

    fn gone(&self, number: u32) -> GoneRoot {
        let Self { key, resource, content, asked, kind, .. } = *self;
        GoneRoot { number, key, resource, content, asked, kind }
    }
}

/// Keeping buffers for reuse.
impl Records {
    /// Whether a buffer of this root is of a kind that may be kept.
    pub(crate) fn can_be_kept(&self, gone: &GoneRoot) -> bool {
        self.state.lock().kinds.can_be_kept(gone.kind)
    }

    /// Keeps a root that [`part`](Records::part) gave, under the key it has from now on. Gives region and root back when there is no room.
    pub(crate) fn park(
        &self,
        memory: &dyn HostAllocator,
        gone: GoneRoot,
        key: Key,
        region: Region,
    ) -> Result<(), (GoneRoot, Region)> {
        let detail = {
            let mut state = self.state.lock();
            let State { table, park, .. } = &mut *state;
            if let Err(region) = park.put(region, gone.number, gone.kind, gone.asked) {
                return Err((GoneRoot { key, ..gone }, region));
            }
            match table.get_mut(gone.number) {
                Some(Record::Root(root)) => {
                    root.key = key;
                    root.state = Life::Parked;
                    root.detail.take()
                }
                _ => None,
            }
        };
        if let Some(detail) = detail {
            detail.free(memory);
        }
        Ok(())
    }

    /// A kept buffer of that kind and size, somebody's from now on, with a new name.
    pub(crate) fn unpark(
        &self,
        memory: &dyn HostAllocator,
        kind: &Kind,
        asked: u64,
        options: &RegionOptions<'_>,
    ) -> Result<Option<Region>, GpuError> {
        if self.state.lock().park.len() == 0 {
            return Ok(None);
        }
        let detail = Detail::new(memory, options)?;
        let mut state = self.state.lock();
        let State { table, kinds, park, .. } = &mut *state;
        let parked = kinds.find(kind).and_then(|kind| park.take(kind, asked));
        if let Some(parked) = parked
            && let Some(Record::Root(root)) = table.get_mut(parked.record)
        {
            root.state = Life::Live;
            root.detail = detail;
            return Ok(Some(parked.region));
        }
        drop(state);
        if let Some(detail) = detail {
            detail.free(memory);
        }
        Ok(None)
    }

    /// The kept buffer that nobody has wanted for longest, if more are kept than so many, or than so many bytes.
    pub(crate) fn unpark_oldest(&self, count: u32, bytes: u64) -> Option<(GoneRoot, Region)> {
        let mut state = self.state.lock();
        let State { table, park, .. } = &mut *state;
        if park.len() <= count && park.bytes() <= bytes {
            return None;
        }
        let parked = park.take_oldest()?;
        let Some(Record::Root(root)) = table.get_mut(parked.record) else { return None };
        root.state = Life::Going;
        Some((root.gone(parked.record), parked.region))
    }
}
