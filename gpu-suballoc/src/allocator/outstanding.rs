//! What an allocator is left with at the end of its context: counted, listed, or taken away.

use alloc_core::HostAllocator;

use super::{GpuAllocator, OutstandingRegions};
use crate::device::DeviceMemory;
use crate::id::{NO_RECORD, RegionId, RegionPlaceKind};
use crate::pool::{DeviceAndHost, WalkItem};

/// Something that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiveRegion {
    Region(RegionId),
    Wrapped(RegionId),
    Crop(RegionId),
}

impl LiveRegion {
    const fn id(self) -> RegionId {
        match self {
            Self::Region(id) | Self::Wrapped(id) | Self::Crop(id) => id,
        }
    }
}

/// As many are ended at a time.
const BATCH: usize = 32;

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// What it could not be closed with. Kept buffers go.
    pub(crate) fn outstanding(&mut self) -> OutstandingRegions {
        self.evict_reusable(0, 0);
        let counts = self.records.counts();
        let env = DeviceAndHost {
            device: &*self.device,
            memory: &*self.memory,
        };
        let (in_shards, their_pages) = self.shards.trim_abandoned(env, &self.pools);
        let regions = (self.pools.live_regions() + in_shards).saturating_sub(their_pages);
        OutstandingRegions {
            regions,
            wrapped: counts.wrapped,
            crops: counts.crops,
        }
    }

    /// Fills `room` with what lives, in an order that stays while nothing changes, without the first `passed`; answers how many.
    pub(crate) fn live_regions(&self, passed: usize, room: &mut [Option<LiveRegion>]) -> usize {
        self.live_regions_where(passed, room, |_| true)
    }

    fn live_regions_where(
        &self,
        passed: usize,
        room: &mut [Option<LiveRegion>],
        which: impl Fn(LiveRegion) -> bool,
    ) -> usize {
        let (mut to_pass, mut filled) = (passed, 0);
        let mut put = |live: LiveRegion| {
            if !which(live) {
            } else if to_pass > 0 {
                to_pass -= 1;
            } else if let Some(place) = room.get_mut(filled) {
                *place = Some(live);
                filled += 1;
            }
        };
        self.walk(&mut |seen| {
            if let WalkItem::Region { at, .. } = seen {
                put(LiveRegion::Region(RegionId::new(self.tag, at)));
            }
        });
        self.records.each_alias(&mut |alias| {
            let id = RegionId::new(self.tag, alias.key);
            put(if id.kind() == RegionPlaceKind::Crop {
                LiveRegion::Crop(id)
            } else {
                LiveRegion::Wrapped(id)
            });
        });
        filled
    }

    /// Ends what lives, crops before what they were cut from, and gives everything back. A buffer whose mapping was forgotten stays; its
    /// memory does not. Takes no memory.
    pub(crate) fn close_by_force(self) {
        let mut allocator = self;
        allocator.evict_reusable(0, 0);
        allocator.free_each(|live| matches!(live, LiveRegion::Crop(_)));
        allocator.free_each(|_| true);
        allocator.pools.close_by_force(DeviceAndHost {
            device: &*allocator.device,
            memory: &*allocator.memory,
        });
        allocator.shards.free_all(&*allocator.memory);
        allocator.records.free_all(&*allocator.memory);
        drop(allocator.into_parts());
    }

    fn free_each(&self, which: impl Fn(LiveRegion) -> bool) {
        // Each turn ends one, or passes one by.
        let mut stay = 0;
        loop {
            let mut some = [None; BATCH];
            if self.live_regions_where(stay, &mut some, &which) == 0 {
                return;
            }
            for live in some.into_iter().flatten() {
                stay += usize::from(self.free_named(live.id(), NO_RECORD, false).is_err());
            }
        }
    }
}
