//! Pages and slabs of shards: ranges of a pool's blocks that no region id names.
//!
//! ```text
//!   user data of the range:   0x9f00_0000                       allocated for a shard
//!                             0xa000_0000 | shard 9 | page 20   the shard's; the page has the number that the ids of its regions have
//! ```

#![forbid(unsafe_code)]

use core::ptr::NonNull;

use super::Pools;
use super::device_and_host::DeviceAndHost;
use super::request::{NEW_SHARD_PAGE, is_shard_page};
use super::state::PoolState;
use crate::error::{GpuError, GpuMisuse};
use crate::id::{RegionPlace, RegionPlaceKind, RegionSlot};

impl Pools {
    /// Gives a range that was placed as [`NEW_SHARD_PAGE`] its final user data.
    pub(crate) fn name_shard_page(&self, at: RegionSlot, user_data: u32) -> Result<(), GpuMisuse> {
        let mut state = self.pool(at.place.pool()).ok_or(GpuMisuse::Stale)?.lock();
        let (_, size, _) = state.shard_page(at)?;
        state
            .blocks
            .set_user_data(at.place.block(), at.slot, at.generation, user_data)?;
        state.shard_pages = state.shard_pages.saturating_add(1);
        state.shard_page_bytes = state.shard_page_bytes.saturating_add(size);
        Ok(())
    }

    /// Frees a shard's range. Never allocates.
    pub(crate) fn free_shard_page(
        &self,
        device_and_host: DeviceAndHost<'_>,
        at: RegionSlot,
    ) -> Result<(), GpuMisuse> {
        let pool = self.pool(at.place.pool()).ok_or(GpuMisuse::Stale)?;
        let mut state = pool.lock();
        let (_, size, user_data) = state.shard_page(at)?;
        let (_, more) = state.free(at, user_data)?;
        if user_data != NEW_SHARD_PAGE {
            state.shard_pages = state.shard_pages.saturating_sub(1);
            state.shard_page_bytes = state.shard_page_bytes.saturating_sub(size);
        }
        if more {
            let deferred = state.deferred_free();
            drop(state);
            self.finish_free(device_and_host, pool, deferred);
        }
        Ok(())
    }

    /// As [`map`](Pools::map), for a shard's range.
    pub(crate) fn map_shard_page(
        &self,
        device_and_host: DeviceAndHost<'_>,
        at: RegionSlot,
    ) -> Result<NonNull<u8>, GpuError> {
        self.map_at(device_and_host, at, PoolState::shard_page_place)
            .map(|(_, first)| first)
    }

    /// As [`unmap`](Pools::unmap), for a shard's range.
    pub(crate) fn unmap_shard_page(
        &self,
        device_and_host: DeviceAndHost<'_>,
        at: RegionSlot,
    ) -> Result<(), GpuMisuse> {
        let place = self
            .pool(at.place.pool())
            .ok_or(GpuMisuse::Stale)?
            .lock()
            .shard_page_place(at)?
            .0;
        self.unmap_object(device_and_host, place)
    }
}

impl PoolState {
    /// Offset, size and user data of a shard's range.
    fn shard_page(&self, at: RegionSlot) -> Result<(u64, u64, u32), GpuMisuse> {
        let (_, found) = self
            .blocks
            .range(at.place.block(), at.slot, at.generation)?;
        let is_page = at.kind() == RegionPlaceKind::General && is_shard_page(found.user_data);
        if is_page {
            Ok((found.offset, found.size, found.user_data))
        } else {
            Err(GpuMisuse::Stale)
        }
    }

    fn shard_page_place(&self, at: RegionSlot) -> Result<(RegionPlace, u64), GpuMisuse> {
        Ok((at.place, self.shard_page(at)?.0))
    }
}
