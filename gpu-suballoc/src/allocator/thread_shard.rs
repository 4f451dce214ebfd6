//! What a thread has of a shard.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use alloc_core::{HostAllocator, Rejected};

use super::shard_lanes::Parked;
use super::{BatchError, GpuAllocator};
use crate::classes::{ClassShortage, RangeShortage, SlotAllocation, SubAllocator};
use crate::device::{DeviceMemory, ExternalHandleTypes, ResourceRequirements};
use crate::error::{GpuError, GpuMisuse};
use crate::id::{NO_RECORD, RegionId, RegionPlaceKind};
use crate::pool::{AllocationRequest, DeviceAndHost, NEW_SHARD_PAGE, Pools};
use crate::property_flags::PropertyFlags;
use crate::region::{Region, RegionContent};
use crate::request::{DedicatedPolicy, Lifetime, RegionOptions, ResourceKind};
use crate::shard::{
    BackingRegion, OwnerState, RequestKind, SLAB_GROUP, ShardPages, Shards, free_region,
};

/// Kinds of requests that one shard serves itself.
const MAX_KINDS: usize = 8;
/// Every offset of a shard is a multiple of this, or of the device's `nonCoherentAtomSize` where that is more.
pub(super) const GRANULE: u64 = 256;

/// One thread's own share of an allocator: small regions without a lock, and without an atomic instruction that other threads would feel.
///
/// It serves bare regions whose [`Lifetime`] is `Transient` (pages) or `Persistent` and small (slabs), and hands every other request on
/// to the allocator, so that it can be asked for anything that the allocator can be asked for. Its regions are the allocator's: any
/// thread may free them, map them, cut crops from them. What is freed elsewhere comes back by a bit that was reserved for it when
/// it was taken, and is taken back when the shard next runs out of room.
///
/// A shard that nothing lives in keeps its empty pages as long as nobody wants them: the allocator takes them where memory is short and when
/// it is [trimmed](GpuAllocator::trim). What other threads freed it does not see before its next call, so [`trim`](Shard::trim) it before
/// its thread waits for long: from then on every page and slab goes back at once when its last region is freed, whoever frees it.
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
/// use gpu_suballoc::{AllocatorOptions, GpuAllocator, Lifetime, RegionOptions, ResourceRequirements};
/// use gpu_suballoc::mock::{MockDevice, MockProfile};
///
/// let mock = MockDevice::new(MockProfile::ALL[0], FromGlobalAlloc::SYSTEM);
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
    pub(super) allocator: &'a GpuAllocator<D, A>,
    pub(super) pages: [Option<(RequestKind, &'a ShardPages)>; MAX_KINDS],
    /// Those that it does not work in at the moment, in places that `pages` has empty.
    pub(super) parked: [Option<Parked<'a>>; MAX_KINDS],
    /// The lane that was last asked.
    pub(super) last_used: usize,
    not_sync: PhantomData<Cell<()>>,
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// A share of this allocator for one thread. It takes nothing until it is used.
    #[must_use]
    pub fn shard(&self) -> Shard<'_, D, A> {
        Shard {
            allocator: self,
            pages: [None; MAX_KINDS],
            parked: [None; MAX_KINDS],
            last_used: 0,
            not_sync: PhantomData,
        }
    }
}

/// Whether a request is one that shards serve: true for a slab, false for a page.
#[inline]
fn is_slab_request(needs: &ResourceRequirements, options: &RegionOptions<'_>) -> Option<bool> {
    let slab = match options.lifetime {
        Lifetime::Transient => false,
        Lifetime::Persistent => true,
        Lifetime::Unknown => return None,
    };
    let shared = !needs.requires_dedicated
        && !needs.prefers_dedicated
        && !matches!(
            options.dedicated,
            DedicatedPolicy::Preferred | DedicatedPolicy::Required
        )
        && options.kind != ResourceKind::Unknown;
    let plain = options.pool.is_none()
        && !options.device_address
        && !options.upper_address
        && !options.pinned
        && options.priority.is_none()
        && options.next.is_none()
        && options.export == ExternalHandleTypes::NONE;
    (shared && !options.needs_record() && plain).then_some(slab)
}

/// Places a region into one of the lane's classes.
#[inline(always)]
fn allocate_slot(
    lane: &ShardPages,
    own: &mut OwnerState,
    slab: bool,
    needs: &ResourceRequirements,
) -> Result<SlotAllocation, ClassShortage> {
    if slab {
        own.slabs
            .allocate(&lane.slab_groups, needs.size, needs.alignment, NO_RECORD)
    } else {
        own.pages
            .allocate(&lane.page_groups, needs.size, needs.alignment, NO_RECORD)
    }
}

/// The region at `offset` of the memory object that a page or slab lies in.
#[inline(always)]
pub(super) fn region_in(backing: &BackingRegion, id: RegionId, offset: u64, size: u64) -> Region {
    let within = (offset - backing.base) as usize;
    Region {
        id,
        memory: Some(backing.memory),
        offset,
        size,
        resource: 0,
        buffer_offset: 0,
        mapped: backing
            .mapped
            .and_then(|first| NonNull::new(first.as_ptr().wrapping_add(within))),
        record: NO_RECORD,
        memory_type: backing.memory_type,
        content: RegionContent::Bare,
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
    pub fn allocate(
        &mut self,
        requirements: &ResourceRequirements,
        options: &RegionOptions<'_>,
    ) -> Result<Region, GpuError> {
        let served = is_slab_request(requirements, options);
        // Margins lie behind regions of pools.
        let Some(slab) = served.filter(|_| self.allocator.pools.margin() == 0) else {
            return self.allocator.allocate(requirements, options);
        };
        let kind = RequestKind {
            memory_type_bits: requirements.memory_type_bits,
            preference: options.preference,
            kind: options.kind,
            within_budget: options.within_budget,
        };
        let lane = match self.pages.get(self.last_used) {
            Some(Some((asked, lane))) if *asked == kind => *lane,
            _ => match self.pages_for(kind)? {
                Some(lane) => lane,
                None => return self.allocator.allocate(requirements, options),
            },
        };
        // SAFETY: the lane is this shard's, and nobody has a reference to what is its owner's, for this is `&mut self`.
        let own = unsafe { lane.owner_state() };
        match allocate_slot(lane, own, slab, requirements) {
            Ok(taken) => self.region(lane, own, slab, taken),
            Err(lack) => {
                let served = self.allocate_slowly(lane, own, slab, requirements, options, lack);
                // SAFETY: as above.
                if unsafe { lane.owner_state() }.is_empty() {
                    self.park(lane);
                }
                served
            }
        }
    }

    /// What the user gets for what was taken.
    #[inline(always)]
    fn region(
        &self,
        lane: &ShardPages,
        own: &OwnerState,
        slab: bool,
        taken: SlotAllocation,
    ) -> Result<Region, GpuError> {
        let home = if slab {
            own.slabs.range_ref(&lane.slab_groups, taken.group)
        } else {
            own.pages.range_ref(&lane.page_groups, taken.group)
        };
        let home = home.ok_or(GpuMisuse::Stale)?;
        let at = lane.region_slot(
            Shards::place_of(taken.group, slab),
            taken.slot,
            taken.generation,
        );
        let id = RegionId::new(self.allocator.tag, at);
        Ok(region_in(home, id, taken.offset, taken.size))
    }

    /// Takes back what others freed, and gets what is still lacking.
    #[cold]
    #[inline(never)]
    fn allocate_slowly(
        &mut self,
        lane: &ShardPages,
        own: &mut OwnerState,
        slab: bool,
        needs: &ResourceRequirements,
        options: &RegionOptions<'_>,
        lack: ClassShortage,
    ) -> Result<Region, GpuError> {
        let env = self.allocator.device_and_host();
        let mut lack = lack;
        if lack != ClassShortage::Unsupported && !lane.remote_frees.is_empty() {
            lane.collect(own);
            lane.trim(own, env, &self.allocator.pools);
            match allocate_slot(lane, own, slab, needs) {
                Ok(taken) => return self.region(lane, own, slab, taken),
                Err(still) => lack = still,
            }
        }
        loop {
            match lack {
                ClassShortage::Unsupported => return self.allocator.allocate(needs, options),
                ClassShortage::Memory(need) => lane.grow_with(own, slab, need, env)?,
                ClassShortage::Range(need) => {
                    if !self.add_range(lane, own, slab, need)? {
                        return self.allocator.allocate(needs, options);
                    }
                }
            }
            match allocate_slot(lane, own, slab, needs) {
                Ok(taken) => return self.region(lane, own, slab, taken),
                Err(still) => lack = still,
            }
        }
    }

    /// Gets the lane another page or slab. False where the pools have none, or it cannot be mapped: a region of its own may still be had.
    fn add_range(
        &self,
        lane: &ShardPages,
        own: &mut OwnerState,
        slab: bool,
        need: RangeShortage,
    ) -> Result<bool, GpuError> {
        let (env, pools) = (self.allocator.device_and_host(), &self.allocator.pools);
        let RequestKind {
            memory_type_bits,
            preference: wish,
            kind,
            within_budget,
        } = own.kind;
        let granule = self.allocator.limits.non_coherent_atom_size.max(GRANULE);
        let ask = AllocationRequest {
            memory_type_bits,
            preference: wish,
            kind,
            within_budget,
            dedicated: DedicatedPolicy::Never,
            user_data: NEW_SHARD_PAGE,
            ..AllocationRequest::new(need.size, need.alignment.max(granule))
        };
        let placed = match pools.place(env, &ask) {
            Ok(placed) => placed,
            Err(error @ GpuError::Host(_)) => return Err(error),
            Err(_) => return Ok(false),
        };
        let mut unused = UnusedRange {
            env,
            pools,
            home: BackingRegion {
                at: placed.at,
                memory: placed.memory,
                memory_type: placed.memory_type as u8,
                mapped: None,
                base: placed.offset,
            },
        };
        if placed.properties.contains(PropertyFlags::HOST_VISIBLE) {
            match pools.map_shard_page(env, placed.at) {
                Ok(first) => unused.home.mapped = Some(first),
                Err(_) => return Ok(false),
            }
        }
        loop {
            let home = unused.home;
            let added = if slab {
                own.slabs.add(&lane.slab_groups, home, home.base, need)
            } else {
                own.pages.add(&lane.page_groups, home, home.base, need)
            };
            match added {
                Ok(number) => {
                    core::mem::forget(unused);
                    let group = if slab {
                        own.slabs.first_group(number)
                    } else {
                        own.pages.first_group(number)
                    };
                    let word = Shards::word_of(lane.number, Shards::place_of(group, slab));
                    let named = pools.name_shard_page(home.at, word);
                    debug_assert!(named.is_ok(), "placed for this: {named:?}");
                    return Ok(true);
                }
                Err(ClassShortage::Memory(need)) => lane.grow_with(own, slab, need, env)?,
                Err(ClassShortage::Range(_) | ClassShortage::Unsupported) => return Ok(false),
            }
        }
    }

    /// Gives a region back, as [`GpuAllocator::free`]: the shard's own without a lock, any other of the allocator's as well.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn free(&mut self, region: Region) -> Result<(), Rejected<Region, GpuError>> {
        match self.free_own(&region) {
            Some(Ok(())) => Ok(()),
            Some(Err(rule)) => Err(Rejected::new(region, rule)),
            None => self.allocator.free(region),
        }
    }

    /// Ends a region of this shard. `None` where the allocator has to.
    #[inline]
    fn free_own(&mut self, region: &Region) -> Option<Result<(), GpuMisuse>> {
        let (id, at) = (region.id, region.id.at());
        if at.kind() != RegionPlaceKind::Shard
            || id.tag() != self.allocator.tag
            || self.allocator.records.may_know(at)
        {
            return None;
        }
        let lane = self.lane_of(at.place.pool())?;
        // SAFETY: as in `allocate`.
        let own = unsafe { lane.owner_state() };
        let (group, slot, generation) = (at.place.block(), at.slot, at.generation);
        let given = if group >= SLAB_GROUP {
            own.slabs.free(
                &lane.slab_groups,
                group - SLAB_GROUP,
                slot,
                generation,
                NO_RECORD,
            )
        } else {
            own.pages
                .free(&lane.page_groups, group, slot, generation, NO_RECORD)
        };
        let given = given.map_err(|_| GpuMisuse::Stale);
        if given.is_ok_and(|given| given.is_emptied) {
            lane.trim(own, self.allocator.device_and_host(), &self.allocator.pools);
        }
        if own.is_empty() {
            self.park(lane);
        }
        Some(given.map(|_| ()))
    }

    /// Gives regions back, each place of `regions` that has one, as [`GpuAllocator::free_batch`].
    ///
    /// # Errors
    /// The place of the first region that was refused, and why; the others are given back all the same.
    pub fn free_batch(&mut self, regions: &mut [Option<Region>]) -> Result<(), BatchError> {
        let mut first = None;
        for (index, place) in regions.iter_mut().enumerate() {
            if let Some(Err(refused)) = place.take().map(|region| self.free(region)) {
                first.get_or_insert(BatchError {
                    index,
                    error: refused.error,
                });
                *place = Some(refused.value);
            }
        }
        first.map_or(Ok(()), Err)
    }
}

/// A range of the pools that no page or slab lies in yet. Dropped, also by a panic of the host allocator, it goes back.
struct UnusedRange<'a> {
    env: DeviceAndHost<'a>,
    pools: &'a Pools,
    home: BackingRegion,
}

impl Drop for UnusedRange<'_> {
    fn drop(&mut self) {
        free_region(self.env, self.pools, &self.home);
    }
}

impl<D: DeviceMemory, A: HostAllocator> fmt::Debug for Shard<'_, D, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard")
            .field("lanes", &self.pages.iter().flatten().count())
            .field("parked", &self.parked.iter().flatten().count())
            .finish_non_exhaustive()
    }
}
