//! Creates blocks in advance.

use core::time::Duration;

use super::create_block::{BlockPlan, GrowthError};
use super::device_and_host::DeviceAndHost;
use super::state::PoolState;
use super::{Pool, Pools};
use crate::error::{GpuError, GpuMisuse};
use crate::id::PoolId;
use crate::memory_type::MemoryPreference;
use crate::request::ResourceKind;
use crate::sync::Ordering;

impl Pools {
    /// Creates blocks until a custom pool has `bytes` free.
    ///
    /// # Errors
    /// [`GpuMisuse::NoSuchPool`]; why no more blocks could be created: those that were created stay.
    pub(crate) fn reserve_custom(
        &self,
        device_and_host: DeviceAndHost<'_>,
        id: PoolId,
        bytes: u64,
        within_budget: bool,
    ) -> Result<(), GpuError> {
        let pool = self.custom(id.index, id.generation)?;
        self.reserve_in(device_and_host, (pool, id.generation), bytes, within_budget)
    }

    /// The same in the pool where requests of these types and preference are placed first.
    pub(crate) fn reserve_of_type(
        &self,
        device_and_host: DeviceAndHost<'_>,
        (memory_type_bits, preference): (u32, MemoryPreference),
        (kind, is_pinned): (ResourceKind, bool),
        bytes: u64,
        within_budget: bool,
    ) -> Result<(), GpuError> {
        let best = self.device_info.best_type(memory_type_bits, preference)?;
        let pool = self.pool_of(device_and_host, best, kind, is_pinned)?;
        self.reserve_in(device_and_host, (pool, 0), bytes, within_budget)
    }

    fn reserve_in(
        &self,
        device_and_host: DeviceAndHost<'_>,
        (pool, generation): (&Pool, u32),
        bytes: u64,
        within_budget: bool,
    ) -> Result<(), GpuError> {
        let mut tries = 0u32;
        loop {
            let (missing, max, seen) = {
                let state = pool.lock();
                if !state.is_named(generation) {
                    return Err(GpuMisuse::NoSuchPool.into());
                }
                let missing = bytes.saturating_sub(state.available_bytes());
                (missing, state.growth.max(), state.blocks_created)
            };
            if missing == 0 {
                return Ok(());
            }
            let plan = BlockPlan {
                generation,
                need: missing.min(max),
                exact: false,
                within_budget: within_budget || self.options.within_budget,
                seen: Some(seen),
            };
            self.grow(device_and_host, pool, plan, &mut tries)
                .map_err(GrowthError::error)?;
        }
    }

    /// The longest call of the driver for a memory object so far.
    pub(crate) fn longest_wait(&self) -> Duration {
        Duration::from_nanos(self.longest_wait.load(Ordering::Relaxed))
    }
}

impl PoolState {
    /// Free bytes of all blocks that are allocated from. Visits each block.
    fn available_bytes(&self) -> u64 {
        let within = self.linear.available_bytes();
        within.unwrap_or_else(|| self.blocks.available_bytes())
    }
}
