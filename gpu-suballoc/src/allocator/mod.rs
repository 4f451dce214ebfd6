//! The facade: requests in, regions out.
//!
//! ```text
//!   allocate, create_buffer, create_image ---> pools (a place in a block) + records (what a bare region does not need)
//!   wrap, crop                            ---> records alone
//!   free, release, detach                 ---> record first: whoever uses it still; then resource, place, record
//! ```

mod allocate;
mod counting_allocator;
mod create;
mod crop;
mod defragmentation;
mod descriptor;
mod error;
mod info;
mod map;
mod margin;
mod options;
mod outstanding;
mod reuse;
mod shard_lanes;
mod shard_map;
mod thread_shard;
mod wrap;

pub use crate::region_metadata::Backing;
pub use defragmentation::{
    Defragmentation, DefragmentationOptions, DefragmentationPass, DefragmentationTotals,
    MoveOutcome, MovePlace, MoveResult, RegionMove, SkippedRegions,
};
pub use descriptor::{Descriptor, DescriptorUse};
pub(crate) use error::write_in_use;
pub use error::{BatchError, OutstandingRegions};
pub use info::RegionInfo;
pub use map::Mapping;
pub use options::{AllocatorOptions, OptionField, OptionsParseError};
pub use shard_lanes::ShardUsage;
pub use thread_shard::Shard;
pub use wrap::{DetachedBuffer, WrapInfo};

use core::fmt;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use alloc_core::{HostAllocator, Rejected};

use self::counting_allocator::CountingAllocator;
use crate::device::{DeviceLimits, DeviceMemory, ResourceRequirements};
use crate::error::{GpuError, GpuMisuse};
use crate::id::{NO_RECORD, PoolId, RegionId, RegionPlaceKind, RegionSlot, next_tag};
use crate::pool::{AllocationRequest, DeviceAndHost, PoolOptions, Pools, Suballocation};
use crate::region::{Region, RegionContent};
use crate::region_metadata::RegionMetadata;
use crate::request::RegionOptions;
use crate::shard::Shards;

/// All memory of one device, in pieces as small as anybody wants.
///
/// Any number of threads may use it at once. It keeps no reference into the regions that it gives out: they are the user's, and
/// find their way back by their ids. Every byte of book-keeping comes from the host allocator it was made with, in
/// [`Scope::Object`](alloc_core::Scope::Object), and no call of host allocator or device is made under a lock that guards its state.
///
/// Dropping it while regions live leaves their memory with the driver, to be freed with the device; [`close`](GpuAllocator::close)
/// says what lives.
pub struct GpuAllocator<D: DeviceMemory, A: HostAllocator> {
    pub(crate) pools: Pools,
    pub(crate) records: RegionMetadata,
    pub(crate) shards: Shards,
    /// In every id.
    pub(crate) tag: u32,
    pub(crate) limits: DeviceLimits,
    reuse: AtomicBool,
    /// Something was moved: values of regions may say where they were.
    has_moved: AtomicBool,
    /// Calls that place regions and have not written their margins yet.
    arming: AtomicU32,
    /// Calls that ask the device what it wrote to a margin, which discards what the host wrote there.
    asking: AtomicU32,
    max_reusable_buffers: u32,
    max_reusable_bytes: u64,
    device: ManuallyDrop<D>,
    memory: ManuallyDrop<CountingAllocator<A>>,
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// An allocator for `device` that keeps its books in memory of `memory`. Takes no device memory yet.
    ///
    /// # Errors
    /// Both back, with [`GpuMisuse::BadOptions`] or [`GpuMisuse::BlockTooSmall`] where the options are out of their ranges, or what
    /// `memory` refused.
    ///
    /// # Safety
    /// Here the user promises, once for all calls, what only the application can know:
    /// - infos of buffers and images are valid for the device and what is enabled on it (`VkBufferCreateInfo`, `VkImageCreateInfo`),
    /// - what is wrapped is live for as long as it is wrapped, and its backing is as it was told,
    /// - no region is given back, and the allocator not closed, while the device still uses what lies in it,
    /// - `device` outlives what was not given back, and is used by nobody in a way that breaks [`DeviceMemory`]'s rules.
    pub unsafe fn new(
        device: D,
        memory: A,
        options: AllocatorOptions,
    ) -> Result<Self, Rejected<(D, A), GpuError>> {
        if options.max_reusable_buffers > AllocatorOptions::MAX_REUSABLE_BUFFERS {
            return Err(Rejected::new((device, memory), GpuMisuse::BadOptions));
        }
        let memory = CountingAllocator::new(memory);
        let (pools, records) = match Pools::new(&device, &options.memory).and_then(|pools| {
            let records = RegionMetadata::new(&memory, options.max_reusable_buffers)?;
            Ok((pools, records))
        }) {
            Ok(parts) => parts,
            Err(error) => return Err(Rejected::new((device, memory.inner), error)),
        };
        let limits = device.properties().limits;
        Ok(Self {
            pools,
            records,
            shards: Shards::new(),
            tag: next_tag(),
            limits,
            reuse: AtomicBool::new(options.reuse),
            has_moved: AtomicBool::new(false),
            arming: AtomicU32::new(0),
            asking: AtomicU32::new(0),
            max_reusable_buffers: options.max_reusable_buffers,
            max_reusable_bytes: options.max_reusable_bytes,
            device: ManuallyDrop::new(device),
            memory: ManuallyDrop::new(memory),
        })
    }

    /// The device it was made with.
    #[must_use]
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Bytes of host memory that its books take now.
    #[must_use]
    pub fn host_bytes(&self) -> u64 {
        self.memory.bytes()
    }

    /// Makes a pool of the user's own.
    ///
    /// # Errors
    /// [`GpuMisuse::BadOptions`], [`GpuMisuse::BlockTooSmall`], [`GpuMisuse::BadPriority`], [`GpuMisuse::NotEnabled`];
    /// [`Limit::Pools`](crate::error::Limit::Pools) where 384 live; and what device, memory and limits refuse; no pool was made then.
    pub fn create_pool(&self, options: &PoolOptions) -> Result<PoolId, GpuError> {
        let (index, generation) =
            self.retry_after_evicting(|| self.pools.create_pool(self.device_and_host(), options))?;
        Ok(PoolId {
            tag: self.tag,
            generation,
            index,
        })
    }

    /// Gives a pool back, with all its blocks.
    ///
    /// # Errors
    /// [`GpuMisuse::PoolInUse`] while regions of it live; [`GpuMisuse::Defragmenting`] until its [`Defragmentation`] is dropped;
    /// [`GpuMisuse::NoSuchPool`].
    pub fn destroy_pool(&self, pool: PoolId) -> Result<(), GpuError> {
        self.check_pool(Some(pool))?;
        self.evict_reusable(0, 0);
        Ok(self
            .pools
            .destroy_pool(self.device_and_host(), pool.index, pool.generation)?)
    }

    /// Gives kept buffers and empty blocks back to the driver until `bytes` are, or there are no more; `u64::MAX` for all. Answers how
    /// many bytes of memory objects went. Empty pages of shards go before buffers, as far as their threads let go of them:
    /// [`Shard`] says when.
    pub fn trim(&self, bytes: u64) -> u64 {
        let mut given = self.pools.trim(self.device_and_host(), bytes);
        if given < bytes && self.shards.free_idle(self.device_and_host(), &self.pools) {
            given = given.saturating_add(self.pools.trim(self.device_and_host(), bytes - given));
        }
        for _ in 0..self.records.counts().reusable {
            if given >= bytes || !self.evict_one(0, 0) {
                break;
            }
            given = given.saturating_add(self.pools.trim(self.device_and_host(), bytes - given));
        }
        given
    }

    /// Makes blocks until the pool of `options` has at least `bytes` free, in one piece or in several: ahead of a frame that must not wait
    /// for the driver. That is the custom pool, or the one where resources of these memory types, preference and kind are placed first.
    /// Blocks that nothing is allocated from go with [`trim`](GpuAllocator::trim). Room in blocks that a defragmentation empties does not
    /// count, and a linear pool has what lies between its ends, and one block. It stays within budgets if the options say so.
    ///
    /// # Errors
    /// [`GpuMisuse::NoSuchPool`], [`GpuError::MemoryType`]; why no more could be made: what was made before stays.
    pub fn reserve(
        &self,
        bytes: u64,
        memory_type_bits: u32,
        options: &RegionOptions<'_>,
    ) -> Result<(), GpuError> {
        self.check_pool(options.pool)?;
        let env = self.device_and_host();
        match options.pool {
            Some(pool) => (self.pools).reserve_custom(env, pool, bytes, options.within_budget),
            None => {
                let of = (memory_type_bits, options.preference);
                let within = options.within_budget;
                let kind = (options.kind, options.pinned);
                (self.pools).reserve_of_type(env, of, kind, bytes, within)
            }
        }
    }

    /// Says that a frame begins, by a number that changes: budgets (`VK_EXT_memory_budget`) are asked again. True when the device told.
    pub fn set_frame(&self, frame: u32) -> bool {
        self.pools.set_frame(self.device_and_host(), frame)
    }

    /// Gives everything back, and device and host allocator to the caller.
    ///
    /// # Errors
    /// The allocator, as it was but for kept buffers and empty blocks, while regions, wrapped buffers or crops are left.
    #[expect(
        clippy::result_large_err,
        reason = "the allocator is given back, as large as it is"
    )]
    pub fn close(self) -> Result<(D, A), Rejected<Self, OutstandingRegions>> {
        let mut allocator = self;
        match allocator.free_all_blocks() {
            Ok(()) => Ok(allocator.into_parts()),
            Err(outstanding) => Err(Rejected::new(allocator, outstanding)),
        }
    }

    /// Gives the host memory back, and device and host allocator to the caller, without a call of the device: for one that is lost, or
    /// whose driver must not be called any more. Whatever lives there goes with the device.
    pub fn abandon(self) -> (D, A) {
        let mut allocator = self;
        allocator.free_host_memory();
        allocator.into_parts()
    }

    fn free_all_blocks(&mut self) -> Result<(), OutstandingRegions> {
        self.evict_reusable(0, 0);
        let counts = self.records.counts();
        if counts.wrapped == 0 && counts.crops == 0 {
            let (env, pools, shards) = self.split();
            shards.trim_abandoned(env, pools);
            if pools.close(env) == 0 {
                self.free_tables();
                return Ok(());
            }
        }
        Err(self.outstanding())
    }

    fn free_host_memory(&mut self) {
        let (env, pools, _) = self.split();
        pools.abandon(env);
        self.free_tables();
    }

    /// Frees the host memory of shards and records.
    fn free_tables(&mut self) {
        self.shards.free_all(&*self.memory);
        self.records.free_all(&*self.memory);
    }

    /// The parts, borrowed apart.
    fn split(&mut self) -> (DeviceAndHost<'_>, &mut Pools, &mut Shards) {
        let env = DeviceAndHost {
            device: &*self.device,
            memory: &*self.memory,
        };
        (env, &mut self.pools, &mut self.shards)
    }

    fn into_parts(self) -> (D, A) {
        let mut allocator = ManuallyDrop::new(self);
        // SAFETY: the allocator is not dropped, and nobody uses its device again.
        let device = unsafe { ManuallyDrop::take(&mut allocator.device) };
        // SAFETY: as above, for the memory.
        let memory = unsafe { ManuallyDrop::take(&mut allocator.memory) };
        (device, memory.inner)
    }

    #[inline]
    pub(crate) fn device_and_host(&self) -> DeviceAndHost<'_> {
        DeviceAndHost {
            device: &*self.device,
            memory: &*self.memory,
        }
    }

    #[inline]
    pub(crate) fn host(&self) -> &dyn HostAllocator {
        &*self.memory
    }

    /// A pool is this allocator's, and device addresses can be had where they are asked for.
    #[inline]
    fn check_options(&self, options: &RegionOptions<'_>) -> Result<(), GpuMisuse> {
        if options.device_address && !self.pools.has_device_addresses() {
            return Err(GpuMisuse::NotEnabled);
        }
        if options.upper_address && options.pool.is_none() {
            return Err(GpuMisuse::NoUpperEnd);
        }
        self.check_pool(options.pool)
    }

    /// Refuses an id of another allocator.
    #[inline]
    fn check_tag(&self, id: RegionId) -> Result<(), GpuMisuse> {
        if id.tag() == self.tag {
            Ok(())
        } else {
            Err(GpuMisuse::OtherAllocator)
        }
    }

    #[inline]
    fn check_pool(&self, pool: Option<PoolId>) -> Result<(), GpuMisuse> {
        if pool.is_none_or(|pool| pool.tag == self.tag) {
            Ok(())
        } else {
            Err(GpuMisuse::NoSuchPool)
        }
    }

    /// What the pools are asked, of what the user asks. One literal, written where it is read: it is too large to be
    /// handed about on the hot path.
    #[inline(always)]
    fn allocation_request(
        &self,
        requirements: &ResourceRequirements,
        options: &RegionOptions<'_>,
    ) -> AllocationRequest {
        AllocationRequest {
            size: requirements.size,
            alignment: requirements.alignment,
            memory_type_bits: requirements.memory_type_bits,
            preference: options.preference,
            kind: options.kind,
            lifetime: options.lifetime,
            dedicated: options.dedicated,
            resource: None,
            prefers_dedicated: requirements.prefers_dedicated,
            requires_dedicated: requirements.requires_dedicated,
            pool: options.pool,
            user_data: NO_RECORD,
            priority: options.priority,
            export: options.export,
            next: options.next,
            within_budget: options.within_budget,
            own_device_address: options.device_address
                && !self.pools.blocks_have_device_addresses(),
            upper_address: options.upper_address,
            pinned: options.pinned,
        }
    }

    /// Finds room, giving up what is kept before giving up.
    #[inline(always)]
    fn place(&self, ask: &AllocationRequest) -> Result<Suballocation, GpuError> {
        self.with_margin(ask.user_data, || {
            match self.pools.place(self.device_and_host(), ask) {
                Err(error) => self.place_after_evicting(ask, error),
                Ok(placed) => Ok(placed),
            }
        })
    }

    /// What `place` answers, with its margin where there are some.
    #[inline(always)]
    fn with_margin(
        &self,
        user_data: u32,
        place: impl FnOnce() -> Result<Suballocation, GpuError>,
    ) -> Result<Suballocation, GpuError> {
        if self.pools.margin() == 0 {
            return place();
        }
        let _arming = self.begin_arming();
        self.arm_margin(place()?, user_data)
    }

    #[cold]
    fn place_after_evicting(
        &self,
        ask: &AllocationRequest,
        error: GpuError,
    ) -> Result<Suballocation, GpuError> {
        if !error.is_out_of_device_memory() || !self.evict_everything() {
            return Err(error);
        }
        self.pools.place(self.device_and_host(), ask)
    }

    /// Lets go of kept buffers, and of empty pages of shards. Whether there was one.
    #[cold]
    fn evict_everything(&self) -> bool {
        let evicted = self.evict_reusable(0, 0) > 0;
        self.shards.free_idle(self.device_and_host(), &self.pools) | evicted
    }

    /// Tries again without what is kept where device memory is short.
    fn retry_after_evicting<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, GpuError>,
    ) -> Result<T, GpuError> {
        match attempt() {
            Err(error) if error.is_out_of_device_memory() && self.evict_everything() => attempt(),
            result => result,
        }
    }

    /// What the user gets for a place.
    #[inline]
    pub(crate) fn region(&self, placed: &Suballocation, record: u32) -> Region {
        Region {
            id: RegionId::new(self.tag, placed.at),
            memory: Some(placed.memory),
            offset: placed.offset,
            size: placed.size,
            resource: 0,
            buffer_offset: 0,
            mapped: None,
            record,
            memory_type: placed.memory_type as u8,
            content: RegionContent::Bare,
        }
    }

    /// A region is about to lie elsewhere.
    fn note_moved(&self) {
        self.has_moved.store(true, Ordering::Release);
    }

    /// Whether a value may say where its region was, and not where it is.
    #[inline]
    fn may_have_moved(&self, region: &Region) -> bool {
        matches!(
            region.id.kind(),
            RegionPlaceKind::General | RegionPlaceKind::Slab | RegionPlaceKind::Crop
        ) && self.has_moved.load(Ordering::Acquire)
    }

    /// Refuses a value that says where its region was.
    #[inline]
    fn check_place(&self, region: &Region) -> Result<(), GpuMisuse> {
        if self.may_have_moved(region) {
            self.compare_place(region)
        } else {
            Ok(())
        }
    }

    #[cold]
    fn compare_place(&self, region: &Region) -> Result<(), GpuMisuse> {
        let now = match self.region_of(region.id) {
            Ok(now) => now,
            // A crop of what its shard alone knows, and never moves.
            Err(GpuMisuse::OtherShard) => return Ok(()),
            Err(rule) => return Err(rule),
        };
        let place = |region: &Region| (region.memory, region.offset, region.resource);
        if place(&now) == place(region) {
            Ok(())
        } else {
            Err(GpuMisuse::Moved)
        }
    }

    fn free_in_shard(&self, at: RegionSlot) -> Result<(), GpuMisuse> {
        self.shards.free(self.device_and_host(), &self.pools, at)
    }
}

impl<D: DeviceMemory, A: HostAllocator> Drop for GpuAllocator<D, A> {
    fn drop(&mut self) {
        if self.free_all_blocks().is_err() {
            self.free_host_memory();
        }
        // SAFETY: nobody uses the device again.
        unsafe { ManuallyDrop::drop(&mut self.device) };
        // SAFETY: nor the memory; all of it was given back above.
        unsafe { ManuallyDrop::drop(&mut self.memory) };
    }
}

impl<D: DeviceMemory, A: HostAllocator> fmt::Debug for GpuAllocator<D, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuAllocator")
            .field("tag", &format_args!("{:08x}", self.tag))
            .field("reuse", &self.reuse.load(Ordering::Relaxed))
            .field("host_bytes", &self.host_bytes())
            .finish_non_exhaustive()
    }
}
