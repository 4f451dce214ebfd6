//! Frees all memory of an allocator.

use super::device_and_host::DeviceAndHost;
use super::state::PoolState;
use super::{POOLS, Pools};
use crate::host_memory::{self, Tables};
use crate::sync::StateMutex;

impl Pools {
    /// The number of live regions.
    pub(crate) fn live_regions(&self) -> u64 {
        self.all()
            .map(|pool| pool.lock().regions)
            .fold(0, u64::saturating_add)
    }

    /// Frees all device and host memory, unless regions live. Returns the number of live regions.
    pub(crate) fn close(&mut self, device_and_host: DeviceAndHost<'_>) -> u64 {
        let live = self.live_regions();
        if live == 0 {
            self.free_all(device_and_host, true);
        }
        live
    }

    /// Frees host memory only; the driver frees device memory with the device.
    pub(crate) fn abandon(&mut self, device_and_host: DeviceAndHost<'_>) {
        self.free_all(device_and_host, false);
    }

    /// Frees all device and host memory, live regions or not.
    pub(crate) fn close_by_force(&mut self, device_and_host: DeviceAndHost<'_>) {
        self.free_all(device_and_host, true);
    }

    fn free_all(&mut self, device_and_host: DeviceAndHost<'_>, driver: bool) {
        for index in 0..POOLS as u16 {
            let Some((mut pool, memory)) = self.remove_pool(index) else {
                continue;
            };
            let state: &mut PoolState = StateMutex::get_mut(&mut pool);
            let heap = state.config.heap;
            let blocks = state.blocks.slots.each().map(|(_, live)| &live.object);
            let dedicated = state.dedicated.each().map(|(_, region)| &region.object);
            let objects = blocks.chain(dedicated);
            for object in objects {
                if driver {
                    // SAFETY: no region lives, or the caller gives them up; `&mut self` excludes other users, and the slots go with it.
                    unsafe { device_and_host.device.free(object.memory) };
                }
                self.budget.get_mut().release(heap, object.size);
            }
            let host = device_and_host.memory;
            state.visit_tables(&mut |table| host_memory::free_table(table, host));
            host_memory::free(host, Some(memory));
        }
    }
}
