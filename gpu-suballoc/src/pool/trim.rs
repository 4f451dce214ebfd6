//! Frees empty blocks, and queries budgets.

use super::device_and_host::DeviceAndHost;
use super::{Pool, Pools};
use crate::device::{DeviceMemory, HeapBudget, MAX_MEMORY_HEAPS};
use crate::sync::Ordering;

impl Pools {
    /// Frees empty blocks until at least `bytes` have been released or none are left. Returns the number of bytes released.
    pub(crate) fn trim(&self, device_and_host: DeviceAndHost<'_>, bytes: u64) -> u64 {
        let mut freed = 0u64;
        for pool in self.all() {
            if freed >= bytes {
                break;
            }
            freed = freed.saturating_add(
                self.trim_pool(device_and_host, pool, bytes.saturating_sub(freed))
                    .0,
            );
        }
        freed
    }

    /// Frees everything that pools keep for later requests. Returns whether there was something.
    pub(super) fn free_everything_kept(&self, device_and_host: DeviceAndHost<'_>) -> bool {
        let mut any = false;
        for pool in self.all() {
            any |= self.trim_pool(device_and_host, pool, u64::MAX) != (0, false);
        }
        any
    }

    /// As [`trim`](Pools::trim), of one pool; and whether the range of a linear pool became a hole of its block. The steps are bounded by what could be
    /// freed at the beginning: a callback that leaves something empty each time does not keep the loop running.
    pub(super) fn trim_pool(
        &self,
        device_and_host: DeviceAndHost<'_>,
        pool: &Pool,
        bytes: u64,
    ) -> (u64, bool) {
        let holes = pool.lock().free_empty_linear_range();
        let mut freed = 0u64;
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
            self.free_object(device_and_host, pool, &object);
        }
        (freed, holes)
    }

    /// Begins a frame: the first call with `frame` queries budgets (`VK_EXT_memory_budget`), and frees the empty blocks of heaps that are over
    /// theirs. False if the driver was not queried, or reports no budgets.
    pub(crate) fn set_frame(&self, device_and_host: DeviceAndHost<'_>, frame: u32) -> bool {
        let answered = u64::from(frame) + 1;
        if self.frame.swap(answered, Ordering::Relaxed) == answered
            || !self.update_budgets(device_and_host.device)
        {
            return false;
        }
        for pool in self.all() {
            let over = {
                let state = pool.lock();
                self.budget.lock().heap(state.config.heap).is_over_budget()
            };
            if over {
                self.trim_pool(device_and_host, pool, u64::MAX);
            }
        }
        true
    }

    pub(super) fn update_budgets(&self, device: &dyn DeviceMemory) -> bool {
        let mut budgets = [HeapBudget::default(); MAX_MEMORY_HEAPS];
        let answered = budgets
            .get_mut(..self.device_info.heap_count())
            .is_some_and(|budgets| device.budget(budgets));
        if answered {
            self.budget.lock().set_driver_budgets(
                budgets
                    .get(..self.device_info.heap_count())
                    .unwrap_or_default(),
            );
        }
        answered
    }
}
