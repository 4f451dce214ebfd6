//! Creates and frees memory objects, without holding a lock during the driver call.

use alloc_core::HostError;

use super::blocks::LiveBlock;
use super::blocks::{DedicatedRegion, Object};
use super::budget::LimitShortage;
use super::request::{AllocationRequest, Suballocation};
use super::{DevicePools, Pool, Pools};
use crate::device::{DeviceError, MemoryHandle, MemoryRequest};
use crate::error::{GpuError, GpuMisuse, Limit};
use crate::host_memory::lock_filled;
use crate::id::{BlockRef, PlaceKind, RegionPlace};
use crate::range::RangeAllocator;
use crate::sync::Ordering;

/// Why no memory object was created.
#[derive(Clone, Copy, Debug)]
pub(super) enum GrowthError {
    /// No other memory type or size would help.
    Final(GpuError),
    /// Another memory type might succeed, or a smaller object.
    Next(GpuError),
    /// A budget is used up: the driver might allocate all the same.
    Budget(GpuError),
}

impl GrowthError {
    pub(super) const fn error(self) -> GpuError {
        match self {
            Self::Final(error) | Self::Next(error) | Self::Budget(error) => error,
        }
    }
}

impl GrowthError {
    /// Whether no other memory type or kind of object could help.
    pub(super) const fn is_final(self) -> bool {
        matches!(self, Self::Final(_))
    }

    /// Why a new region was not mapped.
    pub(super) fn of_map(error: GpuError) -> Self {
        match error {
            GpuError::Device(error) => error.into(),
            error => Self::Next(error),
        }
    }

    /// Whether freeing memory objects might help.
    pub(super) const fn is_shortage(self) -> bool {
        !matches!(self, Self::Final(_) | Self::Next(GpuError::TooLarge { .. }))
    }
}

impl From<GpuError> for GrowthError {
    fn from(error: GpuError) -> Self {
        Self::Final(error)
    }
}

impl From<GpuMisuse> for GrowthError {
    fn from(rule: GpuMisuse) -> Self {
        Self::Final(rule.into())
    }
}

impl From<HostError> for GrowthError {
    fn from(error: HostError) -> Self {
        Self::Final(error.into())
    }
}

impl From<LimitShortage> for GrowthError {
    fn from(short: LimitShortage) -> Self {
        let error = GpuError::Limit(short.limit);
        if short.is_budget {
            Self::Budget(error)
        } else {
            Self::Next(error)
        }
    }
}

impl From<DeviceError> for GrowthError {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::DeviceLost
            | DeviceError::InvalidExternalHandle
            | DeviceError::InvalidOpaqueCaptureAddress => Self::Final(error.into()),
            _ => Self::Next(error.into()),
        }
    }
}

/// The request for a new shared block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPlan {
    /// The generation of the pool that it is for.
    pub(super) generation: u32,
    /// Bytes that it must hold in one piece.
    pub(super) need: u64,
    /// If the driver refuses every larger size, request exactly `need`.
    pub(super) exact: bool,
    pub(super) within_budget: bool,
    /// `blocks_created` when no room was found: if it has changed, a new block may have room.
    pub(super) seen: Option<u64>,
}

impl DevicePools<'_> {
    /// Creates a block that holds `plan.need` bytes, or waits a moment for another thread that creates one. Afterwards there may be room.
    pub(super) fn grow(
        &self,
        pool: &Pool,
        mut plan: BlockPlan,
        tries: &mut u32,
    ) -> Result<(), GrowthError> {
        // Blocks are whole granules, also those that hold the need and nothing else.
        plan.need = plan
            .need
            .checked_next_multiple_of(1 << self.device_info.granule_log2)
            .unwrap_or(u64::MAX);
        let (config, growth, block) = {
            let mut state = lock_filled(pool, self.memory)?;
            if !state.is_named(plan.generation) {
                return Err(GpuMisuse::NoSuchPool.into());
            }
            let is_old = |created| plan.seen.is_some_and(|seen| seen != created);
            if is_old(state.blocks_created) {
                return Ok(());
            }
            if state.blocks_in_creation > 0 && state.room_in_creation >= plan.need {
                drop(state);
                if crate::threads::pause(tries) {
                    return Ok(());
                }
                // This thread may be the creator, in a callback: then it creates another block.
                state = lock_filled(pool, self.memory)?;
                if is_old(state.blocks_created) || !state.is_named(plan.generation) {
                    return Ok(());
                }
            }
            let config = state.config;
            if config.is_lazily_allocated() {
                return Err(GrowthError::Final(GpuMisuse::BadOptions.into()));
            }
            if state.objects >= config.max_blocks {
                return Err(too_many_blocks(config.max_blocks));
            }
            let block = (state.blocks.slots.reserve(BlockRef::BLOCKS))
                .ok_or(too_many_blocks(BlockRef::BLOCKS))?;
            state.objects = state.objects.saturating_add(1);
            state.blocks_in_creation = state.blocks_in_creation.saturating_add(1);
            state.room_in_creation = state
                .room_in_creation
                .max(state.growth.preferred())
                .max(plan.need);
            (config, state.growth, block)
        };
        let reservation = SlotReservation {
            pool,
            place: block,
            is_dedicated: false,
        };
        let _in_call = crate::threads::enter_call();

        self.refresh_budgets();
        // The first one, unless a later one is final.
        let mut failure = None;
        let remaining = config.max_bytes.saturating_sub(pool.lock().bytes);
        let room = self
            .budget
            .lock()
            .remaining(config.heap, plan.within_budget)
            .min(remaining);
        // If the limits leave nothing, the attempt with `need` reports which limit it is.
        let nothing = growth.sizes(plan.need, room).next().is_none();
        let last = (nothing && plan.need <= growth.max() || plan.exact).then_some(plan.need);
        let mut refused = None;
        for size in growth.sizes(plan.need, room).chain(last) {
            if refused.replace(size) == Some(size) {
                continue;
            }
            match self.create_block(pool, block, size, &plan) {
                Ok(()) => {
                    core::mem::forget(reservation);
                    return Ok(());
                }
                Err(reason) if reason.is_final() => {
                    failure = Some(reason);
                    break;
                }
                Err(reason) => {
                    failure = failure.or(Some(reason));
                    // A smaller object is an object too.
                    if matches!(
                        reason.error(),
                        GpuError::Device(DeviceError::TooManyObjects)
                    ) {
                        break;
                    }
                }
            }
        }
        drop(reservation);
        Err(failure.unwrap_or(GrowthError::Next(GpuError::TooLarge {
            bytes: plan.need,
            limit: growth.max(),
        })))
    }

    /// Tries one size, with the reserved slot.
    fn create_block(
        &self,
        pool: &Pool,
        block: u32,
        size: u64,
        plan: &BlockPlan,
    ) -> Result<(), GrowthError> {
        let config = pool.lock().config;
        let core = RangeAllocator::new(size, config.granule()).map_err(|_| {
            GrowthError::Next(GpuError::TooLarge {
                bytes: size,
                limit: u64::from(u32::MAX) << config.granule_log2,
            })
        })?;
        // The indices never shrink while the pool is used: their memory is still there when the block is installed.
        pool.lock().blocks.admit(core.granules().0);
        drop(lock_filled(pool, self.memory)?);
        let memory_request = MemoryRequest {
            priority: config.priority,
            export: config.export,
            next: config.next,
            device_address: config.has_device_address,
            ..MemoryRequest::new(size, config.memory_type)
        };
        let requests = size / plan.need.max(1);
        let memory = self.allocate_object(pool, &memory_request, requests, plan.within_budget)?;
        let mut state = pool.lock();
        state.blocks.install(
            block,
            LiveBlock::new(Object::new(memory, size), core.numbered(block)),
        );
        let reserved = state.blocks.bytes;
        state.growth.follow(reserved);
        state.blocks_created = state.blocks_created.wrapping_add(1);
        end_creation(&mut state);
        Ok(())
    }

    /// Places a region in a dedicated memory object.
    pub(super) fn place_dedicated(
        &self,
        pool: &Pool,
        request: &AllocationRequest,
        within_budget: bool,
    ) -> Result<Suballocation, GrowthError> {
        let (config, place) = {
            let mut state = lock_filled(pool, self.memory)?;
            let config = state.config;
            if !state.is_open
                || request
                    .pool
                    .is_some_and(|id| id.generation != config.generation)
            {
                return Err(GpuMisuse::NoSuchPool.into());
            }
            if state.objects >= config.max_blocks {
                return Err(too_many_blocks(config.max_blocks));
            }
            let place = (state.dedicated.reserve(BlockRef::BLOCKS))
                .ok_or(too_many_blocks(BlockRef::BLOCKS))?;
            state.objects = state.objects.saturating_add(1);
            state.dedicated_in_creation = state.dedicated_in_creation.saturating_add(1);
            (config, place)
        };
        let reservation = SlotReservation {
            pool,
            place,
            is_dedicated: true,
        };
        let memory_request = MemoryRequest {
            dedicated: request
                .resource
                .filter(|_| self.device_info.features.dedicated_allocation),
            priority: request.priority.or(config.priority),
            export: if request.export.is_empty() {
                config.export
            } else {
                request.export
            },
            next: request.next.or(config.next),
            device_address: config.has_device_address || request.own_device_address,
            ..MemoryRequest::new(request.size, config.memory_type)
        };
        self.refresh_and_trim();
        let memory = self.allocate_object(pool, &memory_request, 1, within_budget)?;
        let object = Object::new(memory, request.size);
        let mut state = pool.lock();
        state.dedicated.fill(
            place,
            DedicatedRegion {
                object,
                slot: request.slot,
                is_freed: false,
            },
        );
        core::mem::forget(reservation);
        state.dedicated_in_creation = state.dedicated_in_creation.saturating_sub(1);
        state.regions = state.regions.saturating_add(1);
        state.used_bytes = state.used_bytes.saturating_add(request.size);
        let at = RegionPlace {
            block: BlockRef::new(PlaceKind::Dedicated, config.index, place),
            node: 0,
            slot: request.slot,
        };
        let placed = state.locate(at).map_err(GpuError::from)?;
        let mapped = self.map_for_life(pool, state, request, placed);
        mapped.map_err(|error| match (memory_request.next, error) {
            (None, error) => GrowthError::of_map(error),
            // The driver has consumed the import: it is not tried in memory of another type.
            (Some(_), GpuError::Device(error)) => {
                GrowthError::Final(GpuError::AfterAllocation(error))
            }
            (Some(_), _) => GrowthError::Final(GpuError::AfterAllocation(DeviceError::MapFailed)),
        })
    }

    /// Calls the driver, within every limit: the bytes are reserved before, and released if the driver refuses. The object has room for
    /// as many requests as `requests`.
    fn allocate_object(
        &self,
        pool: &Pool,
        memory_request: &MemoryRequest,
        requests: u64,
        within_budget: bool,
    ) -> Result<MemoryHandle, GrowthError> {
        let size = memory_request.size;
        let heap = {
            let mut state = pool.lock();
            let heap = state.config.heap;
            let limit = self.budget.lock().heap(heap).size;
            if size > limit {
                return Err(GrowthError::Next(GpuError::TooLarge { bytes: size, limit }));
            }
            let remaining = state.config.max_bytes.saturating_sub(state.bytes);
            if let Some(short_by) = size.checked_sub(remaining).filter(|short_by| *short_by > 0) {
                return Err(GrowthError::Next(Limit::Bytes { short_by }.into()));
            }
            self.budget.lock().reserve(heap, size, within_budget)?;
            state.bytes = state.bytes.saturating_add(size);
            heap
        };
        let budget_reservation = BudgetReservation {
            pools: self.pools,
            pool,
            heap,
            size,
        };
        let watch = crate::threads::Stopwatch::start();
        // SAFETY: type, size and features were checked against the device's properties; the resource and the chain are valid by the
        // caller's promise when the allocator was created.
        let allocated = unsafe { self.device.allocate(memory_request) };
        self.longest_wait
            .fetch_max(watch.nanoseconds(), Ordering::Relaxed);
        match allocated {
            Ok(memory) => {
                core::mem::forget(budget_reservation);
                self.budget.lock().note_allocated(requests);
                Ok(memory)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Frees an object, then releases its bytes.
    pub(super) fn free_object(&self, pool: &Pool, object: &Object) {
        // SAFETY: the object was removed from the pool while idle: it is not mapped, cannot be found, and holds no region.
        unsafe { self.device.free(object.memory) };
        let mut state = pool.lock();
        state.uncount_object(object.size);
        self.budget.lock().release(state.config.heap, object.size);
    }
}

/// A slot that is reserved for a memory object in creation. Dropped without one, also by a panic of an allocator or a device, it frees the
/// slot, and no thread waits for the object.
struct SlotReservation<'p> {
    pool: &'p Pool,
    place: u32,
    /// A dedicated slot, or a block's.
    is_dedicated: bool,
}

impl Drop for SlotReservation<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.objects = state.objects.saturating_sub(1);
        if self.is_dedicated {
            state.dedicated.unreserve(self.place);
            state.dedicated_in_creation = state.dedicated_in_creation.saturating_sub(1);
        } else {
            state.blocks.slots.unreserve(self.place);
            end_creation(&mut state);
        }
    }
}

/// Bytes that were reserved before the driver call. Dropped, it releases them.
struct BudgetReservation<'p> {
    pools: &'p Pools,
    pool: &'p Pool,
    heap: u32,
    size: u64,
}

impl Drop for BudgetReservation<'_> {
    fn drop(&mut self) {
        self.pools.budget.lock().release(self.heap, self.size);
        let mut state = self.pool.lock();
        state.bytes = state.bytes.saturating_sub(self.size);
    }
}

const fn too_many_blocks(limit: u32) -> GrowthError {
    GrowthError::Next(GpuError::Limit(Limit::Blocks { limit }))
}

fn end_creation(state: &mut super::state::PoolState) {
    state.blocks_in_creation = state.blocks_in_creation.saturating_sub(1);
    if state.blocks_in_creation == 0 {
        state.room_in_creation = 0;
    }
}
