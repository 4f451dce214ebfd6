//! Places a region: in existing room, else in a new block, else in memory of another type.

use super::block_sizes::Growth;
use super::blocks::BlockListing;
use super::config::PoolConfig;
use super::create_block::BlockPlan;
use super::request::{AllocationRequest, Suballocation};
use super::state::DeferredFree;
use super::{DevicePools, Pool};
use crate::device::MemoryHandle;
use crate::error::{GpuError, GpuMisuse, Limit};
use crate::host_memory::{GrowableTable, lock_filled};
use crate::id::{PoolId, RegionPlace};
use crate::map_count::Step;
use crate::request::{BlockAlgorithm, DedicatedPolicy};

/// A larger part of a pool's largest block is dedicated, if its request allows that.
const LARGE_PART: u64 = 2;

impl AllocationRequest {
    #[inline(always)]
    pub(super) fn check(&self) -> Result<(), GpuMisuse> {
        if self.size == 0 {
            return Err(GpuMisuse::ZeroSize);
        }
        if !self.alignment.is_power_of_two() {
            return Err(GpuMisuse::BadAlignment);
        }
        if self.requires_dedicated && self.resource.is_none() {
            return Err(GpuMisuse::UnnamedResource);
        }
        Ok(())
    }

    fn is_plain(&self) -> bool {
        matches!(self.dedicated, DedicatedPolicy::Never | DedicatedPolicy::Allowed)
            && !self.prefers_dedicated
            && !self.must_be_dedicated()
            && self.pool.is_none()
    }

    pub(super) fn must_be_dedicated(&self) -> bool {
        self.requires_dedicated
            || self.dedicated == DedicatedPolicy::Required
            || self.own_device_address
            || !self.export.is_empty()
            || self.priority.is_some()
            || self.next.is_some()
    }

    /// A mere preference does not count when few more objects are allowed.
    fn should_be_dedicated(&self, largest_block: u64, scarce: bool) -> bool {
        match self.dedicated {
            DedicatedPolicy::Never => false,
            DedicatedPolicy::Allowed => self.prefers_dedicated && !scarce || self.size > largest_block / LARGE_PART,
            DedicatedPolicy::Preferred => !scarce,
            DedicatedPolicy::Required => true,
        }
    }
}

fn check_size(request: &AllocationRequest, growth: Growth, heap_size: u64) -> Result<(), GpuError> {
    let limit = if request.dedicated == DedicatedPolicy::Never && !request.must_be_dedicated() {
        growth.max.min(heap_size)
    } else {
        heap_size
    };
    if request.size > limit {
        return Err(GpuError::TooLarge { bytes: request.size, limit });
    }
    // A memory object begins at any alignment, but for one larger than any object.
    if request.alignment > heap_size.max(growth.max) {
        return Err(GpuMisuse::AlignmentTooLarge.into());
    }
    Ok(())
}

/// The larger limit is kept, or the error that is no limit of size.
fn larger_limit(first: Option<GpuError>, next: GpuError) -> Option<GpuError> {
    match (first, next) {
        (Some(GpuError::TooLarge { limit, .. }), GpuError::TooLarge { limit: other, .. }) if limit < other => {
            Some(next)
        }
        _ => first.or(Some(next)),
    }
}

impl DevicePools<'_> {
    // Always inlined: the result reaches the region in registers. In memory it would be read by a wide load after
    // narrow stores, which waits.
    #[inline(always)]
    pub(crate) fn place(&self, request: &AllocationRequest) -> Result<Suballocation, GpuError> {
        request.check()?;
        match self.place_fast(request) {
            Some(placed) => Ok(placed),
            None => self.place_with_driver(request),
        }
    }

    /// It makes no callback.
    #[inline(always)]
    fn place_fast(&self, request: &AllocationRequest) -> Option<Suballocation> {
        if !request.is_plain() {
            return None;
        }
        let best = self.device_info.best_type(request.memory_type_bits, request.preference);
        let memory_type = best.ok()?;
        let pool = self.pool(self.index_of(memory_type, request.pinned))?;
        let mut state = pool.lock();
        if request.size > state.growth.max / LARGE_PART {
            return None;
        }
        if state.blocks.store.missing().is_some() {
            return None;
        }
        let placed = state.place(request).ok()?;
        self.map_for_life(pool, state, request, placed).ok()
    }

    #[cold]
    fn place_with_driver(&self, request: &AllocationRequest) -> Result<Suballocation, GpuError> {
        (self.device_info).check(request.priority, request.export)?;
        let within_only = request.within_budget || self.options.within_budget;
        match self.with_budgets_of_now(within_only, || self.place_in_any_type(request)) {
            // Other pools may keep empty blocks.
            Err(reason) if reason.is_shortage() && self.trim(u64::MAX) > 0 => {
                self.place_in_any_type(request).map_err(|again| if again.is_final() { again } else { reason })
            }
            other => other,
        }
    }

    fn place_in_any_type(&self, request: &AllocationRequest) -> Result<Suballocation, GpuError> {
        let budget_first = [true, false];
        let within_only = request.within_budget || self.options.within_budget;
        if let Some(id) = request.pool {
            let (pool, config, heap_size) = self.custom_for(request, id)?;
            check_size(request, pool.lock().growth, heap_size.min(config.options.max_bytes))?;
            return self.place_in(pool, request, within_only);
        }
        let best = (self.device_info).best_type(request.memory_type_bits, request.preference);
        best.map_err(GpuError::MemoryType)?;
        let (mut first, mut over_budget) = (None, None);
        let mut unfit = None;
        let mut refused = 0u32;
        for within_budget in budget_first.into_iter().filter(|within_budget| *within_budget || !within_only) {
            for memory_type in self.device_info.types_by_fit(request.memory_type_bits, request.preference) {
                if refused >> memory_type & 1 == 1 {
                    continue;
                }
                if let Err(error) = self.check_fits_type(request, memory_type) {
                    refused |= 1 << memory_type;
                    unfit = larger_limit(unfit, error);
                    continue;
                }
                let pool = self.pool_of(memory_type, request.pinned)?;
                match self.place_in(pool, request, within_budget) {
                    Ok(placed) => return Ok(placed),
                    Err(reason) if reason.is_final() => return Err(reason),
                    Err(reason @ GpuError::Limit(Limit::Budget { .. })) => {
                        over_budget = over_budget.or(Some(reason));
                    }
                    Err(reason) => {
                        refused |= 1 << memory_type;
                        first = first.or(Some(reason));
                    }
                }
            }
        }
        let unfit = unfit.unwrap_or(GpuMisuse::BadOptions.into());
        Err(first.or(over_budget).unwrap_or(unfit))
    }

    pub(super) fn custom_for(
        &self,
        request: &AllocationRequest,
        id: PoolId,
    ) -> Result<(&Pool, PoolConfig, u64), GpuMisuse> {
        let (pool, state) = self.custom(id.index, id.generation)?;
        let config = state.config;
        let (_, heap_size) = self.device_info.memory_type(config.options.memory_type).ok_or(GpuMisuse::NoSuchPool)?;
        if request.memory_type_bits >> config.options.memory_type & 1 == 0 {
            return Err(GpuMisuse::WrongPool);
        }
        if request.upper_address && config.options.algorithm != BlockAlgorithm::DoubleStack {
            return Err(GpuMisuse::NoUpperEnd);
        }
        if request.pinned && !config.options.pinned {
            return Err(GpuMisuse::PoolNotPinned);
        }
        Ok((pool, config, heap_size))
    }

    fn check_fits_type(&self, request: &AllocationRequest, memory_type: u32) -> Result<(), GpuError> {
        let memory_type = self.device_info.memory_type(memory_type);
        let (described, heap_size) = memory_type.ok_or(GpuMisuse::BadOptions)?;
        let growth = self.growth_of(described.properties, heap_size);
        check_size(request, growth, heap_size)
    }

    pub(super) fn place_in(
        &self,
        pool: &Pool,
        request: &AllocationRequest,
        within_budget: bool,
    ) -> Result<Suballocation, GpuError> {
        let (config, largest) = {
            let state = pool.lock();
            (state.config, state.growth.max)
        };
        let scarce = self.budget.lock().is_scarce();
        let must = request.must_be_dedicated() || config.is_lazily_allocated();
        let dedicated_first = must || (request.should_be_dedicated(largest, scarce) && !config.is_fixed());
        let mut failure = None;
        if dedicated_first {
            match self.place_dedicated(pool, request, within_budget) {
                Err(reason) if !must && !reason.is_final() => failure = Some(reason),
                other => return other,
            }
        }
        let shared = self.place_shared(pool, request, within_budget);
        let reason = match shared {
            Err(reason) if !reason.is_final() => reason,
            done => return done,
        };
        if dedicated_first || request.dedicated == DedicatedPolicy::Never || config.is_fixed() {
            return Err(failure.unwrap_or(reason));
        }
        match self.place_dedicated(pool, request, within_budget) {
            Err(last) if !last.is_final() => Err(reason),
            done => done,
        }
    }

    fn place_shared(
        &self,
        pool: &Pool,
        request: &AllocationRequest,
        within_budget: bool,
    ) -> Result<Suballocation, GpuError> {
        let mut tries = 0u32;
        loop {
            let (need, seen) = {
                let mut state = lock_filled(pool, self.memory)?;
                let generation = request.pool.map_or(0, |id| id.generation);
                if !state.is_named(generation) {
                    return Err(GpuMisuse::NoSuchPool.into());
                }
                match state.place(request) {
                    Ok(placed) => {
                        return self.map_for_life(pool, state, request, placed);
                    }
                    Err(need) => (need, state.blocks_created),
                }
            };
            let plan = BlockPlan {
                generation: request.pool.map_or(0, |id| id.generation),
                need,
                exact: request.dedicated == DedicatedPolicy::Never,
                within_budget,
                listing: BlockListing::Open,
                seen,
            };
            self.grow(pool, plan, &mut tries)?;
        }
    }

    /// It does not call the driver.
    pub(crate) fn place_at(&self, request: &AllocationRequest, at: (u32, u64)) -> Result<Suballocation, GpuError> {
        request.check()?;
        let id = request.pool.ok_or(GpuMisuse::NoSuchPool)?;
        let (pool, config, _) = self.custom_for(request, id)?;
        if request.must_be_dedicated() {
            return Err(GpuMisuse::BadOptions.into());
        }
        if config.options.algorithm.is_linear() {
            return Err(GpuMisuse::PlacesItself.into());
        }
        let mut state = lock_filled(pool, self.memory)?;
        if !state.is_named(id.generation) {
            return Err(GpuMisuse::NoSuchPool.into());
        }
        let want = state.range_request(request);
        let space = state.blocks.allocate_at(at, &want)?;
        let placed = (state.add_region(&space, request.slot)).ok_or(GpuMisuse::NoSuchPlace)?;
        self.map_for_life(pool, state, request, placed)
    }

    /// It never allocates.
    #[inline]
    pub(crate) fn free(&self, at: RegionPlace) -> Result<u64, GpuMisuse> {
        let pool = self.pool_at(at.block)?;
        let mut state = pool.lock();
        let mut unmapped = None;
        if at.block.is_mapped() {
            state.locate(at)?;
            unmapped = Some((at.block, state.leave(at.block, self.options.map_policy)?));
        }
        let (size, more) = state.free(at)?;
        let to_unmap = unmapped.filter(|(_, (_, step))| *step == Step::Driver);
        if more || to_unmap.is_some() {
            let deferred = state.deferred_free();
            drop(state);
            if let Some((object, left)) = to_unmap {
                self.finish_unmap(pool, object, left)?;
            }
            self.finish_free(pool, deferred);
        }
        Ok(size)
    }

    pub(crate) fn check_order(&self, at: RegionPlace) -> Result<(), GpuMisuse> {
        let pool = self.pool_at(at.block)?;
        pool.lock().blocks.check_order(at)
    }

    #[cold]
    pub(super) fn finish_free(&self, pool: &Pool, deferred: DeferredFree) {
        if let Some(object) = deferred.object {
            self.free_object(pool, &object);
        }
        if let Some(block) = deferred.emptied_block {
            self.trim_excess(pool, block);
        }
    }

    pub(crate) fn find(&self, at: RegionPlace) -> Result<Suballocation, GpuMisuse> {
        let pool = self.pool_at(at.block)?;
        pool.lock().locate(at)
    }

    pub(crate) fn owns(&self, memory: MemoryHandle) -> bool {
        self.all().any(|pool| {
            let state = pool.lock();
            state.each_object().any(|object| object.memory == memory)
        })
    }
}
