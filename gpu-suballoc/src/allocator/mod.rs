//! The allocator of a device: requests in, regions out.
//!
//! ```text
//!   allocate, create_buffer, create_image ---> pools (a place in a block) + records
//!   wrap, crop                            ---> records alone
//!   free, release, detach                 ---> record first: is the region in use? then resource, place, record
//! ```

mod allocate;
mod counting_allocator;
mod create;
mod crop;
mod defragmentation;
mod info;
mod map;
mod margin;
mod options;
mod outstanding;
mod reuse;
mod wrap;

pub use self::crop::{Descriptor, DescriptorUse};
#[cfg(feature = "cache")]
pub(crate) use self::outstanding::write_in_use;
pub use self::outstanding::{BatchError, OutstandingRegions};
pub use crate::region_metadata::Backing;
pub use defragmentation::{
    Defragmentation, DefragmentationOptions, DefragmentationPass, DefragmentationTotals, MoveOutcome, MovePlace,
    MoveResult, RegionMove, SkippedRegions,
};
pub use info::RegionInfo;
pub use map::Mapping;
pub use options::{AllocatorOptions, OptionField, OptionsParseError};
pub use wrap::{DetachedBuffer, WrapInfo};

use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use alloc_core::{HostAllocator, Rejected};

use self::counting_allocator::CountingAllocator;
use crate::device::{DeviceLimits, DeviceMemory, HeapBudget, ResourceRequirements};
use crate::error::{GpuError, GpuMisuse};
use crate::flags::debug_fields;
use crate::id::{PoolId, RangePlacement, RegionId, RegionKey, next_tag};
use crate::pool::{AllocationRequest, DevicePools, PoolOptions, Pools, Suballocation};
use crate::region::{Ownership, Region};
use crate::region_metadata::{RegionMetadata, RootView};
use crate::request::{DedicatedPolicy, RegionOptions};

/// An allocator of the memory of one device.
///
/// All bookkeeping memory comes from its host allocator, in [`Scope::Object`](alloc_core::Scope::Object).
///
/// Dropping it is [`free_all`](GpuAllocator::free_all).
#[doc(alias("VmaAllocator", "Allocator", "suballocator"))]
pub struct GpuAllocator<D: DeviceMemory, A: HostAllocator> {
    pub(crate) pools: Pools,
    pub(crate) records: RegionMetadata,
    pub(crate) tag: u32,
    pub(crate) limits: DeviceLimits,
    reuse: AtomicBool,
    /// Calls that have not written the margins of their regions yet.
    arming: AtomicU32,
    /// Calls that ask the device what it wrote to a margin, which discards what the host wrote there.
    asking: AtomicU32,
    max_reusable_buffers: u32,
    max_reusable_bytes: u64,
    device: ManuallyDrop<D>,
    memory: ManuallyDrop<CountingAllocator<A>>,
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// Creates an allocator for `device` with its bookkeeping in `memory`. Allocates no memory yet.
    ///
    /// # Errors
    /// Both values, with [`GpuMisuse::BadOptions`] or [`GpuMisuse::BlockTooSmall`] for an option out of its range.
    ///
    /// # Safety
    /// For all calls:
    /// - infos of buffers and images are valid for the device and its enabled features (`VkBufferCreateInfo`,
    ///   `VkImageCreateInfo`),
    /// - a resource that options [name](RegionOptions::dedicated_for) is of the device, live and not bound during the
    ///   call,
    /// - a wrapped buffer is live as long as it is wrapped, and its [`Backing`] is true,
    /// - no region is freed, and the allocator does not end (`close`, `free_all`, dropped, also while a thread
    ///   unwinds), while the device uses the region (VUID-vkFreeMemory-memory-00677, VUID-vkDestroyBuffer-buffer-00922,
    ///   VUID-vkDestroyImage-image-01000),
    /// - `device` outlives all live regions, and is used only as [`DeviceMemory`] allows.
    #[doc(alias("vmaCreateAllocator"))]
    pub unsafe fn new(device: D, memory: A, options: AllocatorOptions) -> Result<Self, Rejected<(D, A), GpuError>> {
        if options.max_reusable_buffers > AllocatorOptions::MAX_REUSABLE_BUFFERS {
            return Err(Rejected::new((device, memory), GpuMisuse::BadOptions));
        }
        let memory = CountingAllocator::new(memory);
        let pools = match Pools::new(&device, &options.memory) {
            Ok(pools) => pools,
            Err(error) => return Err(Rejected::new((device, memory.inner), error)),
        };
        let allocator = Self {
            pools,
            records: RegionMetadata::new(options.max_reusable_buffers),
            tag: next_tag(),
            limits: device.properties().limits,
            reuse: AtomicBool::new(options.reuse),
            arming: AtomicU32::new(0),
            asking: AtomicU32::new(0),
            max_reusable_buffers: options.max_reusable_buffers,
            max_reusable_bytes: options.max_reusable_bytes,
            device: ManuallyDrop::new(device),
            memory: ManuallyDrop::new(memory),
        };
        allocator.pools().update_budgets();
        Ok(allocator)
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Bytes of host memory of its bookkeeping.
    #[must_use]
    pub fn host_bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// Creates a custom pool.
    ///
    /// # Errors
    /// [`GpuMisuse::BadOptions`], as for blocks of lazily allocated memory; [`GpuMisuse::BlockTooSmall`],
    /// [`GpuMisuse::BadPriority`], [`GpuMisuse::NotEnabled`]; [`GpuError::MemoryType`] for a type whose feature is not
    /// enabled or whose heap has 0 bytes; [`GpuError::TooLarge`] for blocks larger than the heap or the pool;
    /// [`Limit::Pools`](crate::error::Limit::Pools) if 384 exist; refusals of device, host memory and limits.
    #[doc(alias("vmaCreatePool", "VmaPool"))]
    pub fn create_pool(&self, options: &PoolOptions) -> Result<PoolId, GpuError> {
        let (index, generation) = self.retry_after_evicting(|| self.pools().create_pool(options))?;
        Ok(PoolId { tag: self.tag, generation, index })
    }

    /// Destroys a pool and frees its blocks.
    ///
    /// # Errors
    /// [`GpuMisuse::PoolInUse`] while regions of it live; [`GpuMisuse::Defragmenting`]; [`GpuMisuse::NoSuchPool`].
    #[doc(alias("vmaDestroyPool"))]
    pub fn destroy_pool(&self, pool: PoolId) -> Result<(), GpuError> {
        self.check_pool(Some(pool))?;
        self.evict_reusable(0, 0);
        Ok(self.pools().destroy_pool(pool.index, pool.generation)?)
    }

    /// Frees empty blocks, then kept buffers, until at least `bytes` were freed or none is left. Returns the freed
    /// bytes of memory objects.
    pub fn trim(&self, bytes: u64) -> u64 {
        let mut given = self.pools().trim(bytes);
        for _ in 0..self.records.counts().reusable {
            let before = self.pools.bytes();
            if given >= bytes || !self.evict_one(0, 0) {
                break;
            }
            given = given.saturating_add(before.saturating_sub(self.pools.bytes()));
            if given < bytes {
                given = given.saturating_add(self.pools().trim(bytes - given));
            }
        }
        given
    }

    /// Allocates blocks until the pool of `options` has at least `bytes` free bytes: ahead of a frame that must not
    /// wait for the driver. This is the custom pool, or the pool of the first choice for these memory types and
    /// preference. Regions fill the new blocks when the others are full; [`trim`](GpuAllocator::trim) frees those that
    /// stay empty. Blocks that a defragmentation empties do not count; of a linear pool only what is free between its
    /// ends does.
    ///
    /// # Errors
    /// [`GpuMisuse::NoSuchPool`], [`GpuError::MemoryType`], [`GpuMisuse::BadOptions`] for lazily allocated memory;
    /// [`GpuError::TooLarge`] or [`Limit`](crate::error::Limit) if heap, limits or, with `within_budget`, budget have
    /// less than is missing: no block was created; the driver's refusal of a block: those before it stay.
    pub fn reserve(&self, bytes: u64, memory_type_bits: u32, options: &RegionOptions<'_>) -> Result<(), GpuError> {
        self.check_pool(options.pool)?;
        self.pools().reserve(bytes, memory_type_bits, options)
    }

    /// Begins a frame: for a new number the device is asked for its budgets (`VK_EXT_memory_budget`), and heaps above
    /// theirs lose their empty blocks. True if the device reported budgets.
    ///
    /// A program without frames need not call it.
    #[doc(alias("vmaSetCurrentFrameIndex"))]
    pub fn set_frame(&self, frame: u32) -> bool {
        self.pools().set_frame(frame)
    }

    /// The budget of a heap and the use of the whole process, as they were read last; without `VK_EXT_memory_budget`
    /// the heap's size, and this allocator's use.
    #[must_use]
    pub fn heap_budget(&self, heap: u32) -> Option<HeapBudget> {
        let heaps = self.device.properties().heaps.len();
        ((heap as usize) < heaps).then(|| self.pools.heap_budget(heap))
    }

    /// Frees all blocks and bookkeeping. Returns device and host allocator.
    ///
    /// # Errors
    /// The allocator, unchanged but for kept buffers and empty blocks, while regions, wrapped buffers or crops live.
    #[doc(alias("vmaDestroyAllocator"))]
    #[expect(clippy::result_large_err, reason = "a refusal returns the allocator")]
    pub fn close(self) -> Result<(D, A), Rejected<Self, OutstandingRegions>> {
        let outstanding = self.outstanding();
        if outstanding == OutstandingRegions::default() {
            Ok(self.free_all())
        } else {
            Err(Rejected::new(self, outstanding))
        }
    }

    /// Ends the allocator, whatever lives: destroys the buffers and images that it created, then frees all memory
    /// objects and all bookkeeping. Wrapped buffers are not destroyed; their memory is unmapped if the allocator mapped
    /// it.
    ///
    /// A resource that a caller created and bound to a region must be destroyed, and not used any more.
    #[doc(alias("vmaDestroyAllocator"))]
    pub fn free_all(self) -> (D, A) {
        let mut allocator = self;
        allocator.free_everything(true);
        allocator.into_parts()
    }

    /// Frees the host memory without a call of the device, which is destroyed or must not be called. Device memory
    /// stays allocated until the device is destroyed.
    pub fn abandon(self) -> (D, A) {
        let mut allocator = self;
        allocator.free_everything(false);
        allocator.into_parts()
    }

    fn free_everything(&mut self, driver: bool) {
        let mut slot = 0;
        while driver && let Some(resource) = self.records.detach_resource(&mut slot) {
            self.destroy_resource(Some(resource));
        }
        let device: Option<&dyn DeviceMemory> = if driver { Some(&*self.device) } else { None };
        self.pools.free_all(device, &*self.memory);
        self.records.free_all(device, &*self.memory);
    }

    fn into_parts(self) -> (D, A) {
        let mut allocator = ManuallyDrop::new(self);
        // SAFETY: the allocator is not dropped, and its device not used again.
        let device = unsafe { ManuallyDrop::take(&mut allocator.device) };
        // SAFETY: the allocator is not dropped, and its memory not used again.
        let memory = unsafe { ManuallyDrop::take(&mut allocator.memory) };
        (device, memory.inner)
    }

    #[inline]
    pub(crate) fn pools(&self) -> DevicePools<'_> {
        DevicePools { pools: &self.pools, device: &*self.device, memory: &*self.memory }
    }

    #[inline]
    pub(crate) fn host(&self) -> &dyn HostAllocator {
        &*self.memory
    }

    #[inline]
    fn check_options(&self, options: &RegionOptions<'_>) -> Result<(), GpuMisuse> {
        if options.device_address && !self.pools.features().buffer_device_address {
            return Err(GpuMisuse::NotEnabled);
        }
        if !options.min_alignment.is_power_of_two() {
            return Err(GpuMisuse::BadAlignment);
        }
        if options.upper_address && options.pool.is_none() {
            return Err(GpuMisuse::NoUpperEnd);
        }
        self.check_pool(options.pool)
    }

    #[inline]
    fn check_tag(&self, id: RegionId) -> Result<(), GpuMisuse> {
        if id.tag() == self.tag { Ok(()) } else { Err(GpuMisuse::OtherAllocator) }
    }

    #[inline]
    fn check_pool(&self, pool: Option<PoolId>) -> Result<(), GpuMisuse> {
        if pool.is_none_or(|pool| pool.tag == self.tag) { Ok(()) } else { Err(GpuMisuse::NoSuchPool) }
    }

    /// The literal is too large to be copied on the hot path.
    #[inline(always)]
    fn allocation_request(
        &self,
        requirements: &ResourceRequirements,
        options: &RegionOptions<'_>,
    ) -> AllocationRequest {
        AllocationRequest {
            size: requirements.size,
            alignment: if requirements.alignment.is_power_of_two() {
                requirements.alignment.max(options.min_alignment)
            } else {
                0
            },
            memory_type_bits: requirements.memory_type_bits & options.memory_type_bits,
            preference: options.preference,
            kind: options.kind,
            lifetime: options.lifetime,
            dedicated: match options.dedicated_for {
                Some(_) => DedicatedPolicy::Required,
                None => options.dedicated,
            },
            resource: options.dedicated_for,
            prefers_dedicated: requirements.prefers_dedicated,
            requires_dedicated: requirements.requires_dedicated,
            pool: options.pool,
            slot: u32::MAX,
            priority: options.priority,
            export: options.export,
            next: options.next,
            within_budget: options.within_budget,
            own_device_address: options.device_address && !self.pools.blocks_have_device_addresses(),
            upper_address: options.upper_address,
            pinned: options.pinned,
            mapped: options.mapped,
        }
    }

    #[inline(always)]
    fn with_margin(&self, place: impl FnOnce() -> Result<Suballocation, GpuError>) -> Result<Suballocation, GpuError> {
        if self.pools.margin() == 0 { place() } else { self.place_with_margin(place) }
    }

    #[inline(always)]
    fn place_or_evict(&self, request: &AllocationRequest) -> Result<Suballocation, GpuError> {
        self.retry_after_evicting(|| self.pools().place(request))
    }

    #[inline(always)]
    fn retry_after_evicting<T>(&self, mut attempt: impl FnMut() -> Result<T, GpuError>) -> Result<T, GpuError> {
        match attempt() {
            // What the driver has imported is not imported again.
            Err(error)
                if error.is_out_of_device_memory() && !error.driver_owns_import() && self.evict_reusable(0, 0) > 0 =>
            {
                attempt().map_err(|again| match again {
                    again if again.is_device_lost() || again.driver_owns_import() => again,
                    _ => error,
                })
            }
            result => result,
        }
    }

    #[inline]
    pub(crate) fn region(&self, view: &RootView, placed: &Suballocation, key: RegionKey) -> Region {
        Region {
            id: RegionId::new(self.tag, key),
            memory: Some(placed.memory),
            offset: placed.offset,
            size: view.asked,
            resource: view.resource,
            buffer_offset: 0,
            memory_type: Some(placed.memory_type),
            is_dedicated: placed.at.kind() == RangePlacement::Dedicated,
            properties: placed.properties,
            mapped: placed.mapped,
            ownership: Ownership::Owned,
        }
    }

    fn check_place(&self, region: &Region) -> Result<(), GpuMisuse> {
        let now = self.region_of(region.id)?;
        let place = |region: &Region| (region.memory, region.offset, region.resource);
        if place(&now) == place(region) { Ok(()) } else { Err(GpuMisuse::Moved) }
    }
}

impl<D: DeviceMemory, A: HostAllocator> Drop for GpuAllocator<D, A> {
    fn drop(&mut self) {
        self.free_everything(true);
        // SAFETY: the device is not used again.
        unsafe { ManuallyDrop::drop(&mut self.device) };
        // SAFETY: nor is the memory; all of it was freed above.
        unsafe { ManuallyDrop::drop(&mut self.memory) };
    }
}

debug_fields!(
    [D: DeviceMemory, A: HostAllocator] GpuAllocator<D, A>, "GpuAllocator",
    |this| tag = format_args!("{:08x}", this.tag),
        reuse = this.reuse.load(Ordering::Relaxed),
        host_bytes = this.host_bytes()
);
