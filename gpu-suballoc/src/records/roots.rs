//! The allocator's own regions: from the record that waits for one to the record that is gone.

#![forbid(unsafe_code)]

use alloc_core::HostAllocator;

use super::detail::Detail;
use super::kinds::{Kind, Kinds};
use super::record::{Key, NIL, Record, Root, State as Life};
use super::state::{Need, State};
use super::{Records, Slots};
use crate::allocator::Content;
use crate::error::{GpuError, Misuse};
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

/// A root whose resource and memory are to be given back by the caller, who then says [`Records::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "its resource and its memory are to be given back"]
pub(crate) struct GoneRoot {
    pub(crate) number: u32,
    pub(crate) key: Key,
    pub(crate) resource: u64,
    pub(crate) content: Content,
    pub(crate) asked: u64,
    pub(super) kind: u16,
}

/// What a record says of the region that an id names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen {
    Root { resource: u64, content: Content, asked: u64 },
    Wrapped(super::Wrap),
}

/// What the records say of a crop: a part of a root, from its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SeenCrop {
    /// The root's record.
    pub(crate) number: u32,
    pub(crate) root_key: Key,
    pub(crate) root: Seen,
    pub(crate) offset: u64,
    pub(crate) size: u64,
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

    /// What is known of a region that has a record and is no crop.
    pub(crate) fn see(&self, number: u32, key: Key) -> Result<Seen, Misuse> {
        let state = self.state.lock();
        match state.table.get(number) {
            Some(Record::Root(root)) if root.key == key && root.state == Life::Live => Ok(root.seen()),
            Some(Record::Wrapped(wrapped)) if wrapped.generation == key.generation && wrapped.state == Life::Live => {
                Ok(Seen::Wrapped(wrapped.facts()))
            }
            _ => Err(Misuse::Stale),
        }
    }

    /// What is known of a crop and of its root, in one look: after a second one the root's number might be another's.
    pub(crate) fn see_crop(&self, number: u32, key: Key) -> Result<SeenCrop, Misuse> {
        let state = self.state.lock();
        let Some(Record::Crop(crop)) = state.table.get(number) else { return Err(Misuse::Stale) };
        if crop.generation != key.generation || crop.waiting {
            return Err(Misuse::Stale);
        }
        let (root_key, root) = match state.table.get(crop.root) {
            Some(Record::Root(root)) => (root.key, root.seen()),
            Some(Record::Wrapped(wrapped)) => (wrapped.key(crop.root), Seen::Wrapped(wrapped.facts())),
            _ => return Err(Misuse::Stale),
        };
        Ok(SeenCrop { number: crop.root, root_key, root, offset: crop.offset, size: crop.size })
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
            maps_by_id: 0,
            kind: Kinds::NONE,
            content: Content::Bare,
            state: Life::Live,
        };
        *slot = Record::Root(fill(root));
    }
}

impl Root {
    pub(super) fn seen(&self) -> Seen {
        Seen::Root { resource: self.resource, content: self.content, asked: self.asked }
    }

    pub(super) fn gone(&self, number: u32) -> GoneRoot {
        let Self { key, resource, content, asked, kind, .. } = *self;
        GoneRoot { number, key, resource, content, asked, kind }
    }
}
