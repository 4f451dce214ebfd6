//! What an allocator is left with at the end of its context: counted, listed, or taken away.

use alloc_core::HostAllocator;

use super::{GpuAllocator, Outstanding};
use crate::device::DeviceMemory;
use crate::id::{PlaceKind, RegionId};
use crate::pool::{Env, Seen};
use crate::records::NIL;

/// Something that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Live {
    Region(RegionId),
    Wrapped(RegionId),
    Crop(RegionId),
}

impl Live {
    const fn id(self) -> RegionId {
        match self {
            Self::Region(id) | Self::Wrapped(id) | Self::Crop(id) => id,
        }
    }
}

/// As many are ended at a time.
const AT_ONCE: usize = 32;

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// What it could not be closed with. Kept buffers go.
    pub(crate) fn outstanding(&mut self) -> Outstanding {
        self.drop_kept(0, 0);
        let counts = self.records.counts();
        let env = Env { device: &*self.device, memory: &*self.memory };
        let (in_shards, their_pages) = self.shards.settle(env, &self.pools);
        let regions = (self.pools.live_regions() + in_shards).saturating_sub(their_pages);
        Outstanding { regions, wrapped: counts.wrapped, crops: counts.crops }
    }

    /// Fills `room` with what lives, in an order that stays while nothing changes, without the first `passed`; answers how many.
    pub(crate) fn live(&self, passed: usize, room: &mut [Option<Live>]) -> usize {
        self.live_of(passed, room, |_| true)
    }

    fn live_of(&self, passed: usize, room: &mut [Option<Live>], which: impl Fn(Live) -> bool) -> usize {
        let (mut to_pass, mut filled) = (passed, 0);
        let mut put = |live: Live| {
            if !which(live) {
            } else if to_pass > 0 {
                to_pass -= 1;
            } else if let Some(place) = room.get_mut(filled) {
                *place = Some(live);
                filled += 1;
            }
        };
        self.pools.walk(&mut |seen| {
            if let Seen::Region { at, .. } = seen {
                put(Live::Region(RegionId::new(self.tag, at.place, at.slot, at.generation)));
            }
        });
        self.records.each_alias(&mut |alias| {
            let id = alias.key.id(self.tag);
            put(if id.place().kind == PlaceKind::Crop { Live::Crop(id) } else { Live::Wrapped(id) });
        });
        filled
    }

    /// Ends what lives, crops before what they were cut from, and gives everything back. A buffer whose mapping was forgotten stays; its
    /// memory does not. Takes no memory.
    pub(crate) fn close_by_force(self) {
        let mut allocator = self;
        allocator.drop_kept(0, 0);
        allocator.end_each(|live| matches!(live, Live::Crop(_)));
        allocator.end_each(|_| true);
        allocator.pools.close_by_force(Env { device: &*allocator.device, memory: &*allocator.memory });
        allocator.shards.dismantle(&*allocator.memory);
        allocator.records.dismantle(&*allocator.memory);
        drop(allocator.into_parts());
    }

    fn end_each(&self, which: impl Fn(Live) -> bool) {
        // Each turn ends one, or passes one by.
        let mut stay = 0;
        loop {
            let mut some = [None; AT_ONCE];
            if self.live_of(stay, &mut some, &which) == 0 {
                return;
            }
            for live in some.into_iter().flatten() {
                stay += usize::from(self.end(live.id(), NIL, false).is_err());
            }
        }
    }
}
