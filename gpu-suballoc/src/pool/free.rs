//! Frees and finds regions.

use super::device_and_host::DeviceAndHost;
use super::request::Suballocation;
use super::state::DeferredFree;
use super::{Pool, Pools};
use crate::device::MemoryHandle;
use crate::error::GpuMisuse;
use crate::host_memory;
use crate::id::RegionPlace;

impl Pools {
    /// Frees the region at a place. Returns its size. Never allocates.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`] if it is not there. Nothing was changed.
    #[inline]
    pub(crate) fn free(
        &self,
        device_and_host: DeviceAndHost<'_>,
        at: RegionPlace,
    ) -> Result<u64, GpuMisuse> {
        let pool = self.pool(at.pool()).ok_or(GpuMisuse::Stale)?;
        let mut state = pool.lock();
        let (size, more) = state.free(at)?;
        if more {
            let deferred = state.deferred_free();
            drop(state);
            self.finish_free(device_and_host, pool, deferred);
        }
        Ok(size)
    }

    /// Frees unused host memory, and memory objects that became empty, unless the pool keeps them.
    #[cold]
    pub(super) fn finish_free(
        &self,
        device_and_host: DeviceAndHost<'_>,
        pool: &Pool,
        deferred: DeferredFree,
    ) {
        if let Some(mut nodes) = deferred.idle_nodes {
            host_memory::free_table(&mut nodes, device_and_host.memory);
        }
        if let Some(object) = deferred.object {
            self.free_object(device_and_host, pool, &object);
        }
        if let Some(block) = deferred.emptied_block {
            let removed = {
                let mut state = pool.lock();
                let over = self.budget.lock().heap(state.config.heap).is_over_budget();
                state.remove_empty_block(Some(block), over)
            };
            if let Some(object) = removed {
                self.free_object(device_and_host, pool, &object);
            }
        }
    }

    /// The region at a place.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`].
    pub(crate) fn find(&self, at: RegionPlace) -> Result<Suballocation, GpuMisuse> {
        let pool = self.pool(at.pool()).ok_or(GpuMisuse::Stale)?;
        pool.lock().locate(at)
    }

    /// Whether a memory object belongs to one of these pools.
    pub(crate) fn owns(&self, memory: MemoryHandle) -> bool {
        self.all().any(|pool| {
            let state = pool.lock();
            let blocks = state.blocks.slots.each().map(|(_, live)| &live.object);
            let dedicated = state.dedicated.each().map(|(_, region)| &region.object);
            blocks
                .chain(dedicated)
                .any(|object| object.memory == memory)
        })
    }
}
