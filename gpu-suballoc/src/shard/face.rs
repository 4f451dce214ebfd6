//! What a thread has of a shard.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use alloc_core::HostAllocator;

use super::lane::{Home, Kind, Lane, Own, SLAB, give_home};
use super::shards::Shards;
use crate::allocator::{BatchRefused, Content, GpuAllocator, Region};
use crate::classes::{Lack, Placing, RangeNeed, Taken};
use crate::device::{DeviceMemory, ExternalHandleTypes, ResourceRequirements};
use crate::error::{GpuError, Misuse, Refused};
use crate::id::{Place, PlaceKind, RegionId};
use crate::pool::Ask;
use crate::property_flags::PropertyFlags;
use crate::records::{Key, NIL};
use crate::request::{DedicatedPolicy, Lifetime, RegionOptions, ResourceKind};

/// Kinds of requests that one shard serves itself.
const LANES: usize = 8;
/// Every offset of a shard is a multiple of this, or of the device's `nonCoherentAtomSize` where that is more.
const GRANULE: u64 = 256;

/// One thread's own share of an allocator: small regions without a lock, and without an atomic instruction that other threads would feel.
///
/// It serves bare regions whose [`Lifetime`] is `Transient` (pages) or `Persistent` and small (slabs), and hands every other request on
/// to the allocator, so that it can be asked for anything that the allocator can be asked for. Its regions are the allocator's: any
/// thread may free them, map them, cut crops from them. What is freed elsewhere comes back by a bit that was reserved for it when
/// it was taken, and is taken back when the shard next runs out of room.
///
/// Rules of threads: a shard is `Send`, not `Sync`: it may move to another thread, and is used by one at a time. Dropping it gives
/// what is empty back to the allocator; its regions stay valid and are freed through the allocator, and another shard goes on with
/// what room is left.
///
/// Each shard has a page of 1 MiB for each kind of request (memory types, wish, kind of resource) that it serves, of up to 8.
///
/// ```
/// # #[cfg(feature = "testing")] {
/// use alloc_core::FromGlobalAlloc;
/// use gpu_suballoc::{AllocatorOptions, GpuAllocator, Lifetime, MockDevice, Profile, RegionOptions, ResourceRequirements};
///
/// let mock = MockDevice::new(Profile::ALL[0], FromGlobalAlloc::SYSTEM);
/// // SAFETY: a mock has no buffers that could be described wrongly.
/// let allocator = unsafe { GpuAllocator::new(&mock, FromGlobalAlloc::SYSTEM, AllocatorOptions::default()) };
/// let allocator = allocator.map_err(|refused| refused.error).unwrap();
/// let needs = ResourceRequirements {
///     size: 1000, alignment: 16, memory_type_bits: u32::MAX, prefers_dedicated: false, requires_dedicated: false,
/// };
/// let options = RegionOptions::new().lifetime(Lifetime::Transient);
///
/// std::thread::scope(|threads| {
///     for _ in 0..2 {
///         threads.spawn(|| {
///             let mut shard = allocator.shard();
///             let region = shard.allocate(&needs, &options).unwrap();
///             shard.free(region).unwrap();
///         });
///     }
/// });
/// assert!(allocator.close().is_ok());
/// # }
/// ```
pub struct Shard<'a, D: DeviceMemory, A: HostAllocator> {
    allocator: &'a GpuAllocator<D, A>,
    lanes: [Option<(Kind, &'a Lane)>; LANES],
    /// The lane that was last asked.
    last: usize,
    not_sync: PhantomData<Cell<()>>,
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

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// A share of this allocator for one thread. It takes nothing until it is used.
    #[must_use]
    pub fn shard(&self) -> Shard<'_, D, A> {
        Shard { allocator: self, lanes: [None; LANES], last: 0, not_sync: PhantomData }
    }
}

/// Whether a request is one that shards serve: true for a slab, false for a page.
#[inline]
fn class_of(needs: &ResourceRequirements, options: &RegionOptions<'_>) -> Option<bool> {
    let slab = match options.lifetime {
        Lifetime::Transient => false,
        Lifetime::Persistent => true,
        Lifetime::Unknown => return None,
    };
    let shared = !needs.requires_dedicated
        && !needs.prefers_dedicated
        && !matches!(options.dedicated, DedicatedPolicy::Preferred | DedicatedPolicy::Required)
        && options.kind != ResourceKind::Unknown;
    let nameless = options.name.is_none() && options.tag == 0 && options.site == 0;
    let plain = options.pool.is_none()
        && options.priority.is_none()
        && options.next.is_none()
        && options.export == ExternalHandleTypes::NONE;
    (shared && nameless && plain).then_some(slab)
}

/// Places a region into one of the lane's classes.
#[inline(always)]
fn take(lane: &Lane, own: &mut Own, slab: bool, needs: &ResourceRequirements) -> Result<Taken, Lack> {
    if slab {
        own.slabs.take(&lane.slab_groups, needs.size, needs.alignment, NIL)
    } else {
        own.pages.take(&lane.page_groups, needs.size, needs.alignment, NIL)
    }
}

impl<'a, D: DeviceMemory, A: HostAllocator> Shard<'a, D, A> {
    /// The allocator that this is a share of.
    #[must_use]
    pub fn allocator(&self) -> &'a GpuAllocator<D, A> {
        self.allocator
    }

    /// Takes memory, as [`GpuAllocator::allocate`].
    ///
    /// # Errors
    /// As there.
    // Out of line its result would be written in small pieces and read in large ones, which costs as much as all the rest.
    #[inline(always)]
    pub fn allocate(&mut self, requirements: &ResourceRequirements, options: &RegionOptions<'_>) -> Result<Region, GpuError> {
        let Some(slab) = class_of(requirements, options) else {
            return self.allocator.allocate(requirements, options);
        };
        let kind = Kind {
            memory_type_bits: requirements.memory_type_bits,
            wish: options.wish,
            kind: options.kind,
            within_budget: options.within_budget,
        };
        let lane = match self.lanes.get(self.last) {
            Some(Some((asked, lane))) if *asked == kind => *lane,
            _ => match self.lane_for(kind)? {
                Some(lane) => lane,
                None => return self.allocator.allocate(requirements, options),
            },
        };
        // SAFETY: the lane is this shard's, and nobody has a reference to what is its owner's, for this is `&mut self`.
        let own = unsafe { lane.own() };
        match take(lane, own, slab, requirements) {
            Ok(taken) => self.region(lane, own, slab, taken),
            Err(lack) => self.allocate_anyhow(lane, own, slab, requirements, options, lack),
        }
    }

    /// What the user gets for what was taken.
    #[inline(always)]
    fn region(&self, lane: &Lane, own: &Own, slab: bool, taken: Taken) -> Result<Region, GpuError> {
        let home =
            if slab { own.slabs.home(&lane.slab_groups, taken.group) } else { own.pages.home(&lane.page_groups, taken.group) };
        let home = home.ok_or(Misuse::Stale)?;
        let place = Place { kind: PlaceKind::Shard, pool: lane.number, block: Shards::place_of(taken.group, slab) };
        let within = (taken.offset - home.base) as usize;
        Ok(Region {
            id: RegionId::new(self.allocator.tag, place, taken.slot, taken.generation),
            memory: Some(home.memory),
            offset: taken.offset,
            size: taken.size,
            resource: 0,
            buffer_offset: 0,
            mapped: home.mapped.and_then(|first| NonNull::new(first.as_ptr().wrapping_add(within))),
            record: NIL,
            memory_type: home.memory_type,
            content: Content::Bare,
        })
    }

    /// A lane of this shard for such requests. `None` where it has others already, as many as it can have.
    #[cold]
    fn lane_for(&mut self, kind: Kind) -> Result<Option<&'a Lane>, GpuError> {
        let same = |place: &Option<(Kind, &Lane)>| place.is_none_or(|(asked, _)| asked == kind);
        let Some(index) = self.lanes.iter().position(same) else {
            return Ok(None);
        };
        let Some(place) = self.lanes.get_mut(index) else {
            return Ok(None);
        };
        if let Some((_, lane)) = place {
            self.last = index;
            return Ok(Some(lane));
        }
        let granule = self.allocator.limits.non_coherent_atom_size.max(GRANULE);
        let lane = self.allocator.shards.lane_for(self.allocator.env(), kind, granule)?;
        if let Some(lane) = lane {
            *place = Some((kind, lane));
            self.last = index;
        }
        Ok(lane)
    }

    /// Takes back what others freed, and gets what is still lacking.
    #[cold]
    #[inline(never)]
    fn allocate_anyhow(
        &mut self,
        lane: &Lane,
        own: &mut Own,
        slab: bool,
        needs: &ResourceRequirements,
        options: &RegionOptions<'_>,
        lack: Lack,
    ) -> Result<Region, GpuError> {
        let env = self.allocator.env();
        let mut lack = lack;
        if lack != Lack::Unfit && !lane.mailbox.is_empty() {
            lane.collect(own);
            lane.tidy(own, env, &self.allocator.pools);
            match take(lane, own, slab, needs) {
                Ok(taken) => return self.region(lane, own, slab, taken),
                Err(still) => lack = still,
            }
        }
        loop {
            match lack {
                Lack::Unfit => return self.allocator.allocate(needs, options),
                Lack::Memory(need) => lane.supply(own, slab, need, env)?,
                Lack::Range(need) => {
                    if !self.add(lane, own, slab, need)? {
                        return self.allocator.allocate(needs, options);
                    }
                }
            }
            match take(lane, own, slab, needs) {
                Ok(taken) => return self.region(lane, own, slab, taken),
                Err(still) => lack = still,
            }
        }
    }

    /// Gets the lane another page or slab. False where the pools have none, or it cannot be mapped: a region of its own may still be had.
    fn add(&self, lane: &Lane, own: &mut Own, slab: bool, need: RangeNeed) -> Result<bool, GpuError> {
        let (env, pools) = (self.allocator.env(), &self.allocator.pools);
        let Kind { memory_type_bits, wish, kind, within_budget } = own.kind;
        let granule = self.allocator.limits.non_coherent_atom_size.max(GRANULE);
        let ask = Ask {
            memory_type_bits,
            wish,
            kind,
            within_budget,
            dedicated: DedicatedPolicy::Never,
            ..Ask::new(need.size, need.alignment.max(granule))
        };
        let placed = match pools.place(env, &ask) {
            Ok(placed) => placed,
            Err(error @ GpuError::Host(_)) => return Err(error),
            Err(_) => return Ok(false),
        };
        let mut home = Home {
            at: placed.at,
            memory: placed.memory,
            memory_type: placed.memory_type as u8,
            mapped: None,
            base: placed.offset,
        };
        if placed.properties.contains(PropertyFlags::HOST_VISIBLE) {
            match pools.map(env, placed.at) {
                Ok(first) => home.mapped = Some(first),
                Err(_) => {
                    give_home(env, pools, &home);
                    return Ok(false);
                }
            }
        }
        loop {
            let added = if slab {
                own.slabs.add(&lane.slab_groups, home, home.base, need)
            } else {
                own.pages.add(&lane.page_groups, home, home.base, need)
            };
            let refused = match added {
                Ok(_) => return Ok(true),
                Err(Lack::Memory(need)) => lane.supply(own, slab, need, env),
                Err(Lack::Range(_) | Lack::Unfit) => {
                    give_home(env, pools, &home);
                    return Ok(false);
                }
            };
            if let Err(error) = refused {
                give_home(env, pools, &home);
                return Err(error);
            }
        }
    }

    /// Gives a region back, as [`GpuAllocator::free`]: the shard's own without a lock, any other of the allocator's as well.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn free(&mut self, region: Region) -> Result<(), Refused<Region>> {
        match self.end(&region) {
            Some(Ok(())) => Ok(()),
            Some(Err(rule)) => Err(Refused::new(region, rule)),
            None => self.allocator.free(region),
        }
    }

    /// Ends a region of this shard. `None` where the allocator has to.
    #[inline]
    fn end(&mut self, region: &Region) -> Option<Result<(), Misuse>> {
        let (id, place) = (region.id, region.id.place());
        if place.kind != PlaceKind::Shard || id.tag() != self.allocator.tag || self.allocator.records.may_know(Key::of(id)) {
            return None;
        }
        let has = |entry: &Option<(Kind, &'a Lane)>| entry.map(|(_, lane)| lane).filter(|lane| lane.number == place.pool);
        let lane = self.lanes.get(self.last).and_then(has).or_else(|| self.lanes.iter().find_map(has))?;
        // SAFETY: as in `allocate`.
        let own = unsafe { lane.own() };
        let (group, slot, generation) = (place.block, id.slot(), id.generation());
        let given = if group >= SLAB {
            own.slabs.give(&lane.slab_groups, group - SLAB, slot, generation, NIL)
        } else {
            own.pages.give(&lane.page_groups, group, slot, generation, NIL)
        };
        Some(match given {
            Ok(given) => {
                if given.emptied {
                    lane.tidy(own, self.allocator.env(), &self.allocator.pools);
                }
                Ok(())
            }
            Err(_) => Err(Misuse::Stale),
        })
    }

    /// Gives regions back, each place of `regions` that has one, as [`GpuAllocator::free_batch`].
    ///
    /// # Errors
    /// The place of the first region that was refused, and why; the others are given back all the same.
    pub fn free_batch(&mut self, regions: &mut [Option<Region>]) -> Result<(), BatchRefused> {
        let mut first = None;
        for (index, place) in regions.iter_mut().enumerate() {
            if let Some(Err(refused)) = place.take().map(|region| self.free(region)) {
                first.get_or_insert(BatchRefused { index, error: refused.error });
                *place = Some(refused.value);
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Takes back what other threads freed, and gives back every page and slab that is empty: for the end of a frame, or of a phase.
    pub fn trim(&mut self) {
        let (env, pools) = (self.allocator.env(), &self.allocator.pools);
        for (_, lane) in self.lanes.iter().flatten() {
            // SAFETY: as in `allocate`.
            let own = unsafe { lane.own() };
            lane.collect(own);
            lane.clear(own, env, pools);
        }
    }

    /// What is in it. Takes back what other threads freed first, so that it is exact when they pause.
    pub fn usage(&mut self) -> ShardUsage {
        let mut usage = ShardUsage::default();
        for (_, lane) in self.lanes.iter().flatten() {
            // SAFETY: as in `allocate`.
            let own = unsafe { lane.own() };
            lane.collect(own);
            for totals in [own.pages.totals(), own.slabs.totals()] {
                usage.regions += u64::from(totals.live);
                usage.region_bytes += totals.used;
                usage.page_bytes += totals.reserved;
            }
        }
        usage
    }
}

impl<D: DeviceMemory, A: HostAllocator> Drop for Shard<'_, D, A> {
    fn drop(&mut self) {
        for (_, lane) in self.lanes.iter().flatten() {
            lane.leave(self.allocator.env(), &self.allocator.pools);
        }
    }
}

impl<D: DeviceMemory, A: HostAllocator> fmt::Debug for Shard<'_, D, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard").field("lanes", &self.lanes.iter().flatten().count()).finish_non_exhaustive()
    }
}
