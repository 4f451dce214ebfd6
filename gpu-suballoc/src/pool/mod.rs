//! Blocks of device memory, the pools they lie in, and the limits they keep.
//!
//! ```text
//!   Pools --- DeviceFacts, Choices (which type), Ledger (limits, budgets)
//!     |
//!     +-- Pool: a memory type, linear or optimal; or a user's own      one lock each; nobody is called while it is held
//!           +-- Blocks: slots, and the order in which they are tried   RangeCore: who has which bytes of a block
//!           |           Store: the nodes of all its cores
//!           +-- Alone: memory objects with one region
//!           +-- pages, slabs: ranges of blocks, for what dies together, and for what is small
//! ```
//!
//! A region is placed in three steps: with what there is, under the lock; else with records that were lacking, fetched outside of it; else
//! with a block that the driver is asked for. While a block is being made those who need no more than it will hold wait for it.

mod address;
mod alone;
mod ask;
mod atoms;
mod batch;
mod blocks;
mod choice;
mod classed;
mod close;
mod custom;
mod device_facts;
mod env;
mod facts;
mod give;
mod growth;
mod ledger;
mod line;
mod make;
mod map;
mod object;
mod options;
mod order;
mod place;
mod state;
mod table;
#[cfg(all(test, feature = "testing"))]
mod tests;
mod upkeep;
mod views;

pub(crate) use ask::{Ask, BARE, FoundRegion, Placed, Where};
pub(crate) use env::Env;
pub use options::{MapPolicy, MemoryOptions, PoolAlgorithm, PoolOptions};
pub(crate) use views::Seen;

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use choice::Choices;
use device_facts::DeviceFacts;
use facts::Facts;
use growth::Growth;
use ledger::Ledger;
use state::State;

use crate::device::{DeviceMemory, ExternalHandleTypes};
use crate::error::{GpuError, Misuse};
use crate::id::Place;
use crate::memory_type::MAX_MEMORY_TYPES;
use crate::range::Memory;
use crate::request::ResourceKind;
use crate::sync::{AtomicPtr, AtomicU64, Guarded, Ordering};

/// How many pools there can be.
const POOLS: usize = Place::POOLS as usize;
/// The first of the users' own pools: before it are two for each memory type.
const FIRST_CUSTOM: u16 = 2 * MAX_MEMORY_TYPES as u16;

/// A pool, once made, stays until the allocator goes.
type Pool = Guarded<State>;

/// All memory of one device: a pool for each memory type and kind of resource, and those that the user made.
pub(crate) struct Pools {
    device: DeviceFacts,
    options: MemoryOptions,
    choices: Choices,
    /// Taken within a pool's lock, never the other way round.
    ledger: Guarded<Ledger>,
    /// The frame that budgets were last asked for in, and 1; 0 before the first.
    frame: AtomicU64,
    pools: [AtomicPtr<Pool>; POOLS],
}

impl Pools {
    /// Takes no memory: pools are made when they are first needed.
    ///
    /// # Errors
    /// [`Misuse::BadOptions`].
    pub(crate) fn new(device: &dyn DeviceMemory, options: &MemoryOptions) -> Result<Self, GpuError> {
        if !options.is_sound() {
            return Err(Misuse::BadOptions.into());
        }
        let facts = DeviceFacts::new(device, options);
        let mut ledger = Ledger::new(facts.max_objects, options.max_bytes);
        for ((heap, size), limit) in facts.heaps().zip(options.heap_limits) {
            ledger.set_heap(heap, size, limit);
        }
        let pools = Self {
            device: facts,
            options: *options,
            choices: Choices::new(),
            ledger: Guarded::new(ledger),
            frame: AtomicU64::new(0),
            pools: [const { AtomicPtr::new(ptr::null_mut()) }; POOLS],
        };
        pools.ask_budgets(device);
        Ok(pools)
    }

    #[inline]
    fn pool(&self, index: u16) -> Option<&Pool> {
        // Acquire: the pool was written before its address.
        let pool = NonNull::new(self.pools.get(usize::from(index))?.load(Ordering::Acquire))?;
        // SAFETY: a pool stays where it is until `take_pool`, which has `&mut self`; it is shared by reference alone.
        Some(unsafe { pool.as_ref() })
    }

    fn all(&self) -> impl Iterator<Item = &Pool> {
        (0..Place::POOLS as u16).filter_map(|index| self.pool(index))
    }

    /// The device's own pool of that type and kind.
    #[inline]
    fn index_of(&self, memory_type: u32, kind: ResourceKind) -> u16 {
        let optimal = self.device.granularity > 1 && kind == ResourceKind::Optimal;
        (memory_type as u16 & (MAX_MEMORY_TYPES as u16 - 1)) * 2 + u16::from(optimal)
    }

    /// The device's own pool of that type and kind, made where it is not there yet.
    fn pool_of(&self, env: Env<'_>, memory_type: u32, kind: ResourceKind) -> Result<&Pool, GpuError> {
        let index = self.index_of(memory_type, kind);
        if let Some(pool) = self.pool(index) {
            return Ok(pool);
        }
        let kind = if index & 1 == 1 { ResourceKind::Optimal } else { ResourceKind::Linear };
        let (facts, growth) = self.facts(index, memory_type, kind).ok_or(Misuse::BadOptions)?;
        self.put_pool(env, State::new(facts, growth))?;
        self.pool(index).ok_or_else(|| Misuse::NoSuchPool.into())
    }

    /// What a pool of that type begins with.
    fn facts(&self, index: u16, memory_type: u32, kind: ResourceKind) -> Option<(Facts, Growth)> {
        let (described, heap_size) = self.device.memory_type(memory_type)?;
        let growth = Growth::new(heap_size, self.device.largest_object(heap_size), &self.options);
        let facts = Facts {
            index,
            generation: 0,
            memory_type,
            heap: described.heap_index,
            properties: described.properties,
            kind,
            granule_log2: self.device.granule_log2,
            granularity: self.device.granularity,
            page: self.page_of(&growth),
            is_fixed: false,
            linear: false,
            min_blocks: 0,
            max_blocks: u32::MAX,
            max_bytes: u64::MAX,
            keep_empty: self.options.keep_empty.unwrap_or(growth.max()),
            priority: None,
            min_alignment: 1,
            export: ExternalHandleTypes::NONE,
            next: None,
            device_address: self.options.device_address && self.device.features.buffer_device_address,
        };
        Some((facts, growth))
    }

    /// The size of transient pages: what the options say, or half of the first block where that is less.
    fn page_of(&self, growth: &Growth) -> u64 {
        let half = growth.preferred() / 2;
        let below = half.checked_next_power_of_two().map_or(0, |above| if above == half { half } else { above / 2 });
        self.options.page.min(below).max(16 << self.device.granule_log2)
    }

    /// Puts a new pool at its index, where there is none. False where another thread has put one there.
    fn put_pool(&self, env: Env<'_>, state: State) -> Result<bool, GpuError> {
        let place = self.pools.get(usize::from(state.facts.index)).ok_or(Misuse::NoSuchPool)?;
        let layout = Layout::new::<Pool>();
        let block = env.take(layout)?;
        let pool = block.cast::<Pool>();
        // SAFETY: a fresh block of the layout of a pool.
        unsafe { pool.write(Guarded::new(state)) };
        // Release: the pool is written before its address.
        let put = place.compare_exchange(ptr::null_mut(), pool.as_ptr(), Ordering::Release, Ordering::Relaxed).is_ok();
        if !put {
            // A new state owns nothing, so that nothing is lost with it.
            env.give(Memory { block, layout });
        }
        Ok(put)
    }

    /// Takes a pool out at the end, and the memory it lay in.
    fn take_pool(&mut self, index: u16) -> Option<(Pool, Memory)> {
        let place = self.pools.get_mut(usize::from(index))?.get_mut();
        let pool = NonNull::new(core::mem::replace(place, ptr::null_mut()))?;
        // SAFETY: it was written by `put_pool`, and its address is gone with this: it is read once.
        let state = unsafe { pool.read() };
        Some((state, Memory { block: pool.cast(), layout: Layout::new::<Pool>() }))
    }
}

// A pointer is shared whatever it points at: what is behind must be fit for it.
const _: () = {
    const fn is_shared<T: Sync>() {}
    is_shared::<Pool>();
};
