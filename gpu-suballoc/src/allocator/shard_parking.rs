//! Parking: a shard gives up pages without live regions, and takes them back at its next call.

use alloc_core::HostAllocator;

use super::Shard;
use super::thread_shard::GRANULE;
use crate::classes::ClassTotals;
use crate::device::DeviceMemory;
use crate::error::GpuError;
use crate::shard::{RequestKind, ShardPages};

/// Pages without live regions, which other threads may free.
#[derive(Clone, Copy)]
pub(super) struct Parked<'a> {
    kind: RequestKind,
    shard_pages: &'a ShardPages,
    /// Needed to take them back.
    term: u64,
}

/// The use of a [`Shard`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardUsage {
    /// Live regions.
    pub regions: u64,
    /// Their bytes, in whole granules.
    pub region_bytes: u64,
    /// Bytes of its pages and slabs, which the allocator counts as regions.
    pub page_bytes: u64,
}

impl<'a, D: DeviceMemory, A: HostAllocator> Shard<'a, D, A> {
    /// The pages for a kind of requests. `None` if the shard has the pages of 8 other kinds.
    #[cold]
    pub(super) fn pages_for(
        &mut self,
        kind: RequestKind,
    ) -> Result<Option<&'a ShardPages>, GpuError> {
        let has = |place: &Option<(RequestKind, &'a ShardPages)>| {
            place.is_some_and(|(served, _)| served == kind)
        };
        let owned = self.pages.iter().position(has);
        if let Some(index) = owned.or_else(|| self.unpark(|parked| parked.kind == kind)) {
            self.last_used = index;
            return Ok(self
                .pages
                .get(index)
                .and_then(|place| place.map(|(_, shard_pages)| shard_pages)));
        }
        let mut places = self.pages.iter().zip(&self.parked);
        let Some(index) = places.position(|(owned, parked)| owned.is_none() && parked.is_none())
        else {
            return Ok(None);
        };
        let granule = self.allocator.limits.non_coherent_atom_size.max(GRANULE);
        let shard_pages =
            self.allocator
                .shards
                .pages_for(self.allocator.device_and_host(), kind, granule)?;
        if let (Some(shard_pages), Some(place)) = (shard_pages, self.pages.get_mut(index)) {
            *place = Some((kind, shard_pages));
            self.last_used = index;
        }
        Ok(shard_pages)
    }

    /// Parks pages without live regions.
    #[cold]
    #[inline(never)]
    pub(super) fn park(&mut self, shard_pages: &ShardPages) {
        for (owned, parked) in self.pages.iter_mut().zip(&mut self.parked) {
            if let Some((kind, found)) = *owned
                && found.number == shard_pages.number
            {
                // SAFETY: the pages are this shard's, and there is no reference to the owner's state, which is not used any more.
                *parked = unsafe { found.park_empty() }.map(|term| Parked {
                    kind,
                    shard_pages: found,
                    term,
                });
                if parked.is_some() {
                    *owned = None;
                }
            }
        }
    }

    /// Takes parked pages back. Returns their index, or `None` if there are none, or another shard has them.
    #[cold]
    fn unpark(&mut self, is_it: impl Fn(&Parked<'a>) -> bool) -> Option<usize> {
        let found = |place: &Option<Parked<'a>>| place.as_ref().is_some_and(&is_it);
        let index = self.parked.iter().position(found)?;
        let parked = self.parked.get_mut(index)?.take()?;
        if !parked.shard_pages.unpark(parked.term) {
            return None;
        }
        *self.pages.get_mut(index)? = Some((parked.kind, parked.shard_pages));
        Some(index)
    }

    /// The pages of this number, if they are this shard's.
    #[inline]
    pub(super) fn pages_of(&mut self, number: u16) -> Option<&'a ShardPages> {
        let has = |place: &Option<(RequestKind, &'a ShardPages)>| {
            place
                .map(|(_, shard_pages)| shard_pages)
                .filter(|shard_pages| shard_pages.number == number)
        };
        let owned = self.pages.get(self.last_used).and_then(has);
        if let Some(shard_pages) = owned.or_else(|| self.pages.iter().find_map(has)) {
            return Some(shard_pages);
        }
        let index = self.unpark(|parked| parked.shard_pages.number == number)?;
        self.pages.get(index).and_then(has)
    }

    /// Collects frees by other threads, and frees every empty page and slab: for the end of a frame or a phase, and
    /// before the thread waits for long. Until the shard's next call pages that become empty are freed at once, and a free locks.
    pub fn trim(&mut self) {
        let (env, pools) = (self.allocator.device_and_host(), &self.allocator.pools);
        for (owned, parked) in self.pages.iter_mut().zip(&mut self.parked) {
            if let Some((kind, shard_pages)) = owned.take() {
                let term = shard_pages.park();
                *parked = Some(Parked {
                    kind,
                    shard_pages,
                    term,
                });
            }
            if let Some(parked) = parked {
                parked.shard_pages.free_idle(env, pools);
            }
        }
    }

    /// Its use. Collects frees by other threads first, so that the numbers are exact when these pause.
    pub fn usage(&mut self) -> ShardUsage {
        let mut usage = ShardUsage::default();
        for (_, shard_pages) in self.pages.iter().flatten() {
            // SAFETY: as in `allocate`.
            let own = unsafe { shard_pages.owner_state() };
            shard_pages.collect(own);
            usage.add(own.totals());
        }
        for parked in self.parked.iter().flatten() {
            if let Some(totals) = parked.shard_pages.parked_totals(parked.term) {
                usage.add(totals);
            }
        }
        usage
    }
}

impl ShardUsage {
    fn add(&mut self, shard_pages: [ClassTotals; 2]) {
        for totals in shard_pages {
            self.regions += u64::from(totals.live);
            self.region_bytes += totals.used_bytes;
            self.page_bytes += totals.reserved_bytes;
        }
    }
}

impl<D: DeviceMemory, A: HostAllocator> Drop for Shard<'_, D, A> {
    fn drop(&mut self) {
        for (_, shard_pages) in self.pages.iter().flatten() {
            shard_pages.abandon(self.allocator.device_and_host(), &self.allocator.pools);
        }
        for parked in self.parked.iter().flatten() {
            let (env, pools) = (self.allocator.device_and_host(), &self.allocator.pools);
            parked.shard_pages.abandon_parked(parked.term, env, pools);
        }
    }
}
