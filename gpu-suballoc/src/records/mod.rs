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
//! ([`Records::prepare_root`] and its siblings), so that what follows cannot fail; freeing takes none.

mod array;
mod detail;
mod foreign;
mod index;
mod kinds;
mod parked;
mod record;
mod report;
mod roots;
mod shares;
mod state;
mod table;
mod wraps;

pub(crate) use foreign::Foreign;
pub(crate) use kinds::Kind;
pub use record::Backing;
pub(crate) use record::{Key, NIL, Wrap};
pub(crate) use report::{Alias, CROP, Facts};
pub(crate) use roots::{GoneRoot, NewRoot, Seen, SeenCrop};
pub(crate) use shares::NewShare;
pub(crate) use state::Counts;

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{HostAllocator, HostError, Scope};

use self::array::{Array, Spare};
use self::detail::Detail;
use self::index::Filter;
use self::record::{Record, Wrap as WrapFacts};
use self::state::{Lacks, Need, State};
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
    /// With room for the first kinds of buffers, and for all that may be kept.
    pub(crate) fn new(memory: &dyn HostAllocator, keep: u32) -> Result<Self, GpuError> {
        let mut state = State::new();
        let made = state.furnish(memory, keep);
        if let Err(error) = made {
            state.strip(memory);
            return Err(error);
        }
        Ok(Self { state: Guarded::new(state), filter: Filter::new() })
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

    /// Slots of the caller's own, to be filled or handed back, and room for what else it needs: all or nothing.
    fn reserve(&self, memory: &dyn HostAllocator, need: &Need) -> Result<Slots, GpuError> {
        let lacks = {
            let mut state = self.state.lock();
            let lacks = state.lacks(need)?;
            if lacks.iter().all(Option::is_none) {
                return Ok(state.take_slots(need.slots));
            }
            lacks
        };
        self.reserve_with(memory, need, lacks)
    }

    #[cold]
    fn reserve_with(&self, memory: &dyn HostAllocator, need: &Need, mut lacks: Lacks) -> Result<Slots, GpuError> {
        loop {
            let mut blocks = [None::<Spare>; 4];
            for (lack, block) in lacks.iter().zip(&mut blocks) {
                let Some(lack) = lack else { continue };
                match lack.layout().ok_or(GpuError::Host(HostError::TooLarge)).and_then(|layout| take(memory, layout)) {
                    Ok(taken) => *block = Some(taken),
                    Err(error) => {
                        give(memory, blocks);
                        return Err(error);
                    }
                }
            }
            let mut spares = [None::<Spare>; 4];
            let slots = {
                let mut state = self.state.lock();
                for ((lack, block), spare) in lacks.iter().zip(blocks).zip(&mut spares) {
                    if let (Some(lack), Some((block, _))) = (lack, block) {
                        // SAFETY: just taken with the lack's layout.
                        *spare = unsafe { state.supply(*lack, block) };
                    }
                }
                match state.lacks(need) {
                    Ok(still) if still.iter().all(Option::is_none) => {
                        Ok(Some(Slots { fresh: true, ..state.take_slots(need.slots) }))
                    }
                    Ok(still) => {
                        lacks = still;
                        Ok(None)
                    }
                    Err(limit) => Err(limit),
                }
            };
            give(memory, spares);
            if let Some(slots) = slots? {
                return Ok(slots);
            }
        }
    }

    /// Undoes [`reserve`](Records::reserve) where nothing was put in; a chunk that was taken for it goes back too.
    fn unreserve(&self, memory: &dyn HostAllocator, slots: Slots) {
        let spare = {
            let mut state = self.state.lock();
            for number in [slots.second, slots.first].into_iter().filter(|number| *number != NIL) {
                state.table.put_back(number, false);
            }
            if slots.fresh { state.table.withdraw_chunk() } else { None }
        };
        give(memory, [spare]);
    }

    /// Gives a live record a name that [`NewName::new`] made, in place of the one it had.
    pub(crate) fn put_name(&self, memory: &dyn HostAllocator, number: u32, key: Key, new: NewName) -> Result<(), GpuError> {
        let NewName(detail) = new;
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
        self.state.get_mut().strip(memory);
    }
}

/// A name in the making, with tag and site.
#[must_use = "it holds memory: put it in, or free it"]
pub(crate) struct NewName(Option<Detail>);

impl NewName {
    pub(crate) fn new(memory: &dyn HostAllocator, options: &RegionOptions<'_>) -> Result<Self, GpuError> {
        Ok(Self(Detail::new(memory, options)?))
    }

    pub(crate) fn free(self, memory: &dyn HostAllocator) {
        if let Some(detail) = self.0 {
            detail.free(memory);
        }
    }
}

/// Slots that a call may put something in; `NIL` where it wanted fewer.
#[derive(Clone, Copy)]
struct Slots {
    first: u32,
    second: u32,
    /// A chunk may have been taken for them.
    fresh: bool,
}

impl State {
    fn take_slots(&mut self, count: u32) -> Slots {
        let first = if count > 0 { self.table.take() } else { None };
        let second = if count > 1 { self.table.take() } else { None };
        Slots { first: first.unwrap_or(NIL), second: second.unwrap_or(NIL), fresh: false }
    }

    fn furnish(&mut self, memory: &dyn HostAllocator, keep: u32) -> Result<(), GpuError> {
        let kinds = self.kinds.lacks().unwrap_or_default();
        let layout = Array::<Kind>::layout(kinds).ok_or(HostError::TooLarge)?;
        let (block, _) = take(memory, layout)?;
        // SAFETY: just taken with the layout.
        let spare = unsafe { self.kinds.array().supply(kinds, block) };
        give(memory, [spare]);
        if keep > 0 {
            let layout = Array::<parked::Parked>::layout(keep).ok_or(HostError::TooLarge)?;
            let (block, _) = take(memory, layout)?;
            // SAFETY: just taken with the layout.
            let spare = unsafe { self.park.array().supply(keep, block) };
            give(memory, [spare]);
        }
        Ok(())
    }

    fn strip(&mut self, memory: &dyn HostAllocator) {
        while let Some(spare) = self.dismantle() {
            give(memory, [Some(spare)]);
        }
    }
}

fn take(memory: &dyn HostAllocator, layout: Layout) -> Result<Spare, GpuError> {
    match memory.allocate(layout, Scope::Object) {
        Ok(block) => Ok((block, layout)),
        Err(_) => Err(GpuError::Host(memory.refusal(layout, Scope::Object))),
    }
}

fn give(memory: &dyn HostAllocator, spares: impl IntoIterator<Item = Option<Spare>>) {
    for (block, layout) in spares.into_iter().flatten() {
        // SAFETY: taken with this layout and scope by `take`, from the one allocator of these records; nobody refers to it any more.
        unsafe { memory.deallocate(block, layout, Scope::Object) };
    }
}
