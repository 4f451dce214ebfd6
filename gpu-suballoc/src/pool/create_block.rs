//! No lock is held during the driver call.

use super::blocks::{BlockListing, DedicatedRegion, LiveBlock, Object};
use super::request::{AllocationRequest, Suballocation};
use super::{DevicePools, Pool};
use crate::device::{DeviceError, MemoryHandle, MemoryRequest};
use crate::error::{GpuError, GpuMisuse, Limit};
use crate::host_memory::{self, lock_filled};
use crate::id::{BlockRef, RangePlacement, RegionPlace};
use crate::on_drop::OnDrop;
use crate::range::RangeAllocator;
use crate::sync::Ordering;

#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPlan {
    pub(super) generation: u32,
    pub(super) need: u64,
    /// If the driver refuses every larger size, request exactly `need`.
    pub(super) exact: bool,
    pub(super) within_budget: bool,
    /// A block that is made ahead is closed: regions fill the others first.
    pub(super) listing: BlockListing,
    /// If the pool's `blocks_created` differs, there may be room.
    pub(super) seen: u64,
}

impl DevicePools<'_> {
    /// It may wait a moment for another thread's block instead. Afterwards there may be room.
    pub(super) fn grow(&self, pool: &Pool, mut plan: BlockPlan, tries: &mut u32) -> Result<(), GpuError> {
        plan.need = plan.need.checked_next_multiple_of(1 << self.device_info.granule_log2).unwrap_or(u64::MAX);
        let (config, growth, block) = {
            let mut state = lock_filled(pool, self.memory)?;
            if !state.is_named(plan.generation) {
                return Err(GpuMisuse::NoSuchPool.into());
            }
            if plan.seen != state.blocks_created {
                return Ok(());
            }
            if state.blocks_in_creation > 0 && state.room_in_creation >= plan.need {
                drop(state);
                if crate::threads::pause(tries) {
                    return Ok(());
                }
                // This thread may be the creator, in a callback: then it creates another block.
                state = lock_filled(pool, self.memory)?;
                if plan.seen != state.blocks_created || !state.is_named(plan.generation) {
                    return Ok(());
                }
            }
            let config = state.config;
            if config.is_lazily_allocated() {
                return Err(GpuMisuse::BadOptions.into());
            }
            if state.objects >= config.options.max_blocks {
                return Err(too_many_blocks(config.options.max_blocks));
            }
            let block = (state.blocks.reserve()).ok_or(too_many_blocks(BlockRef::BLOCKS))?;
            state.objects += 1;
            state.blocks_in_creation += 1;
            state.room_in_creation = state.room_in_creation.max(state.growth.next).max(plan.need);
            (config, state.growth, block)
        };
        // Without a block, also after unwinding, the slot is free again, and no thread waits for it.
        let reservation = OnDrop(|| {
            let mut state = pool.lock();
            state.objects -= 1;
            state.blocks.unreserve(block);
            end_creation(&mut state);
        });
        let _in_call = crate::threads::enter_call();

        self.refresh_budgets();
        // The first one, unless a later one is final.
        let mut failure = None;
        let remaining = config.options.max_bytes.saturating_sub(pool.lock().bytes);
        let room = self.budget.lock().remaining(config.heap, plan.within_budget).min(remaining);
        // If the limits leave nothing, the attempt with `need` reports which limit it is.
        let nothing = growth.sizes(plan.need, room).next().is_none();
        let last = (nothing && plan.need <= growth.max || plan.exact).then_some(plan.need);
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
                    if matches!(reason, GpuError::Device(DeviceError::TooManyObjects)) {
                        break;
                    }
                }
            }
        }
        drop(reservation);
        // The last block may have been freed while nodes were reserved for this one.
        self.free_idle_nodes(pool);
        Err(failure.unwrap_or(GpuError::TooLarge { bytes: plan.need, limit: growth.max }))
    }

    fn create_block(&self, pool: &Pool, block: u32, size: u64, plan: &BlockPlan) -> Result<(), GpuError> {
        let config = pool.lock().config;
        let core = RangeAllocator::new(size, config.granule(), config.options.algorithm);
        let core =
            core.map_err(|_| GpuError::TooLarge { bytes: size, limit: u64::from(u32::MAX) << config.granule_log2 })?;
        // Indices never shrink while the pool is used.
        pool.lock().blocks.admit(core.granules());
        drop(lock_filled(pool, self.memory)?);
        let memory_request = MemoryRequest {
            priority: config.options.priority,
            export: config.options.export,
            next: config.options.next,
            device_address: config.has_device_address,
            ..MemoryRequest::new(size, config.options.memory_type)
        };
        let requests = size / plan.need.max(1);
        let memory = self.allocate_object(pool, &memory_request, requests, plan.within_budget)?;
        let live = LiveBlock {
            object: Object::new(memory, size),
            core: core.numbered(block),
            // A stack or a ring has no other.
            listing: if config.options.algorithm.is_linear() { BlockListing::Open } else { plan.listing },
        };
        let mut state = pool.lock();
        state.blocks.install(block, live);
        let reserved = state.blocks.bytes;
        state.growth.follow(reserved);
        state.blocks_created = state.blocks_created.wrapping_add(1);
        end_creation(&mut state);
        Ok(())
    }

    pub(super) fn place_dedicated(
        &self,
        pool: &Pool,
        request: &AllocationRequest,
        within_budget: bool,
    ) -> Result<Suballocation, GpuError> {
        let (config, place) = {
            let mut state = lock_filled(pool, self.memory)?;
            let config = state.config;
            if !state.is_open || request.pool.is_some_and(|id| id.generation != config.generation) {
                return Err(GpuMisuse::NoSuchPool.into());
            }
            if state.objects >= config.options.max_blocks {
                return Err(too_many_blocks(config.options.max_blocks));
            }
            let place = (state.dedicated.reserve()).ok_or(too_many_blocks(BlockRef::BLOCKS))?;
            state.objects += 1;
            state.dedicated_in_creation += 1;
            (config, place)
        };
        let reservation = OnDrop(|| {
            let mut state = pool.lock();
            state.objects -= 1;
            state.dedicated.unreserve(place);
            state.dedicated_in_creation -= 1;
        });
        let memory_request = MemoryRequest {
            dedicated: request.resource.filter(|_| self.device_info.features.dedicated_allocation),
            priority: request.priority.or(config.options.priority),
            export: if request.export.is_empty() { config.options.export } else { request.export },
            next: request.next.or(config.options.next),
            device_address: config.has_device_address || request.own_device_address,
            ..MemoryRequest::new(request.size, config.options.memory_type)
        };
        if self.refresh_budgets() {
            self.free_over_budget();
        }
        let memory = self.allocate_object(pool, &memory_request, 1, within_budget)?;
        let object = Object::new(memory, request.size);
        let mut state = pool.lock();
        state.dedicated.fill(place, DedicatedRegion { object, slot: request.slot, is_freed: false });
        core::mem::forget(reservation);
        state.dedicated_in_creation -= 1;
        state.regions += 1;
        state.used_bytes += request.size;
        let at = RegionPlace {
            block: BlockRef::new(RangePlacement::Dedicated, config.index, place),
            node: 0,
            slot: request.slot,
        };
        let placed = state.locate(at).map_err(GpuError::from)?;
        let mapped = self.map_for_life(pool, state, request, placed);
        mapped.map_err(|error| match (memory_request.next, error) {
            (None, error) => error,
            (Some(_), GpuError::Device(error)) => GpuError::AfterAllocation(error),
            (Some(_), _) => GpuError::AfterAllocation(DeviceError::MapFailed),
        })
    }

    /// The object has room for `requests` requests.
    fn allocate_object(
        &self,
        pool: &Pool,
        memory_request: &MemoryRequest,
        requests: u64,
        within_budget: bool,
    ) -> Result<MemoryHandle, GpuError> {
        let size = memory_request.size;
        let heap = {
            let mut state = pool.lock();
            let heap = state.config.heap;
            let limit = self.budget.lock().heap(heap).size;
            if size > limit {
                return Err(GpuError::TooLarge { bytes: size, limit });
            }
            let remaining = state.config.options.max_bytes.saturating_sub(state.bytes);
            if let Some(short_by) = size.checked_sub(remaining).filter(|short_by| *short_by > 0) {
                return Err(Limit::Bytes { short_by }.into());
            }
            self.budget.lock().reserve(heap, size, within_budget)?;
            state.bytes += size;
            heap
        };
        // Released unless the driver allocates, also if it unwinds.
        let budget_reservation = OnDrop(|| {
            self.budget.lock().release(heap, size);
            pool.lock().bytes -= size;
        });
        let watch = crate::threads::Stopwatch::start();
        // SAFETY: type, size and features were checked; resource and chain are valid (`GpuAllocator::new`).
        let allocated = unsafe { self.device.allocate(memory_request) };
        self.longest_wait.fetch_max(watch.nanoseconds(), Ordering::Relaxed);
        match allocated {
            Ok(memory) => {
                core::mem::forget(budget_reservation);
                self.budget.lock().note_allocated(requests);
                Ok(memory)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The memory of a pool's nodes goes with its last block.
    pub(super) fn free_object(&self, pool: &Pool, object: &Object) {
        // SAFETY: the object was removed while idle: it is not mapped and holds no region.
        unsafe { self.device.free(object.memory) };
        {
            let mut state = pool.lock();
            state.objects -= 1;
            state.bytes -= object.size;
            self.budget.lock().release(state.config.heap, object.size);
        }
        self.free_idle_nodes(pool);
    }

    pub(super) fn free_idle_nodes(&self, pool: &Pool) {
        let idle = pool.lock().blocks.detach_idle_nodes();
        if let Some(mut nodes) = idle {
            host_memory::free_table(&mut nodes, self.memory);
        }
    }
}

const fn too_many_blocks(limit: u32) -> GpuError {
    GpuError::Limit(Limit::Blocks { limit })
}

fn end_creation(state: &mut super::state::PoolState) {
    state.blocks_in_creation -= 1;
    if state.blocks_in_creation == 0 {
        state.room_in_creation = 0;
    }
}
