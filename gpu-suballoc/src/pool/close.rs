//! Frees all memory of an allocator.

use super::device_and_host::DeviceAndHost;
use super::state::PoolState;
use super::{POOLS, Pools};
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
            let blocks = state.blocks.slots.as_mut_slice().iter_mut();
            let dedicated = state.dedicated.slots.as_mut_slice().iter_mut();
            let objects = blocks
                .filter_map(|slot| Some(slot.live.take()?.object))
                .chain(dedicated.filter_map(|slot| Some(slot.live.take()?.object)));
            for object in objects {
                if driver {
                    // SAFETY: no region lives, or the caller gives them up; `&mut self` excludes other users, and the object was removed.
                    unsafe { device_and_host.device.free(object.memory) };
                }
                self.budget.get_mut().release(heap, object.size);
            }
            device_and_host.free_optional(state.blocks.spare_memory.take());
            while let Some(memory) = state.blocks.store.detach_memory() {
                device_and_host.free(memory);
            }
            device_and_host.free_optional(state.blocks.slots.detach_memory());
            device_and_host.free_optional(state.blocks.open.detach_memory());
            device_and_host.free_optional(state.blocks.closed.detach_memory());
            device_and_host.free_optional(state.dedicated.slots.detach_memory());
            device_and_host.free_optional(state.linear.detach_memory());
            device_and_host.free(memory);
        }
    }
}
