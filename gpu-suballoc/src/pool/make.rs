//! Memory objects: made outside of every lock, given back outside of every lock.

use super::alone::AloneRegion;
use super::ask::{Ask, Placed};
use super::blocks::LiveBlock;
use super::env::Env;
use super::ledger::Short;
use super::object::Object;
use super::{Pool, Pools};
use crate::device::{DeviceError, MemoryHandle, MemoryRequest};
use crate::error::{GpuError, Limit, Misuse};
use crate::id::{Place, PlaceKind};
use crate::range::{Memory, RangeCore};

/// Why there was no memory object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// Nothing else would help.
    Final(GpuError),
    /// Memory of another type might do, or a smaller object.
    Next(GpuError),
    /// A budget is used up: the driver might give it all the same.
    Budget(GpuError),
}

impl Stop {
    pub(super) const fn error(self) -> GpuError {
        match self {
            Self::Final(error) | Self::Next(error) | Self::Budget(error) => error,
        }
    }
}

impl From<GpuError> for Stop {
    fn from(error: GpuError) -> Self {
        Self::Final(error)
    }
}

impl From<Short> for Stop {
    fn from(short: Short) -> Self {
        let error = GpuError::Limit(short.limit);
        if short.budget { Self::Budget(error) } else { Self::Next(error) }
    }
}

impl From<DeviceError> for Stop {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::OutOfDeviceMemory | DeviceError::OutOfHostMemory | DeviceError::TooManyObjects => {
                Self::Next(error.into())
            }
            _ => Self::Final(error.into()),
        }
    }
}

/// How a shared block is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Bytes that it must hold in one piece.
    pub(super) need: u64,
    /// Where the driver refuses everything larger, exactly the need is asked for.
    pub(super) exact: bool,
    pub(super) within_budget: bool,
    /// How many blocks had been made when there was no room: if there is another by now, it may have some.
    pub(super) seen: Option<u64>,
}

impl Pools {
    /// Makes a block that holds `plan.need` bytes, or waits a moment where another thread is at it. Afterwards there may be room.
    pub(super) fn grow(&self, env: Env<'_>, pool: &Pool, mut plan: Plan, tries: &mut u32) -> Result<(), Stop> {
        // Blocks are whole granules, also those that hold the need and nothing else.
        plan.need = plan.need.checked_next_multiple_of(1 << self.device.granule_log2).unwrap_or(u64::MAX);
        let (facts, growth, block) = loop {
            let mut state = pool.lock();
            let facts = state.facts;
            if !state.open {
                return Err(Stop::Final(Misuse::NoSuchPool.into()));
            }
            if plan.seen.is_some_and(|seen| seen != state.made) {
                return Ok(());
            }
            if state.making > 0 && state.making_room >= plan.need {
                drop(state);
                *tries = tries.wrapping_add(1);
                crate::threads::relax(*tries);
                return Ok(());
            }
            if state.objects >= facts.max_blocks {
                return Err(Stop::Next(Limit::Blocks { limit: facts.max_blocks }.into()));
            }
            let promised = state.making as usize + 1;
            let layout = state.blocks.order.ranks.lacks(promised);
            if let Some(layout) = layout {
                drop(state);
                let memory = env.take(layout)?;
                let mut state = pool.lock();
                // SAFETY: a fresh block of the layout that `lacks` named, the table's from now on.
                let old = unsafe { state.blocks.order.ranks.supply(layout, memory) };
                drop(state);
                env.give_some(old);
                continue;
            }
            let layout = if state.blocks.has_spare() { None } else { state.blocks.slots.lacks(1) };
            if let Some(layout) = layout {
                drop(state);
                let memory = env.take(layout)?;
                let mut state = pool.lock();
                // SAFETY: as above.
                let old = unsafe { state.blocks.slots.supply(layout, memory) };
                drop(state);
                env.give_some(old);
                continue;
            }
            let Some(block) = state.blocks.reserve(Place::BLOCKS) else {
                return Err(Stop::Next(Limit::Blocks { limit: Place::BLOCKS }.into()));
            };
            state.objects = state.objects.saturating_add(1);
            state.making = state.making.saturating_add(1);
            state.making_room = state.making_room.max(state.growth.preferred()).max(plan.need);
            break (facts, state.growth, block);
        };
        let making = Making { pool, place: block, alone: false };

        let mut stop = None;
        let left = facts.max_bytes.saturating_sub(pool.lock().bytes);
        let room = self.ledger.lock().room(facts.heap, plan.within_budget).min(left);
        // Where limits leave nothing, asking for the need says which of them it is.
        let nothing = growth.sizes(plan.need, room).next().is_none();
        let last = (nothing && plan.need <= growth.max() || plan.exact).then_some(plan.need);
        for size in growth.sizes(plan.need, room).chain(last) {
            match self.make_block(env, pool, block, size, plan.within_budget) {
                Ok(()) => {
                    core::mem::forget(making);
                    return Ok(());
                }
                Err(reason) => {
                    stop = Some(reason);
                    // Only a lack of memory is a reason to ask for less.
                    let of_memory = matches!(
                        reason,
                        Stop::Next(
                            GpuError::Device(DeviceError::OutOfDeviceMemory | DeviceError::OutOfHostMemory) | GpuError::Limit(_)
                        )
                    );
                    if !of_memory {
                        break;
                    }
                }
            }
        }
        drop(making);
        Err(stop.unwrap_or(Stop::Next(GpuError::TooLarge { bytes: plan.need, limit: growth.max() })))
    }

    /// One try, at one size, with the slot that was reserved.
    fn make_block(&self, env: Env<'_>, pool: &Pool, block: u32, size: u64, within: bool) -> Result<(), Stop> {
        let facts = pool.lock().facts;
        let mut core = RangeCore::new(size, facts.granule())
            .map_err(|_| Stop::Next(GpuError::TooLarge { bytes: size, limit: u64::from(u32::MAX) << facts.granule_log2 }))?;
        let heads = core.lacks().map(|layout| env.take(layout).map(|block| Memory { block, layout })).transpose()?;
        let request = MemoryRequest {
            priority: facts.priority,
            export: facts.export,
            next: facts.next,
            device_address: facts.device_address,
            ..MemoryRequest::new(size, facts.memory_type)
        };
        match self.object(env, pool, facts.heap, &request, within) {
            Ok(memory) => {
                let unused = heads.and_then(|heads| {
                    // SAFETY: a fresh block of the layout that the core lacks, its from now on until it gives it back.
                    unsafe { core.supply(heads.block) }
                });
                let mut state = pool.lock();
                state.blocks.install(block, LiveBlock { object: Object::new(memory, size), core });
                state.growth.made(size);
                state.made = state.made.wrapping_add(1);
                end_making(&mut state);
                drop(state);
                env.give_some(unused);
                Ok(())
            }
            Err(stop) => {
                env.give_some(heads);
                Err(stop)
            }
        }
    }

    /// A memory object of its own for a region.
    pub(super) fn place_alone(&self, env: Env<'_>, pool: &Pool, ask: &Ask, within: bool) -> Result<Placed, Stop> {
        let (facts, place) = loop {
            let mut state = pool.lock();
            let facts = state.facts;
            if !state.open || ask.pool.is_some_and(|id| id.generation != facts.generation) {
                return Err(Stop::Final(Misuse::NoSuchPool.into()));
            }
            if state.objects >= facts.max_blocks {
                return Err(Stop::Next(Limit::Blocks { limit: facts.max_blocks }.into()));
            }
            let layout = if state.alone.has_spare() { None } else { state.alone.slots.lacks(1) };
            if let Some(layout) = layout {
                drop(state);
                let memory = env.take(layout)?;
                let mut state = pool.lock();
                // SAFETY: a fresh block of the layout that `lacks` named, the table's from now on.
                let old = unsafe { state.alone.slots.supply(layout, memory) };
                drop(state);
                env.give_some(old);
                continue;
            }
            let Some(place) = state.alone.reserve(Place::BLOCKS) else {
                return Err(Stop::Next(Limit::Blocks { limit: Place::BLOCKS }.into()));
            };
            state.objects = state.objects.saturating_add(1);
            break (facts, place);
        };
        let making = Making { pool, place, alone: true };
        let request = MemoryRequest {
            dedicated: ask.resource.filter(|_| self.device.features.dedicated_allocation),
            priority: ask.priority.filter(|_| self.device.features.memory_priority).or(facts.priority),
            export: if ask.export.is_empty() { facts.export } else { ask.export },
            next: ask.next.or(facts.next),
            device_address: facts.device_address,
            ..MemoryRequest::new(ask.size, facts.memory_type)
        };
        let memory = self.object(env, pool, facts.heap, &request, within)?;
        let object = Object::new(memory, ask.size);
        let mut state = pool.lock();
        if !state.open {
            // It was destroyed meanwhile; its index is nobody else's while something is being made.
            drop(state);
            core::mem::forget(making);
            self.discard(env, pool, &object);
            pool.lock().alone.unreserve(place);
            return Err(Stop::Final(Misuse::NoSuchPool.into()));
        }
        let generation = state.alone.install(place, AloneRegion { object, word: ask.word });
        core::mem::forget(making);
        state.regions = state.regions.saturating_add(1);
        state.used = state.used.saturating_add(ask.size);
        let at = state.at(PlaceKind::Dedicated, place, 0, generation);
        Ok(Placed { at, memory, offset: 0, size: ask.size, memory_type: facts.memory_type, properties: facts.properties })
    }

    /// Asks the driver, within every limit: the bytes are entered before and, where it refuses, taken out again.
    fn object(&self, env: Env<'_>, pool: &Pool, heap: u32, request: &MemoryRequest, within: bool) -> Result<MemoryHandle, Stop> {
        let size = request.size;
        {
            let mut state = pool.lock();
            let left = state.facts.max_bytes.saturating_sub(state.bytes);
            if let Some(short_by) = size.checked_sub(left).filter(|short_by| *short_by > 0) {
                return Err(Stop::Next(Limit::Bytes { short_by }.into()));
            }
            self.ledger.lock().enter(heap, size, within)?;
            state.bytes = state.bytes.saturating_add(size);
        }
        let entered = Entered { pools: self, pool, heap, size };
        // SAFETY: type, size and features were checked against what the device said; the resource and the chain are the caller's
        // promise, given when the allocator was made.
        match unsafe { env.device.allocate(request) } {
            Ok(memory) => {
                core::mem::forget(entered);
                Ok(memory)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gives an object back to the driver, and then what was entered for it.
    pub(super) fn discard(&self, env: Env<'_>, pool: &Pool, object: &Object) {
        // SAFETY: the object was taken out of the pool, idle: nobody maps it, nobody can find it, nothing lies in it.
        unsafe { env.device.free(object.memory) };
        let mut state = pool.lock();
        state.forget(object.size);
        self.ledger.lock().leave(state.facts.heap, object.size);
    }
}

/// A place that is reserved for a memory object in the making. Dropped without one, also by a panic of an allocator or a device, the place
/// is free again, and nobody waits for it.
struct Making<'p> {
    pool: &'p Pool,
    place: u32,
    /// For one region, or a block.
    alone: bool,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.objects = state.objects.saturating_sub(1);
        if self.alone {
            state.alone.unreserve(self.place);
        } else {
            state.blocks.unreserve(self.place);
            end_making(&mut state);
        }
    }
}

/// Bytes that were entered before the driver was asked. Dropped, they are taken out again.
struct Entered<'p> {
    pools: &'p Pools,
    pool: &'p Pool,
    heap: u32,
    size: u64,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.pools.ledger.lock().leave(self.heap, self.size);
        let mut state = self.pool.lock();
        state.bytes = state.bytes.saturating_sub(self.size);
    }
}

fn end_making(state: &mut super::state::State) {
    state.making = state.making.saturating_sub(1);
    if state.making == 0 {
        state.making_room = 0;
    }
}
