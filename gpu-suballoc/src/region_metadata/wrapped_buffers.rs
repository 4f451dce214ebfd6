//! Buffers of the application's: records that come and go, while what they name is never touched.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use alloc_core::{HostAllocator, Scope};

use super::detail::RegionDetail;
use super::foreign::ForeignMemory;
use super::record::{RegionRecord, WrappedBuffer, WrappedRecord};
use super::root_state::RootState as Life;
use super::state::{MetadataState, RecordReservation};
use super::{Leftovers, RegionMetadata, ReservedSlots};
use crate::error::{GpuError, GpuMisuse, Limit};
use crate::id::{RegionPlace, RegionSlot};
use crate::property_flags::PropertyFlags;
use crate::request::RegionOptions;

pub(super) const WRAP: Layout = Layout::new::<WrappedBuffer>();
pub(super) const FOREIGN: Layout = Layout::new::<ForeignMemory>();

/// Everything that wrapping takes, so that wrapping itself cannot fail.
#[must_use = "it holds memory: put it in"]
pub(crate) struct NewWrappedBuffer {
    slots: ReservedSlots,
    buffer_info: NonNull<WrappedBuffer>,
    foreign: Option<NonNull<ForeignMemory>>,
    detail: Option<RegionDetail>,
}

impl RegionMetadata {
    /// Takes what a wrapping needs: all or nothing.
    pub(crate) fn prepare_wrap(
        &self,
        memory: &dyn HostAllocator,
        wrap: WrappedBuffer,
        options: &RegionOptions<'_>,
    ) -> Result<NewWrappedBuffer, GpuError> {
        let mut rest = Leftovers::default();
        let made = self.allocate_wrap(memory, wrap, options, &mut rest);
        if made.is_err() {
            let _ = rest.free(memory);
        }
        made
    }

    /// What was taken is in `rest` until all is there.
    fn allocate_wrap(
        &self,
        memory: &dyn HostAllocator,
        wrap: WrappedBuffer,
        options: &RegionOptions<'_>,
        rest: &mut Leftovers,
    ) -> Result<NewWrappedBuffer, GpuError> {
        let take = |layout: Layout| {
            memory
                .allocate(layout, Scope::Object)
                .map_err(|_| GpuError::Host(memory.refusal(layout, Scope::Object)))
        };
        let facts = take(WRAP)?.cast::<WrappedBuffer>();
        // SAFETY: just taken with the layout of one.
        unsafe { facts.write(wrap) };
        rest.wrap = Some(facts);
        if let Some(backing) = wrap.backing
            && backing.mapped.is_none()
            && backing.properties.contains(PropertyFlags::HOST_VISIBLE)
        {
            let foreign = take(FOREIGN)?.cast::<ForeignMemory>();
            // SAFETY: just taken with the layout of one.
            unsafe { foreign.write(ForeignMemory::new(backing.memory, backing.memory_size)) };
            rest.foreign = Some(foreign);
        }
        rest.details = [RegionDetail::new(memory, options)?, None];
        let slots = self.reserve(
            memory,
            &RecordReservation {
                slots: 1,
                ..RecordReservation::default()
            },
        )?;
        let [detail, _] = core::mem::take(&mut rest.details);
        Ok(NewWrappedBuffer {
            slots,
            buffer_info: facts,
            foreign: rest.foreign,
            detail,
        })
    }

    /// From here on the buffer is wrapped: its key.
    ///
    /// # Errors
    /// [`Limit::WrappedBytes`]: nothing is left of it.
    pub(crate) fn insert_wrap(
        &self,
        memory: &dyn HostAllocator,
        new: NewWrappedBuffer,
    ) -> Result<RegionSlot, GpuError> {
        let NewWrappedBuffer {
            slots,
            buffer_info: facts,
            foreign,
            detail,
        } = new;
        let number = slots.first;
        let (key, rest) = {
            let mut state = self.state.lock();
            // SAFETY: the block is `new`'s alone until the record is there.
            let size = unsafe { facts.as_ref() }.size;
            match state.counts.wrapped_bytes.checked_add(size) {
                None => {
                    let short_by = size
                        .wrapping_add(state.counts.wrapped_bytes)
                        .wrapping_add(1);
                    let rest = Leftovers {
                        details: [detail, None],
                        wrap: Some(facts),
                        foreign,
                        root: None,
                    };
                    (Err(Limit::WrappedBytes { short_by }.into()), rest)
                }
                Some(bytes) => {
                    state.counts.wrapped_bytes = bytes;
                    state.counts.wrapped += 1;
                    let unneeded = state.insert_wrap(number, facts, foreign, detail);
                    let generation = state.table.get(number).map_or(0, RegionRecord::generation);
                    (
                        Ok(RegionSlot {
                            place: RegionPlace::WRAPPED,
                            slot: number,
                            generation,
                        }),
                        Leftovers {
                            foreign: unneeded,
                            ..Leftovers::default()
                        },
                    )
                }
            }
        };
        let _ = rest.free(memory);
        if key.is_err() {
            self.unreserve(memory, slots);
        }
        key
    }

    /// Ends a wrapping. Refused while it has crops or mappings, unless it may `wait` for the last of them.
    pub(crate) fn end_wrap(&self, key: RegionSlot, wait: bool) -> Result<Leftovers, GpuMisuse> {
        let mut state = self.state.lock();
        let MetadataState { table, counts, .. } = &mut *state;
        match table.get_mut(key.slot) {
            Some(RegionRecord::Wrapped(wrapped))
                if wrapped.key(key.slot) == key && wrapped.state == Life::Live =>
            {
                if wrapped.crops > 0 || wrapped.maps > 0 {
                    if !wait {
                        return Err(if wrapped.crops > 0 {
                            GpuMisuse::HasCrops
                        } else {
                            GpuMisuse::Mapped
                        });
                    }
                    wrapped.state = Life::PendingFree;
                    counts.pending_free += 1;
                    return Ok(Leftovers::default());
                }
            }
            _ => return Err(GpuMisuse::Stale),
        }
        Ok(state.remove_wrapped(key.slot))
    }

    /// Everything that wrappings and names hold, when the allocator goes with some of them left.
    pub(super) fn free_all_wraps(&mut self, memory: &dyn HostAllocator) {
        let state = self.state.get_mut();
        let mut number = 0;
        while let Some(record) = state.table.get_mut(number) {
            let mut rest = match record {
                RegionRecord::Wrapped(_) => state.remove_wrapped(number),
                RegionRecord::Root(root) => Leftovers {
                    details: [root.detail.take(), None],
                    ..Leftovers::default()
                },
                RegionRecord::Crop(crop) => Leftovers {
                    details: [crop.detail.take(), None],
                    ..Leftovers::default()
                },
                RegionRecord::Free { .. } | RegionRecord::Reserved { .. } => Leftovers::default(),
            };
            rest.root = None;
            let _ = rest.free(memory);
            number += 1;
        }
    }
}

impl WrappedRecord {
    pub(super) fn buffer_info(&self) -> WrappedBuffer {
        // SAFETY: the block lives as long as the record, and nobody changes it once the record is there.
        unsafe { self.buffer_info.read() }
    }
}

impl WrappedBuffer {
    pub(crate) fn foreign(&self) -> Option<&ForeignMemory> {
        // SAFETY: a wrap is copied out of its record by a call whose mapping the record counts: until that ends, the record and what it
        // refers to stay. The fields that others change meanwhile are not read through this.
        self.foreign.map(|foreign| unsafe { foreign.as_ref() })
    }
}

impl MetadataState {
    /// Fills the slot that was reserved; answers what is not needed of `foreign`.
    fn insert_wrap(
        &mut self,
        number: u32,
        mut facts: NonNull<WrappedBuffer>,
        foreign: Option<NonNull<ForeignMemory>>,
        detail: Option<RegionDetail>,
    ) -> Option<NonNull<ForeignMemory>> {
        let (used, unneeded) = self.share_foreign(foreign);
        // SAFETY: the block is the caller's alone until the record is there.
        unsafe { facts.as_mut() }.foreign = used;
        if let Some(slot) = self.table.get_mut(number) {
            let generation = slot.reserved_generation().unwrap_or(0);
            *slot = RegionRecord::Wrapped(WrappedRecord {
                buffer_info: facts,
                detail,
                crops: 0,
                generation,
                maps: 0,
                maps_by_id: 0,
                state: Life::Live,
            });
        }
        unneeded
    }

    /// The entry of the memory object that `new` is of: `new` itself, or the one that is there already; and what is not needed.
    fn share_foreign(
        &mut self,
        new: Option<NonNull<ForeignMemory>>,
    ) -> (
        Option<NonNull<ForeignMemory>>,
        Option<NonNull<ForeignMemory>>,
    ) {
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
    fn release_foreign(&mut self, left: NonNull<ForeignMemory>) -> Option<NonNull<ForeignMemory>> {
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

    pub(super) fn remove_wrapped(&mut self, number: u32) -> Leftovers {
        let Some(RegionRecord::Wrapped(wrapped)) = self.table.get_mut(number) else {
            return Leftovers::default();
        };
        let facts = wrapped.buffer_info();
        let rest = Leftovers {
            details: [wrapped.detail.take(), None],
            wrap: Some(wrapped.buffer_info),
            ..Leftovers::default()
        };
        self.table.release(number, true);
        self.counts.wrapped = self.counts.wrapped.saturating_sub(1);
        self.counts.wrapped_bytes = self.counts.wrapped_bytes.saturating_sub(facts.size);
        Leftovers {
            foreign: facts
                .foreign
                .and_then(|foreign| self.release_foreign(foreign)),
            ..rest
        }
    }
}
