//! Frees empty blocks, and queries budgets.

use super::budget::MemoryBudget;
use super::create_block::GrowthError;
use super::state::PoolState;
use super::{DevicePools, POOLS, Pool, Pools};
use crate::device::{DeviceMemory, HeapBudget, MAX_MEMORY_HEAPS};
use crate::host_memory;
use crate::host_memory::Tables;
use crate::sync::{Ordering, StateMutex};
use alloc_core::HostAllocator;
use core::time::Duration;

impl DevicePools<'_> {
    /// Frees empty blocks until at least `bytes` have been released or none are left. Returns the number of bytes released.
    pub(crate) fn trim(&self, bytes: u64) -> u64 {
        let mut freed = 0u64;
        for pool in self.all() {
            if freed >= bytes {
                break;
            }
            freed = freed.saturating_add(self.trim_pool(pool, bytes.saturating_sub(freed)).0);
        }
        freed
    }

    /// Frees everything that pools keep for later requests. Returns whether there was something.
    pub(super) fn free_everything_kept(&self) -> bool {
        let mut any = false;
        for pool in self.all() {
            any |= self.trim_pool(pool, u64::MAX) != (0, false);
        }
        any
    }

    /// As [`trim`](Self::trim), of one pool; and whether the range of a linear pool became a hole of its block. The steps are bounded by what could be
    /// freed at the beginning: a callback that leaves something empty each time does not keep the loop running.
    pub(super) fn trim_pool(&self, pool: &Pool, bytes: u64) -> (u64, bool) {
        let holes = pool.lock().free_empty_linear_range();
        let mut freed = 0u64;
        pool.lock().reserved = 0;
        let blocks = pool.lock().blocks.len();
        for _ in 0..blocks {
            if freed >= bytes {
                break;
            }
            let removed = pool.lock().remove_empty_block(None, true);
            let Some(object) = removed else {
                break;
            };
            freed = freed.saturating_add(object.size);
            self.free_object(pool, &object);
        }
        (freed, holes)
    }

    /// Frees `emptied` and other empty blocks, unless the pool keeps them; while its heap is over the budget it keeps none.
    pub(super) fn trim_excess(&self, pool: &Pool, emptied: u32) {
        let mut next = Some(emptied);
        let blocks = pool.lock().blocks.len();
        for _ in 0..blocks {
            let removed = {
                let mut state = pool.lock();
                let over = self.budget.lock().heap(state.config.heap).is_over_budget();
                state.remove_empty_block(next.take(), over)
            };
            let Some(object) = removed else {
                break;
            };
            self.free_object(pool, &object);
        }
    }

    /// Begins a frame: the first call with `frame` queries budgets (`VK_EXT_memory_budget`), and frees the empty blocks of heaps that are over
    /// theirs. False if the driver was not queried, or reports no budgets.
    pub(crate) fn set_frame(&self, frame: u32) -> bool {
        let answered = u64::from(frame) + 1;
        if self.frame.swap(answered, Ordering::Relaxed) == answered
            || !self.update_budgets(self.device)
        {
            return false;
        }
        self.free_over_budget();
        true
    }

    /// Frees the empty blocks of heaps that are over their budgets.
    fn free_over_budget(&self) {
        for pool in self.all() {
            let over = {
                let state = pool.lock();
                self.budget.lock().heap(state.config.heap).is_over_budget()
            };
            if over {
                self.trim_pool(pool, u64::MAX);
            }
        }
    }

    /// Asks for budgets if the last report is old: before memory is allocated from the driver. Whether it did.
    pub(super) fn refresh_budgets(&self) -> bool {
        let now = self.now(self.device);
        let begun = self.budget.lock().begin_refresh(now);
        begun && self.query_budgets(self.device)
    }

    /// As [`refresh_budgets`](Self::refresh_budgets), and frees empty blocks of heaps that turn out to be over their budgets.
    pub(super) fn refresh_and_trim(&self) {
        if self.refresh_budgets() {
            self.free_over_budget();
        }
    }

    /// Calls `attempt`. If it must stay within budgets and was refused, calls it again with the budgets of now.
    pub(super) fn with_budgets_of_now<T>(
        &self,
        within_budget: bool,
        mut attempt: impl FnMut() -> Result<T, GrowthError>,
    ) -> Result<T, GrowthError> {
        match attempt() {
            Err(reason)
                if within_budget
                    && reason.is_shortage()
                    && !crate::threads::is_in_call()
                    && self.update_budgets(self.device) =>
            {
                attempt()
            }
            result => result,
        }
    }
}

impl Pools {
    /// Bytes of all memory objects.
    pub(crate) fn bytes(&self) -> u64 {
        self.budget.lock().bytes
    }

    /// The time by the device's clock, or std's.
    fn now(&self, device: &dyn DeviceMemory) -> Duration {
        (device.clock()).unwrap_or_else(|| Duration::from_nanos(self.created.nanoseconds()))
    }

    /// Asks the device for the budgets of its heaps. Returns whether it has some.
    pub(super) fn update_budgets(&self, device: &dyn DeviceMemory) -> bool {
        let now = self.now(device);
        let begun = self.budget.lock().begin_query(now);
        begun && self.query_budgets(device)
    }

    /// Makes the query that has begun.
    fn query_budgets(&self, device: &dyn DeviceMemory) -> bool {
        let _ends = BudgetQuery(&self.budget);
        let _in_call = crate::threads::enter_call();
        let mut budgets = [HeapBudget::default(); MAX_MEMORY_HEAPS];
        let heaps = budgets.get_mut(..self.device_info.heap_count());
        let report = heaps.and_then(|heaps| device.budget(heaps).then_some(&*heaps));
        if let Some(budgets) = report {
            self.budget.lock().set_driver_budgets(budgets);
        }
        report.is_some()
    }
}

/// A query of budgets, which ends when this is dropped: also if the device unwinds.
struct BudgetQuery<'a>(&'a StateMutex<MemoryBudget>);

impl Drop for BudgetQuery<'_> {
    fn drop(&mut self) {
        self.0.lock().end_query();
    }
}

impl Pools {
    /// The number of live regions.
    pub(crate) fn live_regions(&self) -> u64 {
        self.all()
            .map(|pool| pool.lock().regions)
            .fold(0, u64::saturating_add)
    }

    /// Frees the host memory, and the device memory too if there is a `device` to call; else it goes with the device.
    pub(crate) fn free_all(&mut self, device: Option<&dyn DeviceMemory>, host: &dyn HostAllocator) {
        for index in 0..POOLS as u16 {
            let Some((mut pool, memory)) = self.remove_pool(index) else {
                continue;
            };
            let state: &mut PoolState = StateMutex::get_mut(&mut pool);
            let blocks = state.blocks.slots.each().map(|(_, live)| &live.object);
            let dedicated = state.dedicated.each().map(|(_, region)| &region.object);
            let objects = blocks.chain(dedicated);
            for object in objects {
                if let Some(device) = device {
                    // SAFETY: no region lives, or the caller gives them up; `&mut self` excludes other users, and the slots go with it.
                    unsafe { device.free(object.memory) };
                }
            }
            state.visit_tables(&mut |table| host_memory::free_table(table, host));
            host_memory::free(host, Some(memory));
        }
    }
}
