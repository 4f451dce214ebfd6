use super::block_sizes::Growth;
use super::blocks::BlockListing;
use super::create_block::BlockPlan;
use super::options::PoolOptions;
use super::state::PoolState;
use super::{DevicePools, FIRST_CUSTOM, FIRST_PINNED, Pool};
use crate::error::{GpuError, GpuMisuse, Limit};
use crate::memory_type::MemoryPreference;
use crate::request::RegionOptions;
use crate::sync::{Ordering, StateGuard};
use core::time::Duration;

impl DevicePools<'_> {
    pub(crate) fn create_pool(&self, options: &PoolOptions) -> Result<(u16, u32), GpuError> {
        let state = self.custom_state(options)?;
        self.check_first_blocks(&state)?;
        let (pool, index, generation) = self.install_custom(state)?;
        let (need, min_blocks) = {
            let state = pool.lock();
            (state.growth.next, state.config.options.min_blocks)
        };
        let mut tries = 0u32;
        while pool.lock().blocks.len() < min_blocks {
            // No block grows with those before it.
            pool.lock().growth.follow(0);
            let plan = BlockPlan {
                generation,
                need,
                exact: false,
                within_budget: self.options.within_budget,
                listing: BlockListing::Closed,
                seen: pool.lock().blocks_created,
            };
            let grown = self.with_budgets_of_now(plan.within_budget, || self.grow(pool, plan, &mut tries));
            if let Err(reason) = grown {
                let _ = self.destroy_pool(index, generation);
                return Err(reason);
            }
        }
        Ok((index, generation))
    }

    fn check_first_blocks(&self, state: &PoolState) -> Result<(), GpuError> {
        let config = &state.config;
        let bytes = (state.growth.first_block()).saturating_mul(config.options.min_blocks.into());
        let blocks = (config.options.min_blocks, bytes);
        state.check_limits(blocks)?;
        let short = (self.budget.lock()).shortage(config.heap, blocks, false);
        short.map_or(Ok(()), |short| Err(short.into()))
    }

    fn custom_state(&self, options: &PoolOptions) -> Result<PoolState, GpuError> {
        let described = self.device_info.memory_type(options.memory_type);
        let (_, heap_size) = described.ok_or(GpuMisuse::BadOptions)?;
        let bits = 1 << options.memory_type;
        self.device_info.best_type(bits, MemoryPreference::ANY)?;
        let (mut config, growth) = self.config_of(0, *options).ok_or(GpuMisuse::BadOptions)?;
        (self.device_info).check(options.priority, options.export)?;
        let sound = options.min_alignment.is_power_of_two()
            && options.min_blocks <= options.max_blocks
            && options.max_blocks > 0
            && options.max_bytes > 0
            && options.block_size != Some(0)
            && (!options.algorithm.is_linear() || options.min_blocks <= 1);
        if !sound {
            return Err(GpuMisuse::BadOptions.into());
        }
        if options.max_bytes.min(options.block_size.unwrap_or(u64::MAX)) < config.granule() {
            return Err(GpuMisuse::BlockTooSmall.into());
        }
        let limit = heap_size.min(options.max_bytes);
        if let Some(bytes) = options.block_size.filter(|size| *size > limit) {
            return Err(GpuError::TooLarge { bytes, limit });
        }
        let linear = options.algorithm.is_linear();
        let size = options.block_size.or(linear.then_some(growth.max.min(limit)));
        let growth = match size {
            Some(size) => Growth::fixed(size, config.granule()),
            None => growth.at_most(options.max_bytes),
        };
        config.options.block_size = size;
        if linear {
            config.options.max_blocks = 1;
        }
        Ok(PoolState::new(config, growth))
    }

    fn install_custom(&self, mut state: PoolState) -> Result<(&Pool, u16, u32), GpuError> {
        for index in FIRST_CUSTOM..FIRST_PINNED {
            state.config.index = index;
            if let Some(pool) = self.pool(index) {
                let mut existing = pool.lock();
                if existing.is_open || existing.objects > 0 || existing.config.generation == u32::MAX {
                    continue;
                }
                existing.config = super::PoolConfig { generation: existing.config.generation + 1, ..state.config };
                existing.growth = state.growth;
                existing.is_open = true;
                let generation = existing.config.generation;
                drop(existing);
                return Ok((pool, index, generation));
            }
            state.config.generation = 1;
            let new_state = PoolState::new(state.config, state.growth);
            if self.insert_pool(new_state)? {
                let pool = self.pool(index).ok_or(GpuMisuse::NoSuchPool)?;
                return Ok((pool, index, 1));
            }
        }
        Err(Limit::Pools.into())
    }

    pub(super) fn custom(&self, index: u16, generation: u32) -> Result<(&Pool, StateGuard<'_, PoolState>), GpuMisuse> {
        let pool =
            self.pool(index).filter(|_| (FIRST_CUSTOM..FIRST_PINNED).contains(&index)).ok_or(GpuMisuse::NoSuchPool)?;
        let state = pool.lock();
        if !state.is_named(generation) {
            return Err(GpuMisuse::NoSuchPool);
        }
        Ok((pool, state))
    }

    pub(crate) fn destroy_pool(&self, index: u16, generation: u32) -> Result<(), GpuMisuse> {
        let (pool, mut state) = self.custom(index, generation)?;
        if state.regions > 0 || state.blocks_in_creation > 0 || state.dedicated_in_creation > 0 {
            return Err(GpuMisuse::PoolInUse);
        }
        if state.is_defragmenting {
            return Err(GpuMisuse::Defragmenting);
        }
        state.is_open = false;
        state.config.options.min_blocks = 0;
        drop(state);
        self.trim_pool(pool, u64::MAX);
        Ok(())
    }

    pub(crate) fn reserve(
        &self,
        bytes: u64,
        memory_type_bits: u32,
        options: &RegionOptions<'_>,
    ) -> Result<(), GpuError> {
        let pool = match options.pool {
            Some(id) => (self.custom(id.index, id.generation)?.0, id.generation),
            None => {
                let types = memory_type_bits & options.memory_type_bits;
                let best = self.device_info.best_type(types, options.preference)?;
                (self.pool_of(best, options.pinned)?, 0)
            }
        };
        let within_budget = options.within_budget || self.options.within_budget;
        self.with_budgets_of_now(within_budget, || self.reserve_in(pool, bytes, within_budget))
    }

    fn reserve_in(&self, (pool, generation): (&Pool, u32), bytes: u64, within_budget: bool) -> Result<(), GpuError> {
        let mut tries = 0u32;
        loop {
            self.refresh_budgets();
            let (missing, max, mut seen) = {
                let mut state = pool.lock();
                if !state.is_named(generation) {
                    return Err(GpuMisuse::NoSuchPool.into());
                }
                let missing = bytes.saturating_sub(state.blocks.available_bytes());
                let (budget, heap) = (self.budget.lock(), state.config.heap);
                let limit = budget.heap(heap).size;
                if missing > limit {
                    return Err(GpuError::TooLarge { bytes, limit });
                }
                if missing == 0 {
                    // One that is freed then leaves at least `bytes`.
                    if bytes > 0 {
                        let kept = bytes.saturating_add(state.growth.max);
                        state.reserved = state.reserved.max(kept);
                    }
                    return Ok(());
                }
                let max = state.growth.max;
                let objects = missing.div_ceil(max.max(1));
                let objects = u32::try_from(objects).unwrap_or(u32::MAX);
                if state.blocks_in_creation == 0 {
                    state.check_limits((objects, missing))?;
                }
                let short = budget.shortage(heap, (objects, missing), within_budget);
                if let Some(short) = short {
                    return Err(short.into());
                }
                (missing, max, state.blocks_created)
            };
            let mut left = missing;
            while left > 0 && pool.lock().blocks_created == seen {
                let need = left.min(max);
                let plan =
                    BlockPlan { generation, need, exact: false, within_budget, listing: BlockListing::Closed, seen };
                self.grow(pool, plan, &mut tries)?;
                seen = seen.wrapping_add(1);
                left -= need;
            }
        }
    }

    pub(crate) fn longest_wait(&self) -> Duration {
        Duration::from_nanos(self.longest_wait.load(Ordering::Relaxed))
    }
}

impl PoolState {
    fn check_limits(&self, (objects, bytes): (u32, u64)) -> Result<(), GpuError> {
        let limit = self.config.options.max_blocks;
        if objects > limit.saturating_sub(self.objects) {
            return Err(Limit::Blocks { limit }.into());
        }
        let room = self.config.options.max_bytes.saturating_sub(self.bytes);
        if bytes > room {
            let short_by = bytes - room;
            return Err(Limit::Bytes { short_by }.into());
        }
        Ok(())
    }
}
