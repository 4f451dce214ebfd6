//! How a shard comes by its lanes, lets go of them while nothing happens there, and comes back.

use alloc_core::HostAllocator;

use super::Shard;
use super::thread_shard::GRANULE;
use crate::classes::ClassTotals;
use crate::device::DeviceMemory;
use crate::error::GpuError;
use crate::shard::{RequestKind, ShardPages};

/// A lane that others may take over unless something lives in it.
#[derive(Clone, Copy)]
pub(super) struct Parked<'a> {
    kind: RequestKind,
    lane: &'a ShardPages,
    /// What it comes back by.
    term: u64,
}

/// What is in a [`Shard`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardUsage {
    /// Regions that live.
    pub regions: u64,
    /// Their bytes, in whole granules.
    pub region_bytes: u64,
    /// Bytes of the pages and slabs that they lie in, which the allocator counts as regions.
    pub page_bytes: u64,
}

impl<'a, D: DeviceMemory, A: HostAllocator> Shard<'a, D, A> {
    /// A lane of this shard for such requests. `None` where it has others already, as many as it can have.
    #[cold]
    pub(super) fn pages_for(
        &mut self,
        kind: RequestKind,
    ) -> Result<Option<&'a ShardPages>, GpuError> {
        let has = |place: &Option<(RequestKind, &'a ShardPages)>| {
            place.is_some_and(|(asked, _)| asked == kind)
        };
        let owned = self.pages.iter().position(has);
        if let Some(index) = owned.or_else(|| self.unpark(|parked| parked.kind == kind)) {
            self.last_used = index;
            return Ok(self
                .pages
                .get(index)
                .and_then(|place| place.map(|(_, lane)| lane)));
        }
        let mut places = self.pages.iter().zip(&self.parked);
        let Some(index) = places.position(|(owned, parked)| owned.is_none() && parked.is_none())
        else {
            return Ok(None);
        };
        let granule = self.allocator.limits.non_coherent_atom_size.max(GRANULE);
        let lane =
            self.allocator
                .shards
                .pages_for(self.allocator.device_and_host(), kind, granule)?;
        if let (Some(lane), Some(place)) = (lane, self.pages.get_mut(index)) {
            *place = Some((kind, lane));
            self.last_used = index;
        }
        Ok(lane)
    }

    /// Nothing lives in a lane of this shard: what is empty there is anybody's.
    #[cold]
    #[inline(never)]
    pub(super) fn park(&mut self, lane: &ShardPages) {
        for (owned, parked) in self.pages.iter_mut().zip(&mut self.parked) {
            if let Some((kind, found)) = *owned
                && found.number == lane.number
            {
                // SAFETY: the lane is this shard's, and nobody has a reference to what is its owner's; it is not looked for any more.
                *parked = unsafe { found.park_empty() }.map(|term| Parked {
                    kind,
                    lane: found,
                    term,
                });
                if parked.is_some() {
                    *owned = None;
                }
            }
        }
    }

    /// Comes back to a lane: its index. `None` where there is no such, or another shard has it.
    #[cold]
    fn unpark(&mut self, is_it: impl Fn(&Parked<'a>) -> bool) -> Option<usize> {
        let found = |place: &Option<Parked<'a>>| place.as_ref().is_some_and(&is_it);
        let index = self.parked.iter().position(found)?;
        let parked = self.parked.get_mut(index)?.take()?;
        if !parked.lane.unpark(parked.term) {
            return None;
        }
        *self.pages.get_mut(index)? = Some((parked.kind, parked.lane));
        Some(index)
    }

    /// The lane of this shard that has the number, if it is one.
    #[inline]
    pub(super) fn lane_of(&mut self, number: u16) -> Option<&'a ShardPages> {
        let has = |place: &Option<(RequestKind, &'a ShardPages)>| {
            place
                .map(|(_, lane)| lane)
                .filter(|lane| lane.number == number)
        };
        let owned = self.pages.get(self.last_used).and_then(has);
        if let Some(lane) = owned.or_else(|| self.pages.iter().find_map(has)) {
            return Some(lane);
        }
        let index = self.unpark(|parked| parked.lane.number == number)?;
        self.pages.get(index).and_then(has)
    }

    /// Takes back what other threads freed, and gives back every page and slab that is empty: for the end of a frame, or of a phase, and
    /// before the thread waits for long. Until the shard's next call whatever becomes empty goes back at once, and a free costs a lock.
    pub fn trim(&mut self) {
        let (env, pools) = (self.allocator.device_and_host(), &self.allocator.pools);
        for (owned, parked) in self.pages.iter_mut().zip(&mut self.parked) {
            if let Some((kind, lane)) = owned.take() {
                let term = lane.park();
                *parked = Some(Parked { kind, lane, term });
            }
            if let Some(parked) = parked {
                parked.lane.free_idle(env, pools);
            }
        }
    }

    /// What is in it. Takes back what other threads freed first, so that it is exact when they pause.
    pub fn usage(&mut self) -> ShardUsage {
        let mut usage = ShardUsage::default();
        for (_, lane) in self.pages.iter().flatten() {
            // SAFETY: as in `allocate`.
            let own = unsafe { lane.owner_state() };
            lane.collect(own);
            usage.add(own.totals());
        }
        for parked in self.parked.iter().flatten() {
            if let Some(totals) = parked.lane.parked_totals(parked.term) {
                usage.add(totals);
            }
        }
        usage
    }
}

impl ShardUsage {
    fn add(&mut self, lane: [ClassTotals; 2]) {
        for totals in lane {
            self.regions += u64::from(totals.live);
            self.region_bytes += totals.used_bytes;
            self.page_bytes += totals.reserved_bytes;
        }
    }
}

impl<D: DeviceMemory, A: HostAllocator> Drop for Shard<'_, D, A> {
    fn drop(&mut self) {
        for (_, lane) in self.pages.iter().flatten() {
            lane.abandon(self.allocator.device_and_host(), &self.allocator.pools);
        }
        for parked in self.parked.iter().flatten() {
            let (env, pools) = (self.allocator.device_and_host(), &self.allocator.pools);
            parked.lane.abandon_parked(parked.term, env, pools);
        }
    }
}
