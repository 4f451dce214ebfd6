//! The live regions at the end of an allocator: counted, listed, or freed by force.

use alloc_core::HostAllocator;

use super::{GpuAllocator, OutstandingRegions};
use crate::device::DeviceMemory;
use crate::id::{NO_RECORD, RegionId, RegionPlaceKind, RegionSlot};
use crate::pool::WalkItem;

/// Regions that are freed at a time.
const BATCH: usize = 32;

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Counts what prevents closing, after freeing the kept buffers.
    pub(crate) fn outstanding(&mut self) -> OutstandingRegions {
        self.evict_reusable(0, 0);
        let counts = self.records.counts();
        let (_, pools) = self.split();
        let regions = pools.live_regions();
        OutstandingRegions {
            regions,
            wrapped: counts.wrapped,
            crops: counts.crops,
        }
    }

    /// Fills `room` with the ids of live regions, wrapped buffers and crops, without the first `passed`. The order is constant while
    /// nothing changes. Returns their number.
    pub(crate) fn live_regions(&self, passed: usize, room: &mut [Option<RegionId>]) -> usize {
        self.live_regions_where(passed, room, |_| true)
    }

    fn live_regions_where(
        &self,
        passed: usize,
        room: &mut [Option<RegionId>],
        which: impl Fn(RegionId) -> bool,
    ) -> usize {
        let (mut to_pass, mut filled) = (passed, 0);
        let mut put = |at: RegionSlot| {
            let id = RegionId::new(self.tag, at);
            if !which(id) {
            } else if to_pass > 0 {
                to_pass -= 1;
            } else if let Some(place) = room.get_mut(filled) {
                *place = Some(id);
                filled += 1;
            }
        };
        self.pools.walk(&mut |item| {
            if let WalkItem::Region { at, .. } = item {
                put(at);
            }
        });
        self.records.each_alias(&mut |alias| put(alias.key));
        filled
    }

    /// Frees all regions, crops before their roots, and closes the allocator. A buffer whose mapping was forgotten is not destroyed; its
    /// memory is freed. Allocates nothing.
    pub(crate) fn close_by_force(self) {
        let mut allocator = self;
        allocator.evict_reusable(0, 0);
        allocator.free_each(|id| id.kind() == RegionPlaceKind::Crop);
        allocator.free_each(|_| true);
        let (env, pools) = allocator.split();
        pools.close_by_force(env);
        allocator.free_tables();
        drop(allocator.into_parts());
    }

    fn free_each(&self, which: impl Fn(RegionId) -> bool) {
        // Each turn frees one, or passes one by.
        let mut stay = 0;
        loop {
            let mut some = [None; BATCH];
            if self.live_regions_where(stay, &mut some, &which) == 0 {
                return;
            }
            for id in some.into_iter().flatten() {
                stay += usize::from(self.free_named(id, NO_RECORD, false).is_err());
            }
        }
    }
}
