//! The live regions at the end of an allocator: counted, listed, or freed by force.

use alloc_core::HostAllocator;

use super::{GpuAllocator, OutstandingRegions};
use crate::device::DeviceMemory;
use crate::id::RegionId;
use crate::region::Ownership;

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

    /// Fills `room` with live regions, wrapped buffers and crops that `which` selects, from the slot `from` on, which is advanced. Returns their
    /// number: 0 at the end.
    pub(crate) fn live_regions<const N: usize>(
        &self,
        from: &mut u32,
        room: &mut [Option<(RegionId, Ownership)>; N],
        which: impl Fn(Ownership) -> bool,
    ) -> usize {
        let mut found = [None; N];
        let (count, next) = self.records.live_regions(*from, &mut found, which);
        *from = next;
        *room = found.map(|found| {
            let (key, ownership) = found?;
            Some((RegionId::new(self.tag, key), ownership))
        });
        count
    }

    /// Frees all regions, crops before their roots, and closes the allocator. A buffer whose mapping was forgotten is not destroyed; its
    /// memory is freed. Allocates nothing.
    pub(crate) fn close_by_force(self) {
        let mut allocator = self;
        allocator.evict_reusable(0, 0);
        allocator.free_each(|ownership| ownership == Ownership::CropAlias);
        allocator.free_each(|_| true);
        let (env, pools) = allocator.split();
        pools.close_by_force(env);
        allocator.free_tables();
        drop(allocator.into_parts());
    }

    /// Frees each region that `which` selects, if it may be freed.
    fn free_each(&self, which: impl Fn(Ownership) -> bool) {
        let (mut from, mut some) = (0, [None; BATCH]);
        while self.live_regions(&mut from, &mut some, &which) > 0 {
            for (id, _) in some.into_iter().flatten() {
                let _ = self.free_named(id, false);
            }
        }
    }
}
