use super::state::PoolState;
use super::{DevicePools, POOLS, Pool, Pools};
use crate::device::{DeviceMemory, HeapBudget, MAX_MEMORY_HEAPS};
use crate::error::GpuError;
use crate::host_memory::{self, Tables};
use crate::on_drop::OnDrop;
use crate::sync::{Ordering, StateMutex};
use alloc_core::HostAllocator;
use core::time::Duration;

impl DevicePools<'_> {
    pub(crate) fn trim(&self, bytes: u64) -> u64 {
        let mut freed = 0u64;
        for pool in self.all() {
            if freed >= bytes {
                break;
            }
            freed += self.trim_pool(pool, bytes.saturating_sub(freed));
        }
        freed
    }

    /// The steps are bounded: a callback that empties something each time does not keep the loop running.
    pub(super) fn trim_pool(&self, pool: &Pool, bytes: u64) -> u64 {
        pool.lock().reserved = 0;
        let freed = self.free_empty(pool, None, bytes, true);
        self.free_idle_nodes(pool);
        freed
    }

    /// A heap over its budget keeps none.
    pub(super) fn trim_excess(&self, pool: &Pool, emptied: u32) {
        self.free_empty(pool, Some(emptied), u64::MAX, false);
    }

    fn free_empty(&self, pool: &Pool, mut next: Option<u32>, bytes: u64, all: bool) -> u64 {
        let mut freed = 0u64;
        let blocks = pool.lock().blocks.len();
        for _ in 0..blocks {
            if freed >= bytes {
                break;
            }
            let removed = {
                let mut state = pool.lock();
                let heap = state.config.heap;
                let all = all || self.budget.lock().heap(heap).is_over_budget();
                state.remove_empty_block(next.take(), all)
            };
            let Some(object) = removed else {
                break;
            };
            freed += object.size;
            self.free_object(pool, &object);
        }
        freed
    }

    pub(crate) fn set_frame(&self, frame: u32) -> bool {
        let answered = u64::from(frame) + 1;
        if self.frame.swap(answered, Ordering::Relaxed) == answered || !self.update_budgets() {
            return false;
        }
        self.free_over_budget();
        true
    }

    pub(super) fn free_over_budget(&self) {
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

    pub(super) fn refresh_budgets(&self) -> bool {
        let now = self.now();
        let begun = self.budget.lock().begin_refresh(now);
        begun && self.query_budgets()
    }

    /// It calls `attempt` again with the budgets of now if that was refused for them.
    pub(super) fn with_budgets_of_now<T>(
        &self,
        within_budget: bool,
        mut attempt: impl FnMut() -> Result<T, GpuError>,
    ) -> Result<T, GpuError> {
        match attempt() {
            Err(reason)
                if within_budget && reason.is_shortage() && !crate::threads::is_in_call() && self.update_budgets() =>
            {
                attempt()
            }
            result => result,
        }
    }

    fn now(&self) -> Duration {
        (self.device.clock()).unwrap_or_else(|| Duration::from_nanos(self.created.nanoseconds()))
    }

    pub(crate) fn update_budgets(&self) -> bool {
        let now = self.now();
        let begun = self.budget.lock().begin_query(now);
        begun && self.query_budgets()
    }

    fn query_budgets(&self) -> bool {
        let _ends = OnDrop(|| self.budget.lock().end_query());
        let _in_call = crate::threads::enter_call();
        let mut budgets = [HeapBudget::default(); MAX_MEMORY_HEAPS];
        let heaps = budgets.get_mut(..self.device_info.heap_count);
        let report = heaps.and_then(|heaps| self.device.budget(heaps).then_some(&*heaps));
        if let Some(budgets) = report {
            self.budget.lock().set_driver_budgets(budgets);
        }
        report.is_some()
    }
}

impl Pools {
    pub(crate) fn bytes(&self) -> u64 {
        self.budget.lock().bytes
    }

    pub(crate) fn live_regions(&self) -> u64 {
        self.all().map(|pool| pool.lock().regions).fold(0, u64::saturating_add)
    }

    pub(crate) fn free_all(&mut self, device: Option<&dyn DeviceMemory>, host: &dyn HostAllocator) {
        for index in 0..POOLS as u16 {
            let Some((mut pool, memory)) = self.remove_pool(index) else {
                continue;
            };
            let state: &mut PoolState = StateMutex::get_mut(&mut pool);
            for object in state.each_object() {
                if let Some(device) = device {
                    // SAFETY: `&mut self` excludes other users, and the device uses no region (`GpuAllocator::new`).
                    unsafe { device.free(object.memory) };
                }
            }
            state.visit_tables(&mut |table| host_memory::free_table(table, host));
            host_memory::free(host, Some(memory));
        }
    }
}
