//! Buffers of the application's: records that come and go, while what they name is never touched.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use alloc_core::{HostAllocator, Scope};

use super::detail::Detail;
use super::foreign::Foreign;
use super::record::{Key, Record, State as Life, Wrap, Wrapped};
use super::state::{Need, State};
use super::{Records, Rest};
use crate::error::{GpuError, Misuse};
use crate::id::{Place, PlaceKind};
use crate::property_flags::PropertyFlags;
use crate::request::RegionOptions;

pub(super) const WRAP: Layout = Layout::new::<Wrap>();
pub(super) const FOREIGN: Layout = Layout::new::<Foreign>();

/// Everything that wrapping takes, so that wrapping itself cannot fail.
#[must_use = "it holds memory: put it in"]
pub(crate) struct NewWrap {
    number: u32,
    facts: NonNull<Wrap>,
    foreign: Option<NonNull<Foreign>>,
    detail: Option<Detail>,
}

/// The place in the ids of wrapped buffers.
pub(crate) const PLACE: Place = Place { kind: PlaceKind::Wrapped, pool: 0, block: 0 };

impl Records {
    /// Takes what a wrapping needs: all or nothing.
    pub(crate) fn prepare_wrap(
        &self,
        memory: &dyn HostAllocator,
        wrap: Wrap,
        options: &RegionOptions<'_>,
    ) -> Result<NewWrap, GpuError> {
        let mut rest = Rest::default();
        let made = self.make_wrap(memory, wrap, options, &mut rest);
        if made.is_err() {
            let _ = rest.free(memory);
        }
        made
    }

    /// What was taken is in `rest` until all is there.
    fn make_wrap(
        &self,
        memory: &dyn HostAllocator,
        wrap: Wrap,
        options: &RegionOptions<'_>,
        rest: &mut Rest,
    ) -> Result<NewWrap, GpuError> {
        let take = |layout: Layout| {
            memory.allocate(layout, Scope::Object).map_err(|_| GpuError::Host(memory.refusal(layout, Scope::Object)))
        };
        let facts = take(WRAP)?.cast::<Wrap>();
        // SAFETY: just taken with the layout of one.
        unsafe { facts.write(wrap) };
        rest.wrap = Some(facts);
        if let Some(backing) = wrap.backing
            && backing.mapped.is_none()
            && backing.properties.contains(PropertyFlags::HOST_VISIBLE)
        {
            let foreign = take(FOREIGN)?.cast::<Foreign>();
            // SAFETY: just taken with the layout of one.
            unsafe { foreign.write(Foreign::new(backing.memory, backing.memory_size)) };
            rest.foreign = Some(foreign);
        }
        rest.details = [Detail::new(memory, options)?, None];
        let number = self.reserve(memory, &Need { slots: 1, ..Need::default() })?.first;
        let [detail, _] = core::mem::take(&mut rest.details);
        Ok(NewWrap { number, facts, foreign: rest.foreign, detail })
    }

    /// From here on the buffer is wrapped: its key.
    pub(crate) fn put_wrap(&self, memory: &dyn HostAllocator, new: NewWrap) -> Key {
        let NewWrap { number, mut facts, foreign, detail } = new;
        let (key, unneeded) = {
            let mut state = self.state.lock();
            let (used, unneeded) = state.join_foreign(foreign);
            // SAFETY: the block is `new`'s alone until the record is there.
            let wrap = unsafe { facts.as_mut() };
            wrap.foreign = used;
            let size = wrap.size;
            let Some(slot) = state.table.get_mut(number) else { return Key { place: 0, slot: number, generation: 0 } };
            let generation = slot.taken().unwrap_or(0);
            *slot = Record::Wrapped(Wrapped { facts, detail, crops: 0, generation, maps: 0, maps_by_id: 0, state: Life::Live });
            state.counts.wrapped += 1;
            state.counts.wrapped_bytes += size;
            (Key { place: PLACE.pack(), slot: number, generation }, unneeded)
        };
        let _ = Rest { foreign: unneeded, ..Rest::default() }.free(memory);
        key
    }

    /// Ends a wrapping. Refused while it has crops or mappings, unless it may `wait` for the last of them.
    pub(crate) fn end_wrap(&self, key: Key, wait: bool) -> Result<Rest, Misuse> {
        let mut state = self.state.lock();
        let State { table, counts, .. } = &mut *state;
        match table.get_mut(key.slot) {
            Some(Record::Wrapped(wrapped)) if wrapped.generation == key.generation && wrapped.state == Life::Live => {
                if wrapped.crops > 0 || wrapped.maps > 0 {
                    if !wait {
                        return Err(if wrapped.crops > 0 { Misuse::HasCrops } else { Misuse::Mapped });
                    }
                    wrapped.state = Life::Waiting;
                    counts.waiting += 1;
                    return Ok(Rest::default());
                }
            }
            _ => return Err(Misuse::Stale),
        }
        Ok(state.drop_wrapped(key.slot))
    }

    /// Everything that wrappings and names hold, when the allocator goes with some of them left.
    pub(super) fn end_all(&mut self, memory: &dyn HostAllocator) {
        let state = self.state.get_mut();
        let mut number = 0;
        while let Some(record) = state.table.get_mut(number) {
            let mut rest = match record {
                Record::Wrapped(_) => state.drop_wrapped(number),
                Record::Root(root) => Rest { details: [root.detail.take(), None], ..Rest::default() },
                Record::Crop(crop) => Rest { details: [crop.detail.take(), None], ..Rest::default() },
                Record::Free { .. } | Record::Taken { .. } => Rest::default(),
            };
            rest.root = None;
            let _ = rest.free(memory);
            number += 1;
        }
    }
}

impl Wrapped {
    pub(super) fn facts(&self) -> Wrap {
        // SAFETY: the block lives as long as the record, and nobody changes it once the record is there.
        unsafe { self.facts.read() }
    }

    pub(super) fn key(&self, number: u32) -> Key {
        Key { place: PLACE.pack(), slot: number, generation: self.generation }
    }
}

impl Wrap {
    pub(crate) fn foreign(&self) -> Option<&Foreign> {
        // SAFETY: a wrap is copied out of its record by a call whose mapping the record counts: until that ends, the record and what it
        // refers to stay. The fields that others change meanwhile are not read through this.
        self.foreign.map(|foreign| unsafe { foreign.as_ref() })
    }
}

impl State {
    /// The entry of the memory object that `new` is of: `new` itself, or the one that is there already; and what is not needed.
    fn join_foreign(&mut self, new: Option<NonNull<Foreign>>) -> (Option<NonNull<Foreign>>, Option<NonNull<Foreign>>) {
        let Some(new) = new else { return (None, None) };
        // SAFETY: a block of the caller's own, written.
        let fresh = unsafe { new.as_ref() };
        let mut entry = self.foreign;
        while let Some(there) = entry {
            // SAFETY: in the list, hence live; nobody has an exclusive reference to an entry.
            let one = unsafe { there.as_ref() };
            if one.memory == fresh.memory {
                one.users.fetch_add(1, Ordering::Relaxed);
                return (Some(there), Some(new));
            }
            entry = one.next();
        }
        fresh.set_next(self.foreign);
        self.foreign = Some(new);
        (Some(new), None)
    }

    /// One user less; the entry, unlinked, when that was the last.
    fn leave_foreign(&mut self, left: NonNull<Foreign>) -> Option<NonNull<Foreign>> {
        // SAFETY: it has a user, hence lives.
        let gone = unsafe { left.as_ref() };
        if gone.users.fetch_sub(1, Ordering::Relaxed) > 1 {
            return None;
        }
        if self.foreign == Some(left) {
            self.foreign = gone.next();
        }
        let mut entry = self.foreign;
        while let Some(there) = entry {
            // SAFETY: in the list, hence live.
            let one = unsafe { there.as_ref() };
            if one.next() == Some(left) {
                one.set_next(gone.next());
                break;
            }
            entry = one.next();
        }
        Some(left)
    }

    pub(super) fn drop_wrapped(&mut self, number: u32) -> Rest {
        let Some(Record::Wrapped(wrapped)) = self.table.get_mut(number) else { return Rest::default() };
        let facts = wrapped.facts();
        let rest = Rest { details: [wrapped.detail.take(), None], wrap: Some(wrapped.facts), ..Rest::default() };
        self.table.put_back(number, true);
        self.counts.wrapped = self.counts.wrapped.saturating_sub(1);
        self.counts.wrapped_bytes = self.counts.wrapped_bytes.saturating_sub(facts.size);
        Rest { foreign: facts.foreign.and_then(|foreign| self.leave_foreign(foreign)), ..rest }
    }
}
