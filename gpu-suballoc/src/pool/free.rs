//! Frees and finds regions.

use super::device_and_host::DeviceAndHost;
use super::request::Suballocation;
use super::state::DeferredFree;
use super::{Pool, Pools};
use crate::device::MemoryHandle;
use crate::error::GpuMisuse;
use crate::id::{NO_RECORD, RegionPlaceKind, RegionSlot};

impl Pools {
    /// Frees a region without a record. Returns its size. Never allocates.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`] if there is no such region, [`GpuMisuse::Held`] if it has a record, [`GpuMisuse::Mapped`] if it is dedicated
    /// and mapped. Nothing was changed.
    #[inline]
    pub(crate) fn free(
        &self,
        device_and_host: DeviceAndHost<'_>,
        at: RegionSlot,
    ) -> Result<u64, GpuMisuse> {
        self.free_recorded(device_and_host, at, NO_RECORD)
    }

    /// Frees a region that has that user data.
    ///
    /// # Errors
    /// As [`free`](Pools::free).
    #[inline]
    pub(crate) fn free_recorded(
        &self,
        device_and_host: DeviceAndHost<'_>,
        at: RegionSlot,
        user_data: u32,
    ) -> Result<u64, GpuMisuse> {
        let pool = self.pool(at.place.pool()).ok_or(GpuMisuse::Stale)?;
        let mut state = pool.lock();
        let (size, more) = state.free(at, user_data)?;
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
        device_and_host.free_optional(deferred.spare_memory);
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

    /// A live region, and its record's number.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`].
    pub(crate) fn find(&self, at: RegionSlot) -> Result<(Suballocation, u32), GpuMisuse> {
        self.pool(at.place.pool())
            .ok_or(GpuMisuse::Stale)?
            .lock()
            .locate(at)
    }

    /// Whether a memory object belongs to one of these pools.
    pub(crate) fn owns(&self, memory: MemoryHandle) -> bool {
        self.all().any(|pool| {
            let state = pool.lock();
            let blocks = state
                .blocks
                .slots
                .as_slice()
                .iter()
                .filter_map(|slot| slot.live.as_ref())
                .map(|live| &live.object);
            let dedicated = state
                .dedicated
                .slots
                .as_slice()
                .iter()
                .filter_map(|slot| slot.live.as_ref())
                .map(|live| &live.object);
            blocks
                .chain(dedicated)
                .any(|object| object.memory == memory)
        })
    }

    /// Stores the user data `to` with a region, if it was `from`. Returns the previous user data.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`].
    pub(crate) fn set_user_data(
        &self,
        at: RegionSlot,
        from: u32,
        to: u32,
    ) -> Result<u32, GpuMisuse> {
        self.pool(at.place.pool())
            .ok_or(GpuMisuse::Stale)?
            .lock()
            .set_user_data(at, from, to)
    }

    /// Gives a region its next generation: existing ids are stale. Returns it.
    ///
    /// # Errors
    /// [`GpuMisuse::Stale`] if there is no such region, if its generations are used up or if it lies in a linear pool.
    pub(crate) fn renew(&self, at: RegionSlot) -> Result<u32, GpuMisuse> {
        let mut state = self.pool(at.place.pool()).ok_or(GpuMisuse::Stale)?.lock();
        state.find(at)?;
        match at.kind() {
            RegionPlaceKind::Dedicated => state.dedicated.renew(at.place.block(), at.generation),
            RegionPlaceKind::General => {
                state.blocks.renew(at.place.block(), at.slot, at.generation)
            }
            _ => Err(GpuMisuse::Stale),
        }
    }
}
