//! Pools of the user's own.

use super::env::Env;
use super::growth::Growth;
use super::make::Plan;
use super::options::{PoolAlgorithm, PoolOptions};
use super::state::State;
use super::{FIRST_CUSTOM, Pool, Pools};
use crate::error::{GpuError, Limit, Misuse};
use crate::id::Place;

impl Pools {
    /// Makes a pool: its index, and which of those that had the index it is.
    ///
    /// # Errors
    /// [`Misuse::BadOptions`], [`Misuse::BadPriority`], [`Misuse::NotEnabled`], [`GpuError::TooLarge`], [`Limit::Pools`], or what was in the way
    /// of its first blocks.
    pub(crate) fn create_pool(&self, env: Env<'_>, options: &PoolOptions) -> Result<(u16, u32), GpuError> {
        let state = self.custom_state(options)?;
        let (pool, index, generation) = self.settle_custom(env, state)?;
        let (need, min_blocks) = {
            let state = pool.lock();
            (state.growth.preferred(), state.facts.min_blocks)
        };
        let mut tries = 0u32;
        while pool.lock().blocks.len() < min_blocks {
            let plan = Plan { need, exact: true, within_budget: self.options.within_budget, seen: None };
            if let Err(stop) = self.grow(env, pool, plan, &mut tries) {
                let _ = self.destroy_pool(env, index, generation);
                return Err(stop.error());
            }
        }
        Ok((index, generation))
    }

    fn custom_state(&self, options: &PoolOptions) -> Result<State, GpuError> {
        let described = self.device.memory_type(options.memory_type).filter(|_| self.device.is_usable(options.memory_type));
        let (_, heap_size) = described.ok_or(Misuse::BadOptions)?;
        let (facts, growth) = self.facts(0, options.memory_type, options.kind).ok_or(Misuse::BadOptions)?;
        if options.priority.is_some_and(|priority| !(0.0..=1.0).contains(&priority)) {
            return Err(Misuse::BadPriority.into());
        }
        if !options.export.is_empty() && !self.device.features.external_memory {
            return Err(Misuse::NotEnabled.into());
        }
        let sound = options.min_alignment.is_power_of_two()
            && options.min_blocks <= options.max_blocks
            && options.max_blocks > 0
            && options.max_bytes > 0
            && options.block_size != Some(0)
            && (options.algorithm == PoolAlgorithm::General || options.min_blocks <= 1);
        if !sound {
            return Err(Misuse::BadOptions.into());
        }
        let limit = self.device.largest_object(heap_size).min(options.max_bytes);
        if let Some(bytes) = options.block_size.filter(|size| *size > limit) {
            return Err(GpuError::TooLarge { bytes, limit });
        }
        let linear = options.algorithm == PoolAlgorithm::Linear;
        let size = options.block_size.or(linear.then_some(growth.max().min(limit)));
        let growth = match size.map(|size| size.max(facts.granule())) {
            Some(size) => Growth::fixed(size, facts.granule()),
            None => growth.at_most(options.max_bytes),
        };
        let facts = super::Facts {
            page: self.page_of(&growth),
            is_fixed: size.is_some(),
            linear,
            min_blocks: options.min_blocks,
            max_blocks: if linear { 1 } else { options.max_blocks },
            max_bytes: options.max_bytes,
            keep_empty: options.keep_empty.or(self.options.keep_empty).unwrap_or(growth.max()),
            priority: options.priority.filter(|_| self.device.features.memory_priority),
            min_alignment: options.min_alignment,
            export: options.export,
            next: options.next,
            ..facts
        };
        Ok(State::new(facts, growth))
    }

    /// Gives a new pool the place of one that was destroyed, or the next one.
    fn settle_custom(&self, env: Env<'_>, mut state: State) -> Result<(&Pool, u16, u32), GpuError> {
        // The size of pages stays with an index: where another one can be had it is not taken.
        let places = FIRST_CUSTOM..Place::POOLS as u16;
        for (index, any_page) in places.clone().map(|index| (index, false)).chain(places.map(|index| (index, true))) {
            state.facts.index = index;
            if let Some(pool) = self.pool(index) {
                let mut there = pool.lock();
                let fits = any_page || there.facts.page == state.facts.page;
                if there.open || there.objects > 0 || there.facts.generation == u32::MAX || !fits {
                    continue;
                }
                there.facts = super::Facts { generation: there.facts.generation + 1, ..state.facts };
                there.reopen(state.growth);
                let generation = there.facts.generation;
                drop(there);
                return Ok((pool, index, generation));
            }
            // Another thread may have put a pool there by now: then the next place is as good.
            state.facts.generation = 1;
            let ours = State::new(state.facts, state.growth);
            if self.put_pool(env, ours)? {
                let pool = self.pool(index).ok_or(Misuse::NoSuchPool)?;
                return Ok((pool, index, 1));
            }
        }
        Err(Limit::Pools.into())
    }

    /// A pool of that name.
    pub(super) fn custom(&self, index: u16, generation: u32) -> Result<&Pool, Misuse> {
        let pool = self.pool(index).filter(|_| index >= FIRST_CUSTOM).ok_or(Misuse::NoSuchPool)?;
        let state = pool.lock();
        let same = state.open && state.facts.generation == generation;
        drop(state);
        same.then_some(pool).ok_or(Misuse::NoSuchPool)
    }

    /// Gives all of a pool's memory back to the driver. Its name is nobody's afterwards.
    ///
    /// # Errors
    /// [`Misuse::NoSuchPool`], or [`Misuse::PoolInUse`] while regions of it live.
    pub(crate) fn destroy_pool(&self, env: Env<'_>, index: u16, generation: u32) -> Result<(), Misuse> {
        let pool = self.custom(index, generation)?;
        {
            let mut state = pool.lock();
            if !state.open || state.facts.generation != generation {
                return Err(Misuse::NoSuchPool);
            }
            if state.regions > 0 || state.making > 0 {
                return Err(Misuse::PoolInUse);
            }
            state.open = false;
            state.facts.min_blocks = 0;
        }
        self.trim_pool(env, pool, u64::MAX);
        Ok(())
    }
}
