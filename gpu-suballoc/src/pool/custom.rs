//! Custom pools.

use super::create_block::{BlockPlan, GrowthError};
use super::growth::Growth;
use super::options::PoolOptions;
use super::state::PoolState;
use super::{DevicePools, FIRST_CUSTOM, FIRST_PINNED, Pool};
use crate::error::{GpuError, GpuMisuse, Limit};
use crate::id::PoolId;
use crate::memory_type::MemoryPreference;
use crate::sync::Ordering;
use core::time::Duration;

impl DevicePools<'_> {
    /// Creates a pool. Returns its index and generation.
    ///
    /// # Errors
    /// [`GpuMisuse::BadOptions`], [`GpuMisuse::BlockTooSmall`], [`GpuMisuse::BadPriority`], [`GpuMisuse::NotEnabled`], [`GpuError::TooLarge`],
    /// [`GpuError::MemoryType`] for a type that the device cannot use, [`Limit::Pools`], or why its first blocks were not created.
    pub(crate) fn create_pool(&self, options: &PoolOptions) -> Result<(u16, u32), GpuError> {
        let state = self.custom_state(options)?;
        self.check_first_blocks(&state)?;
        let (pool, index, generation) = self.install_custom(state)?;
        let (need, min_blocks) = {
            let state = pool.lock();
            (state.growth.preferred(), state.config.min_blocks)
        };
        let mut tries = 0u32;
        while pool.lock().blocks.len() < min_blocks {
            // Each of them has the size that was checked: no one grows with those before it.
            pool.lock().growth.follow(0);
            let plan = BlockPlan {
                generation,
                need,
                exact: false,
                within_budget: self.options.within_budget,
                seen: None,
            };
            let grown =
                self.with_budgets_of_now(plan.within_budget, || self.grow(pool, plan, &mut tries));
            if let Err(reason) = grown {
                let _ = self.destroy_pool(index, generation);
                return Err(reason.error());
            }
        }
        Ok((index, generation))
    }

    /// Refuses a pool whose first blocks would exceed a limit, before one of them is created.
    fn check_first_blocks(&self, state: &PoolState) -> Result<(), GpuError> {
        let config = &state.config;
        let bytes = (state.growth.first_block()).saturating_mul(config.min_blocks.into());
        if bytes > config.max_bytes {
            let short_by = bytes - config.max_bytes;
            return Err(Limit::Bytes { short_by }.into());
        }
        let blocks = (config.min_blocks, bytes);
        let short = (self.budget.lock()).shortage(config.heap, blocks, false);
        short.map_or(Ok(()), |short| Err(short.limit.into()))
    }

    fn custom_state(&self, options: &PoolOptions) -> Result<PoolState, GpuError> {
        let described = self.device_info.memory_type(options.memory_type);
        let (_, heap_size) = described.ok_or(GpuMisuse::BadOptions)?;
        let bits = 1 << options.memory_type;
        self.device_info.best_type(bits, MemoryPreference::ANY)?;
        let (config, growth) = self
            .config_of(0, options.memory_type)
            .ok_or(GpuMisuse::BadOptions)?;
        if options
            .priority
            .is_some_and(|priority| !(0.0..=1.0).contains(&priority))
        {
            return Err(GpuMisuse::BadPriority.into());
        }
        let features = self.device_info.features;
        if !options.export.is_empty() && !features.external_memory
            || options.priority.is_some() && !features.memory_priority
        {
            return Err(GpuMisuse::NotEnabled.into());
        }
        let sound = options.min_alignment.is_power_of_two()
            && options.min_blocks <= options.max_blocks
            && options.max_blocks > 0
            && options.max_bytes > 0
            && options.block_size != Some(0)
            && (!options.algorithm.is_linear() || options.min_blocks <= 1);
        if !sound {
            return Err(GpuMisuse::BadOptions.into());
        }
        if options
            .max_bytes
            .min(options.block_size.unwrap_or(u64::MAX))
            < config.granule()
        {
            return Err(GpuMisuse::BlockTooSmall.into());
        }
        let limit = heap_size.min(options.max_bytes);
        if let Some(bytes) = options.block_size.filter(|size| *size > limit) {
            return Err(GpuError::TooLarge { bytes, limit });
        }
        let linear = options.algorithm.is_linear();
        let size = options
            .block_size
            .or(linear.then_some(growth.max().min(limit)));
        let growth = match size {
            Some(size) => Growth::fixed(size, config.granule()),
            None => growth.at_most(options.max_bytes),
        };
        let config = super::PoolConfig {
            kind: options.kind,
            is_fixed: size.is_some(),
            algorithm: options.algorithm,
            is_pinned: options.pinned,
            min_blocks: options.min_blocks,
            max_blocks: if linear { 1 } else { options.max_blocks },
            max_bytes: options.max_bytes,
            keep_empty: options.keep_empty.or(self.options.keep_empty),
            priority: options.priority,
            min_alignment: options.min_alignment,
            export: options.export,
            next: options.next,
            ..config
        };
        Ok(PoolState::new(config, growth))
    }

    /// Installs a new pool at the index of a destroyed one, or at the next free index.
    fn install_custom(&self, mut state: PoolState) -> Result<(&Pool, u16, u32), GpuError> {
        for index in FIRST_CUSTOM..FIRST_PINNED {
            state.config.index = index;
            if let Some(pool) = self.pool(index) {
                let mut existing = pool.lock();
                if existing.is_open
                    || existing.objects > 0
                    || existing.config.generation == u32::MAX
                {
                    continue;
                }
                existing.config = super::PoolConfig {
                    generation: existing.config.generation + 1,
                    ..state.config
                };
                existing.reopen(state.growth);
                let generation = existing.config.generation;
                drop(existing);
                return Ok((pool, index, generation));
            }
            // If another thread has installed a pool there, the next index is tried.
            state.config.generation = 1;
            let new_state = PoolState::new(state.config, state.growth);
            if self.insert_pool(new_state)? {
                let pool = self.pool(index).ok_or(GpuMisuse::NoSuchPool)?;
                return Ok((pool, index, 1));
            }
        }
        Err(Limit::Pools.into())
    }

    /// Checks that a custom pool exists.
    pub(crate) fn check_custom(&self, index: u16, generation: u32) -> Result<(), GpuMisuse> {
        self.custom(index, generation).map(|_| ())
    }

    /// The custom pool of that index and generation.
    pub(super) fn custom(&self, index: u16, generation: u32) -> Result<&Pool, GpuMisuse> {
        let pool = self
            .pool(index)
            .filter(|_| (FIRST_CUSTOM..FIRST_PINNED).contains(&index))
            .ok_or(GpuMisuse::NoSuchPool)?;
        let state = pool.lock();
        let same = state.is_named(generation);
        drop(state);
        same.then_some(pool).ok_or(GpuMisuse::NoSuchPool)
    }

    /// Destroys a pool, and frees its memory.
    ///
    /// # Errors
    /// [`GpuMisuse::NoSuchPool`], [`GpuMisuse::PoolInUse`] while regions of it live, [`GpuMisuse::Defragmenting`] during a defragmentation, which
    /// may have reserved ranges in it.
    pub(crate) fn destroy_pool(&self, index: u16, generation: u32) -> Result<(), GpuMisuse> {
        let pool = self.custom(index, generation)?;
        {
            let mut state = pool.lock();
            if !state.is_named(generation) {
                return Err(GpuMisuse::NoSuchPool);
            }
            if state.regions > 0 || state.blocks_in_creation > 0 || state.dedicated_in_creation > 0
            {
                return Err(GpuMisuse::PoolInUse);
            }
            if state.is_defragmenting {
                return Err(GpuMisuse::Defragmenting);
            }
            state.is_open = false;
            state.config.min_blocks = 0;
        }
        self.trim_pool(pool, u64::MAX);
        Ok(())
    }
}

impl DevicePools<'_> {
    /// Creates blocks until a custom pool has `bytes` free.
    ///
    /// # Errors
    /// [`GpuMisuse::NoSuchPool`]; why no more blocks could be created: those that were created stay.
    pub(crate) fn reserve_custom(
        &self,
        id: PoolId,
        bytes: u64,
        within_budget: bool,
    ) -> Result<(), GpuError> {
        let pool = self.custom(id.index, id.generation)?;
        self.reserve_within((pool, id.generation), bytes, within_budget)
    }

    /// The same in the pool where requests of these types and preference are placed first.
    pub(crate) fn reserve_of_type(
        &self,
        (memory_type_bits, preference): (u32, MemoryPreference),
        is_pinned: bool,
        bytes: u64,
        within_budget: bool,
    ) -> Result<(), GpuError> {
        let best = self.device_info.best_type(memory_type_bits, preference)?;
        let pool = self.pool_of(best, is_pinned)?;
        self.reserve_within((pool, 0), bytes, within_budget)
    }

    fn reserve_within(
        &self,
        pool: (&Pool, u32),
        bytes: u64,
        within_budget: bool,
    ) -> Result<(), GpuError> {
        let within_budget = within_budget || self.options.within_budget;
        self.with_budgets_of_now(within_budget, || {
            self.reserve_in(pool, bytes, within_budget)
        })
        .map_err(GrowthError::error)
    }

    fn reserve_in(
        &self,
        (pool, generation): (&Pool, u32),
        bytes: u64,
        within_budget: bool,
    ) -> Result<(), GrowthError> {
        let mut tries = 0u32;
        loop {
            self.refresh_budgets();
            let (missing, max, mut seen) = {
                let mut state = pool.lock();
                if !state.is_named(generation) {
                    return Err(GpuMisuse::NoSuchPool.into());
                }
                let missing = bytes.saturating_sub(state.available_bytes());
                // What no limit allows is refused before a block is created.
                let (budget, heap) = (self.budget.lock(), state.config.heap);
                let limit = budget.heap(heap).size;
                if missing > limit {
                    return Err(GpuError::TooLarge { bytes, limit }.into());
                }
                if missing == 0 {
                    // A block more, so that one that is freed leaves at least `bytes`.
                    if bytes > 0 {
                        let kept = bytes.saturating_add(state.growth.max());
                        state.reserved = state.reserved.max(kept);
                    }
                    return Ok(());
                }
                let max = state.growth.max();
                let objects = missing.div_ceil(max.max(1));
                let objects = u32::try_from(objects).unwrap_or(u32::MAX);
                // A block that another thread creates may be enough.
                if state.blocks_in_creation == 0 {
                    state.check_limits((objects, missing))?;
                }
                let short = budget.shortage(heap, (objects, missing), within_budget);
                if let Some(short) = short {
                    return Err(short.into());
                }
                (missing, max, state.blocks_created)
            };
            // The blocks are looked through once for all that are missing, not for each; and again if another thread has created some.
            let mut left = missing;
            while left > 0 && pool.lock().blocks_created == seen {
                let need = left.min(max);
                let plan = BlockPlan {
                    generation,
                    need,
                    exact: false,
                    within_budget,
                    seen: Some(seen),
                };
                self.grow(pool, plan, &mut tries)?;
                seen = seen.wrapping_add(1);
                left -= need;
            }
        }
    }

    /// The longest call of the driver for a memory object so far.
    pub(crate) fn longest_wait(&self) -> Duration {
        Duration::from_nanos(self.longest_wait.load(Ordering::Relaxed))
    }
}

impl PoolState {
    /// Refuses blocks that the pool's own limits do not allow together.
    fn check_limits(&self, (objects, bytes): (u32, u64)) -> Result<(), GrowthError> {
        let limit = self.config.max_blocks;
        if objects > limit.saturating_sub(self.objects) {
            return Err(GrowthError::Next(Limit::Blocks { limit }.into()));
        }
        let room = self.config.max_bytes.saturating_sub(self.bytes);
        if bytes > room {
            let short_by = bytes - room;
            return Err(GrowthError::Next(Limit::Bytes { short_by }.into()));
        }
        Ok(())
    }

    /// Free bytes of all blocks that are allocated from. Visits each block.
    fn available_bytes(&self) -> u64 {
        let within = self.linear.available_bytes();
        within.unwrap_or_else(|| self.blocks.available_bytes())
    }
}
