//! Shards: one thread's share of an allocator.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use alloc_core::{HostAllocator, Rejected};

use super::shard_parking::Parked;
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

/// The kinds of requests that a shard serves without the allocator.
const MAX_KINDS: usize = 8;
/// Offsets of a shard are multiples of this, or of the device's `nonCoherentAtomSize` if that is larger.
pub(super) const GRANULE: u64 = 256;

/// One thread's share of an allocator: small regions without a lock, and without an atomic instruction that contends with other threads.
///
/// It serves bare regions whose [`Lifetime`] is `Transient` (pages) or `Persistent` and small (slabs), and passes every other request to
/// the allocator. Its regions are regions of the allocator: any thread may free, map and crop them. A free by another thread sets a
/// bit that was reserved at the allocation; the shard collects these bits when it runs out of room.
///
/// A shard without live regions keeps its empty pages. The allocator frees them if memory is short, and by
/// [`GpuAllocator::trim`]. A shard sees frees by other threads at its next call only, so call its [`trim`](Shard::trim) before
/// its thread waits for long: from then on every page and slab is freed with its last region.
///
/// A shard is `Send`, not `Sync`: it may move to another thread, and one thread uses it at a time. Dropping it frees its empty pages; its
/// regions stay valid and are freed through the allocator, and another shard uses the remaining room.
///
/// A shard has a page of 1 MiB for each kind of request (memory types, preference, kind of resource), for up to 8 kinds.
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
    /// Parked pages, at indices that are `None` in `pages`.
    pub(super) parked: [Option<Parked<'a>>; MAX_KINDS],
    /// The index of the last used entry of `pages`.
    pub(super) last_used: usize,
    not_sync: PhantomData<Cell<()>>,
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Creates a shard for one thread. It allocates nothing until it is used.
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

/// Whether shards serve a request: by a slab if true, by a page if false.
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

/// Allocates a slot of a slab or page.
#[inline(always)]
fn allocate_slot(
    shard_pages: &ShardPages,
    own: &mut OwnerState,
    slab: bool,
    needs: &ResourceRequirements,
) -> Result<SlotAllocation, ClassShortage> {
    if slab {
        own.slabs.allocate(
            &shard_pages.slab_groups,
            needs.size,
            needs.alignment,
            NO_RECORD,
        )
    } else {
        own.pages.allocate(
            &shard_pages.page_groups,
            needs.size,
            needs.alignment,
            NO_RECORD,
        )
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
    /// Its allocator.
    #[must_use]
    pub fn allocator(&self) -> &'a GpuAllocator<D, A> {
        self.allocator
    }

    /// Allocates a region, as [`GpuAllocator::allocate`].
    ///
    /// # Errors
    /// As there.
    // Not inlined, its result would be written in small parts and read in large ones, which takes as long as all the rest.
    #[inline(always)]
    pub fn allocate(
        &mut self,
        requirements: &ResourceRequirements,
        options: &RegionOptions<'_>,
    ) -> Result<Region, GpuError> {
        let served = is_slab_request(requirements, options);
        // Only regions of pools have margins.
        let Some(slab) = served.filter(|_| self.allocator.pools.margin() == 0) else {
            return self.allocator.allocate(requirements, options);
        };
        let kind = RequestKind {
            memory_type_bits: requirements.memory_type_bits,
            preference: options.preference,
            kind: options.kind,
            within_budget: options.within_budget,
        };
        let shard_pages = match self.pages.get(self.last_used) {
            Some(Some((asked, shard_pages))) if *asked == kind => *shard_pages,
            _ => match self.pages_for(kind)? {
                Some(shard_pages) => shard_pages,
                None => return self.allocator.allocate(requirements, options),
            },
        };
        // SAFETY: the pages are this shard's, and there is no other reference to the owner's state, for this is `&mut self`.
        let own = unsafe { shard_pages.owner_state() };
        match allocate_slot(shard_pages, own, slab, requirements) {
            Ok(slot) => self.region(shard_pages, own, slab, slot),
            Err(shortage) => {
                let served =
                    self.allocate_slowly(shard_pages, own, slab, requirements, options, shortage);
                // SAFETY: as above.
                if unsafe { shard_pages.owner_state() }.is_empty() {
                    self.park(shard_pages);
                }
                served
            }
        }
    }

    /// The region of a slot.
    #[inline(always)]
    fn region(
        &self,
        shard_pages: &ShardPages,
        own: &OwnerState,
        slab: bool,
        slot: SlotAllocation,
    ) -> Result<Region, GpuError> {
        let backing = if slab {
            own.slabs.range_ref(&shard_pages.slab_groups, slot.group)
        } else {
            own.pages.range_ref(&shard_pages.page_groups, slot.group)
        };
        let backing = backing.ok_or(GpuMisuse::Stale)?;
        let at = shard_pages.region_slot(
            Shards::place_of(slot.group, slab),
            slot.slot,
            slot.generation,
        );
        let id = RegionId::new(self.allocator.tag, at);
        Ok(region_in(backing, id, slot.offset, slot.size))
    }

    /// Collects frees by other threads, and adds the missing capacity.
    #[cold]
    #[inline(never)]
    fn allocate_slowly(
        &mut self,
        shard_pages: &ShardPages,
        own: &mut OwnerState,
        slab: bool,
        needs: &ResourceRequirements,
        options: &RegionOptions<'_>,
        shortage: ClassShortage,
    ) -> Result<Region, GpuError> {
        let env = self.allocator.device_and_host();
        let mut shortage = shortage;
        if shortage != ClassShortage::Unsupported && !shard_pages.remote_frees.is_empty() {
            shard_pages.collect(own);
            shard_pages.trim(own, env, &self.allocator.pools);
            match allocate_slot(shard_pages, own, slab, needs) {
                Ok(slot) => return self.region(shard_pages, own, slab, slot),
                Err(still) => shortage = still,
            }
        }
        loop {
            match shortage {
                ClassShortage::Unsupported => return self.allocator.allocate(needs, options),
                ClassShortage::Memory(need) => shard_pages.grow_with(own, slab, need, env)?,
                ClassShortage::Range(need) => {
                    if !self.add_range(shard_pages, own, slab, need)? {
                        return self.allocator.allocate(needs, options);
                    }
                }
            }
            match allocate_slot(shard_pages, own, slab, needs) {
                Ok(slot) => return self.region(shard_pages, own, slab, slot),
                Err(still) => shortage = still,
            }
        }
    }

    /// Adds a page or slab. False if the pools have none, or if it cannot be mapped: the allocator may still have room for a single region.
    fn add_range(
        &self,
        shard_pages: &ShardPages,
        own: &mut OwnerState,
        slab: bool,
        need: RangeShortage,
    ) -> Result<bool, GpuError> {
        let (env, pools) = (self.allocator.device_and_host(), &self.allocator.pools);
        let RequestKind {
            memory_type_bits,
            preference,
            kind,
            within_budget,
        } = own.kind;
        let granule = self.allocator.limits.non_coherent_atom_size.max(GRANULE);
        let request = AllocationRequest {
            memory_type_bits,
            preference,
            kind,
            within_budget,
            dedicated: DedicatedPolicy::Never,
            user_data: NEW_SHARD_PAGE,
            ..AllocationRequest::new(need.size, need.alignment.max(granule))
        };
        let placed = match pools.place(env, &request) {
            Ok(placed) => placed,
            Err(error @ GpuError::Host(_)) => return Err(error),
            Err(_) => return Ok(false),
        };
        let mut unused = UnusedRange {
            env,
            pools,
            backing: BackingRegion {
                at: placed.at,
                memory: placed.memory,
                memory_type: placed.memory_type as u8,
                mapped: None,
                base: placed.offset,
            },
        };
        if placed.properties.contains(PropertyFlags::HOST_VISIBLE) {
            match pools.map_shard_page(env, placed.at) {
                Ok(first) => unused.backing.mapped = Some(first),
                Err(_) => return Ok(false),
            }
        }
        loop {
            let backing = unused.backing;
            let added = if slab {
                own.slabs
                    .add(&shard_pages.slab_groups, backing, backing.base, need)
            } else {
                own.pages
                    .add(&shard_pages.page_groups, backing, backing.base, need)
            };
            match added {
                Ok(number) => {
                    core::mem::forget(unused);
                    let group = if slab {
                        own.slabs.first_group(number)
                    } else {
                        own.pages.first_group(number)
                    };
                    let user_data =
                        Shards::word_of(shard_pages.number, Shards::place_of(group, slab));
                    let named = pools.name_shard_page(backing.at, user_data);
                    debug_assert!(named.is_ok(), "placed for this: {named:?}");
                    return Ok(true);
                }
                Err(ClassShortage::Memory(need)) => shard_pages.grow_with(own, slab, need, env)?,
                Err(ClassShortage::Range(_) | ClassShortage::Unsupported) => return Ok(false),
            }
        }
    }

    /// Frees a region, as [`GpuAllocator::free`]; one of this shard without a lock.
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

    /// Frees a region of this shard. `None` if the allocator must free it.
    #[inline]
    fn free_own(&mut self, region: &Region) -> Option<Result<(), GpuMisuse>> {
        let (id, at) = (region.id, region.id.at());
        if at.kind() != RegionPlaceKind::Shard
            || id.tag() != self.allocator.tag
            || self.allocator.records.may_know(at)
        {
            return None;
        }
        let shard_pages = self.pages_of(at.place.pool())?;
        // SAFETY: as in `allocate`.
        let own = unsafe { shard_pages.owner_state() };
        let (group, slot, generation) = (at.place.block(), at.slot, at.generation);
        let freed = if group >= SLAB_GROUP {
            own.slabs.free(
                &shard_pages.slab_groups,
                group - SLAB_GROUP,
                slot,
                generation,
                NO_RECORD,
            )
        } else {
            own.pages
                .free(&shard_pages.page_groups, group, slot, generation, NO_RECORD)
        };
        let freed = freed.map_err(|_| GpuMisuse::Stale);
        if freed.is_ok_and(|slot| slot.is_emptied) {
            shard_pages.trim(own, self.allocator.device_and_host(), &self.allocator.pools);
        }
        if own.is_empty() {
            self.park(shard_pages);
        }
        Some(freed.map(|_| ()))
    }

    /// Frees each region of `regions`, as [`GpuAllocator::free_batch`].
    ///
    /// # Errors
    /// The index of the first region that was refused, and why; the others are freed.
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

/// A range of the pools that is not a page or slab yet. Dropping it, also by a panic of the host allocator, frees it.
struct UnusedRange<'a> {
    env: DeviceAndHost<'a>,
    pools: &'a Pools,
    backing: BackingRegion,
}

impl Drop for UnusedRange<'_> {
    fn drop(&mut self) {
        free_region(self.env, self.pools, &self.backing);
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
