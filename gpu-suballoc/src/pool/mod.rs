//! Blocks of device memory, the pools they lie in, and the limits they keep.
//!
//! ```text
//!   Pools --- DeviceMemoryInfo (types and heaps), MemoryBudget (limits, budgets)
//!     |
//!     +-- Pool: a memory type; or a custom pool                        one lock each; no callback runs while it is held
//!           +-- Blocks: slots                       RangeAllocator: the ranges of one block
//!           |           FreeIndex, NodeStore: the free ranges and the nodes of all blocks
//!           |           Turnover: which blocks are closed, so that they drain
//!           +-- DedicatedBlocks: memory objects with one region
//! ```
//!
//! Before a pool's lock is acquired for a request, its tables get their reserve of host memory (`host_memory.rs`).

mod block_sizes;
mod blocks;
mod budget;
mod config;
mod create_block;
mod custom;
pub(crate) mod defragment;
mod device_info;
mod map;
mod options;
mod place;
mod request;
mod state;
mod trim;
mod turnover;
mod walk;

pub(crate) use map::{HostAccess, whole_atoms};
pub use options::{MapPolicy, MemoryOptions, PoolOptions};
pub(crate) use request::{AllocationRequest, MOVE_TARGET, Suballocation};
pub(crate) use walk::WalkItem;

use alloc_core::HostAllocator;
use core::alloc::Layout;
use core::ops::Deref;
use core::ptr::{self, NonNull};

use block_sizes::Growth;
use budget::MemoryBudget;
use config::PoolConfig;
use device_info::DeviceMemoryInfo;
use state::PoolState;

use crate::device::{DeviceFeatures, DeviceMemory};
use crate::error::{GpuError, GpuMisuse};
use crate::host_memory::{self, HostBlock};
use crate::id::BlockRef;
use crate::memory_type::{MAX_MEMORY_TYPES, PropertyFlags};
use crate::sync::{AtomicPtr, AtomicU64, Ordering, StateMutex};
use crate::threads::Stopwatch;

const POOLS: usize = BlockRef::POOLS as usize;
const FIRST_CUSTOM: u16 = MAX_MEMORY_TYPES as u16;
const FIRST_PINNED: u16 = FIRST_CUSTOM + 384;

/// A pool, once created, stays until the allocator is dropped.
type Pool = StateMutex<PoolState>;

pub(crate) struct Pools {
    device_info: DeviceMemoryInfo,
    options: MemoryOptions,
    /// Locked within a pool's lock, never the other way round.
    budget: StateMutex<MemoryBudget>,
    /// 1 plus the frame of the last query of budgets; 0 before it.
    frame: AtomicU64,
    /// Nanoseconds.
    longest_wait: AtomicU64,
    created: Stopwatch,
    pools: [AtomicPtr<Pool>; POOLS],
}

#[derive(Clone, Copy)]
pub(crate) struct DevicePools<'a> {
    pub(crate) pools: &'a Pools,
    pub(crate) device: &'a dyn DeviceMemory,
    pub(crate) memory: &'a dyn HostAllocator,
}

impl Deref for DevicePools<'_> {
    type Target = Pools;

    #[inline(always)]
    fn deref(&self) -> &Pools {
        self.pools
    }
}

impl Pools {
    pub(crate) fn new(device: &dyn DeviceMemory, options: &MemoryOptions) -> Result<Self, GpuError> {
        if !options.is_sound() {
            return Err(GpuMisuse::BadOptions.into());
        }
        let device_info = DeviceMemoryInfo::new(device, options);
        let is_small = |bytes: u64| bytes < 1 << device_info.granule_log2;
        if options.max_block.is_some_and(is_small) || options.max_host_block.is_some_and(is_small) {
            return Err(GpuMisuse::BlockTooSmall.into());
        }
        let mut budget = MemoryBudget::new(device_info.max_objects, options.max_bytes);
        for ((heap, size), limit) in device_info.heaps().zip(options.heap_limits) {
            budget.set_heap(heap, size, limit);
        }
        Ok(Self {
            device_info,
            options: *options,
            budget: StateMutex::new(budget),
            frame: AtomicU64::new(0),
            longest_wait: AtomicU64::new(0),
            created: Stopwatch::start(),
            pools: [const { AtomicPtr::new(ptr::null_mut()) }; POOLS],
        })
    }

    #[inline]
    pub(crate) fn blocks_have_device_addresses(&self) -> bool {
        self.options.device_address && self.device_info.features.buffer_device_address
    }

    #[inline]
    pub(crate) fn margin(&self) -> u64 {
        self.options.margin.into()
    }

    /// What the host must flush has at least one whole atom, which can be flushed without a byte of the region.
    pub(crate) fn margin_of(&self, properties: PropertyFlags) -> u64 {
        if !properties.contains(PropertyFlags::HOST_VISIBLE) {
            0
        } else if properties.contains(PropertyFlags::HOST_COHERENT) {
            self.margin()
        } else {
            self.margin().next_multiple_of(self.device_info.atom)
        }
    }

    pub(crate) fn granule(&self) -> u64 {
        1 << self.device_info.granule_log2
    }

    #[inline]
    pub(crate) fn features(&self) -> DeviceFeatures {
        self.device_info.features
    }

    #[inline]
    fn pool(&self, index: u16) -> Option<&Pool> {
        let pool = NonNull::new(self.pools.get(usize::from(index))?.load(Ordering::Acquire))?;
        // SAFETY: a pool stays where it is until `remove_pool`, which has `&mut self`.
        Some(unsafe { pool.as_ref() })
    }

    #[inline]
    fn pool_at(&self, place: BlockRef) -> Result<&Pool, GpuMisuse> {
        self.pool(place.pool()).ok_or(GpuMisuse::Stale)
    }

    fn all(&self) -> impl Iterator<Item = &Pool> {
        (0..BlockRef::POOLS as u16).filter_map(|index| self.pool(index))
    }

    #[inline]
    fn index_of(&self, memory_type: u32, pinned: bool) -> u16 {
        let first = if pinned { FIRST_PINNED } else { 0 };
        first + (memory_type as u16 & (MAX_MEMORY_TYPES as u16 - 1))
    }

    fn growth_of(&self, properties: PropertyFlags, heap_size: u64) -> Growth {
        let info = &self.device_info;
        let limits = (info.max_memory_allocation_size, info.max_objects);
        Growth::new(heap_size, properties, limits, &self.options)
    }

    fn config_of(&self, index: u16, options: PoolOptions) -> Option<(PoolConfig, Growth)> {
        let (described, heap_size) = self.device_info.memory_type(options.memory_type)?;
        let growth = self.growth_of(described.properties, heap_size);
        let config = PoolConfig {
            index,
            generation: 0,
            heap: described.heap_index,
            properties: described.properties,
            granule_log2: self.device_info.granule_log2,
            granularity: self.device_info.granularity,
            margin: self.margin_of(described.properties),
            has_device_address: self.blocks_have_device_addresses(),
            options: PoolOptions { keep_empty: options.keep_empty.or(self.options.keep_empty), ..options },
        };
        Some((config, growth))
    }

    fn remove_pool(&mut self, index: u16) -> Option<(Pool, HostBlock)> {
        let place = self.pools.get_mut(usize::from(index))?.get_mut();
        let pool = NonNull::new(core::mem::replace(place, ptr::null_mut()))?;
        // SAFETY: `insert_pool` wrote it, and its address was removed above: it is read once.
        let state = unsafe { pool.read() };
        // SAFETY: `insert_pool` allocated it with this layout; no pointer to it is left.
        let memory = unsafe { HostBlock::new(pool.cast(), Layout::new::<Pool>()) };
        Some((state, memory))
    }
}

impl DevicePools<'_> {
    fn pool_of(&self, memory_type: u32, pinned: bool) -> Result<&Pool, GpuError> {
        let index = self.index_of(memory_type, pinned);
        if let Some(pool) = self.pool(index) {
            return Ok(pool);
        }
        let options = PoolOptions { pinned, ..PoolOptions::new(memory_type) };
        let (config, growth) = (self.config_of(index, options)).ok_or(GpuMisuse::BadOptions)?;
        self.insert_pool(PoolState::new(config, growth))?;
        self.pool(index).ok_or_else(|| GpuMisuse::NoSuchPool.into())
    }

    /// False if another thread has installed a pool there.
    fn insert_pool(&self, state: PoolState) -> Result<bool, GpuError> {
        let place = (self.pools.pools).get(usize::from(state.config.index)).ok_or(GpuMisuse::NoSuchPool)?;
        let layout = Layout::new::<Pool>();
        let memory = self.memory;
        let pool = HostBlock::allocate(memory, layout)?.into_start().cast::<Pool>();
        // SAFETY: a fresh block of the layout of a pool.
        unsafe { pool.write(StateMutex::new(state)) };
        // Release: the pool is written before its address.
        let put = place.compare_exchange(ptr::null_mut(), pool.as_ptr(), Ordering::Release, Ordering::Relaxed).is_ok();
        if !put {
            // SAFETY: allocated above with this layout; its address was never published.
            let unused = unsafe { HostBlock::new(pool.cast(), layout) };
            host_memory::free(memory, Some(unused));
        }
        Ok(put)
    }
}

// `AtomicPtr<T>` is `Sync` for any `T`.
const _: () = {
    const fn is_shared<T: Sync>() {}
    is_shared::<Pool>();
};
