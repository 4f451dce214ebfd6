//! What regions have beyond a place in memory: resources, names, crops, mappings; and who is not the allocator's own.
//!
//! ```text
//!   Region --- bare: nothing here
//!          \-- buffer, image, name, crop, mapping --- word of its place ---> record (Root)
//!   RegionId of a wrapped buffer or a crop: the record's own number and generation
//!
//!   Crop --- root: number ---> Root | Wrapped       always the root, never another crop; offsets from the root's start
//! ```
//!
//! Every method takes the lock for itself, for moments, and calls nobody under it. A call that needs memory here takes it first
//! ([`Records::slot`] and its siblings), so that what follows cannot fail; freeing takes none.

mod array;
mod detail;
mod foreign;
mod index;
mod kinds;
mod parked;
mod record;
mod report;
mod roots;
mod state;
mod table;
mod wraps;

pub(crate) use foreign::Foreign;
pub(crate) use kinds::Kind;
pub use record::Backing;
pub(crate) use record::{Key, NIL, Wrap};
pub(crate) use report::{Alias, CROP, Facts};
pub(crate) use roots::{GoneRoot, NewRoot, Seen};
pub(crate) use state::Counts;

use core::ptr::NonNull;

use alloc_core::{HostAllocator, Scope};

use self::detail::Detail;
use self::index::Filter;
use self::record::{Record, Wrap as WrapFacts};
use self::state::{Need, State};
use crate::error::{GpuError, Misuse};
use crate::request::RegionOptions;
use crate::sync::Guarded;

/// All records of one allocator.
pub(crate) struct Records {
    state: Guarded<State>,
    filter: Filter,
}

/// What a call that ends something leaves to be given back, outside of the lock.
#[must_use = "it holds memory and a root to be given back"]
#[derive(Default)]
pub(crate) struct Rest {
    /// A root that went with its last crop or mapping: its resource and its memory are the caller's to give back.
    pub(crate) root: Option<GoneRoot>,
    details: [Option<Detail>; 2],
    wrap: Option<NonNull<WrapFacts>>,
    foreign: Option<NonNull<Foreign>>,
}

impl Rest {
    /// Gives the memory of the records back.
    pub(crate) fn free(self, memory: &dyn HostAllocator) -> Option<GoneRoot> {
        for detail in self.details.into_iter().flatten() {
            detail.free(memory);
        }
        if let Some(wrap) = self.wrap {
            // SAFETY: taken with this layout and scope in `prepare_wrap`; its record is gone.
            unsafe { memory.deallocate(wrap.cast(), wraps::WRAP, Scope::Object) };
        }
        if let Some(foreign) = self.foreign {
            // SAFETY: taken with this layout and scope in `prepare_wrap`; its last user is gone.
            unsafe { memory.deallocate(foreign.cast(), wraps::FOREIGN, Scope::Object) };
        }
        self.root
    }
}

impl Records {
    pub(crate) const fn new() -> Self {
        Self { state: Guarded::new(State::new()), filter: Filter::new() }
    }

    /// False: there is certainly no record of this region in the index. One relaxed load.
    #[inline]
    pub(crate) fn may_know(&self, key: Key) -> bool {
        self.filter.may_have(key)
    }

    pub(crate) fn counts(&self) -> Counts {
        let state = self.state.lock();
        Counts { parked: u64::from(state.park.len()), parked_bytes: state.park.bytes(), ..state.counts }
    }

    /// Supplies everything that `need` may take, outside of the lock.
    fn make_ready(&self, memory: &dyn HostAllocator, need: &Need) -> Result<(), GpuError> {
        loop {
            let Some(lack) = self.state.lock().lacks(need)? else { return Ok(()) };
            let Some(layout) = lack.layout() else { return Err(alloc_core::HostError::TooLarge.into()) };
            let block =
                memory.allocate(layout, Scope::Object).map_err(|_| GpuError::Host(memory.refusal(layout, Scope::Object)))?;
            // SAFETY: just taken with the lack's layout.
            let spare = unsafe { self.state.lock().supply(lack, block) };
            if let Some((block, layout)) = spare {
                // SAFETY: a block that was supplied before, or the one just taken, with its layout.
                unsafe { memory.deallocate(block, layout, Scope::Object) };
            }
        }
    }

    /// A slot of the caller's own, to be filled or handed back.
    pub(crate) fn slot(&self, memory: &dyn HostAllocator) -> Result<u32, GpuError> {
        let need = Need { slot: true, ..Need::default() };
        loop {
            self.make_ready(memory, &need)?;
            if let Some(number) = self.state.lock().table.take() {
                return Ok(number);
            }
        }
    }

    /// Undoes [`slot`](Records::slot), where nothing was put in.
    pub(crate) fn hand_back(&self, number: u32) {
        self.state.lock().table.put_back(number, false);
    }

    /// Gives a live record its name, tag and site, in place of those it had.
    pub(crate) fn name(
        &self,
        memory: &dyn HostAllocator,
        number: u32,
        key: Key,
        options: &RegionOptions<'_>,
    ) -> Result<(), GpuError> {
        let detail = Detail::new(memory, options)?;
        let rest = {
            let mut state = self.state.lock();
            let place = match state.table.get_mut(number) {
                Some(Record::Root(root)) if root.key == key => Some(&mut root.detail),
                Some(Record::Wrapped(wrapped)) if wrapped.generation == key.generation => Some(&mut wrapped.detail),
                Some(Record::Crop(crop)) if crop.generation == key.generation => Some(&mut crop.detail),
                _ => None,
            };
            match place {
                Some(place) => Ok(core::mem::replace(place, detail)),
                None => Err(detail),
            }
        };
        let (left, result) = match rest {
            Ok(old) => (old, Ok(())),
            Err(new) => (new, Err(Misuse::Stale.into())),
        };
        if let Some(left) = left {
            left.free(memory);
        }
        result
    }

    /// All memory back. Names, wrapped buffers and their backing go with it.
    pub(crate) fn dismantle(&mut self, memory: &dyn HostAllocator) {
        self.end_all(memory);
        let state = self.state.get_mut();
        while let Some((block, layout)) = state.dismantle() {
            // SAFETY: a block that was supplied with this layout and scope, from the one allocator of these records.
            unsafe { memory.deallocate(block, layout, Scope::Object) };
        }
    }
}
