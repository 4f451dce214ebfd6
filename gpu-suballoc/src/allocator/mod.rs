//! The facade: requests in, regions out.
//!
//! ```text
//!   allocate, create_buffer, create_image ---> pools (a place in a block) + records (what a bare region does not need)
//!   wrap, crop                            ---> records alone
//!   free, release, detach                 ---> record first: whoever uses it still; then resource, place, record
//! ```

mod bare;
mod counted;
mod create;
mod crop;
mod descriptor;
mod info;
mod map;
mod options;
mod outstanding;
mod refused;
mod region;
mod reuse;
mod wrap;

pub use descriptor::{Descriptor, DescriptorUse};
pub use info::RegionInfo;
pub use map::Mapping;
pub use options::{AllocatorOptions, Field, ParseError};
pub(crate) use outstanding::Live;
pub(crate) use refused::name_in_use;
pub use refused::{BatchRefused, CloseRefused, NewRefused, Outstanding};
pub(crate) use region::Content;
pub use region::{Ownership, Region};
pub use wrap::{Detached, WrapInfo};

use core::fmt;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicBool, Ordering};

use alloc_core::HostAllocator;

use self::counted::Counted;
use crate::device::{DeviceLimits, DeviceMemory, ResourceRequirements};
use crate::error::{GpuError, Misuse};
use crate::id::{PoolId, RegionId, next_tag};
use crate::pool::{Ask, Env, Placed, PoolOptions, Pools, Where};
use crate::records::{NIL, Records};
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
    pub(crate) records: Records,
    pub(crate) shards: Shards,
    /// In every id.
    pub(crate) tag: u32,
    pub(crate) limits: DeviceLimits,
    reuse: AtomicBool,
    keep_buffers: u32,
    keep_bytes: u64,
    device: ManuallyDrop<D>,
    memory: ManuallyDrop<Counted<A>>,
}

impl<D: DeviceMemory, A: HostAllocator> GpuAllocator<D, A> {
    /// An allocator for `device` that keeps its books in memory of `memory`. Takes no device memory yet.
    ///
    /// # Errors
    /// Both back, with [`Misuse::BadOptions`] where the options are out of their ranges, or what `memory` refused.
    ///
    /// # Safety
    /// Here the user promises, once for all calls, what only the application can know:
    /// - infos of buffers and images are valid for the device and what is enabled on it (`VkBufferCreateInfo`, `VkImageCreateInfo`),
    /// - what is wrapped is live for as long as it is wrapped, and its backing is as it was told,
    /// - no region is given back, and the allocator not closed, while the device still uses what lies in it,
    /// - `device` outlives what was not given back, and is used by nobody in a way that breaks [`DeviceMemory`]'s rules.
    pub unsafe fn new(device: D, memory: A, options: AllocatorOptions) -> Result<Self, NewRefused<D, A>> {
        if options.keep_buffers > AllocatorOptions::MOST_KEPT {
            return Err(NewRefused { device, memory, error: Misuse::BadOptions.into() });
        }
        let pools = match Pools::new(&device, &options.memory) {
            Ok(pools) => pools,
            Err(error) => return Err(NewRefused { device, memory, error }),
        };
        let memory = Counted::new(memory);
        let records = match Records::new(&memory, options.keep_buffers) {
            Ok(records) => records,
            Err(error) => return Err(NewRefused { device, memory: memory.inner, error }),
        };
        let limits = device.properties().limits;
        Ok(Self {
            pools,
            records,
            shards: Shards::new(),
            tag: next_tag(),
            limits,
            reuse: AtomicBool::new(options.reuse),
            keep_buffers: options.keep_buffers,
            keep_bytes: options.keep_bytes,
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
    /// [`Misuse::BadOptions`] and what device, memory and limits refuse; no pool was made then.
    pub fn create_pool(&self, options: &PoolOptions) -> Result<PoolId, GpuError> {
        let (index, generation) = self.or_without_kept(|| self.pools.create_pool(self.env(), options))?;
        Ok(PoolId { tag: self.tag, generation, index })
    }

    /// Gives a pool back, with all its blocks.
    ///
    /// # Errors
    /// [`Misuse::PoolInUse`] while regions of it live; [`Misuse::NoSuchPool`].
    pub fn destroy_pool(&self, pool: PoolId) -> Result<(), GpuError> {
        self.check_pool(pool)?;
        self.drop_kept(0, 0);
        Ok(self.pools.destroy_pool(self.env(), pool.index, pool.generation)?)
    }

    /// Gives kept buffers and empty blocks back to the driver until `bytes` are, or there are no more; `u64::MAX` for all. Answers how
    /// many bytes of memory objects went.
    pub fn trim(&self, bytes: u64) -> u64 {
        let mut given = self.pools.trim(self.env(), bytes);
        while given < bytes && self.drop_one(0, 0) {
            given = given.saturating_add(self.pools.trim(self.env(), bytes - given));
        }
        given
    }

    /// Says that a frame begins, by a number that changes: budgets (`VK_EXT_memory_budget`) are asked again. True when the device told.
    pub fn set_frame(&self, frame: u32) -> bool {
        self.pools.set_frame(self.env(), frame)
    }

    /// Gives everything back, and device and host allocator to the caller.
    ///
    /// # Errors
    /// The allocator, as it was but for kept buffers and empty blocks, while regions, wrapped buffers or crops are left.
    #[expect(clippy::result_large_err, reason = "the allocator is given back, as large as it is")]
    pub fn close(self) -> Result<(D, A), CloseRefused<Self>> {
        let mut allocator = self;
        match allocator.wind_up() {
            Ok(()) => Ok(allocator.into_parts()),
            Err(outstanding) => Err(CloseRefused { value: allocator, outstanding }),
        }
    }

    /// Gives the host memory back, and device and host allocator to the caller, without a call of the device: for one that is lost, or
    /// whose driver must not be called any more. Whatever lives there goes with the device.
    pub fn abandon(self) -> (D, A) {
        let mut allocator = self;
        allocator.let_go();
        allocator.into_parts()
    }

    fn wind_up(&mut self) -> Result<(), Outstanding> {
        self.drop_kept(0, 0);
        let counts = self.records.counts();
        if counts.wrapped == 0 && counts.crops == 0 {
            let env = Env { device: &*self.device, memory: &*self.memory };
            self.shards.settle(env, &self.pools);
            if self.pools.close(env) == 0 {
                self.shards.dismantle(&*self.memory);
                self.records.dismantle(&*self.memory);
                return Ok(());
            }
        }
        Err(self.outstanding())
    }

    fn let_go(&mut self) {
        self.pools.abandon(Env { device: &*self.device, memory: &*self.memory });
        self.shards.dismantle(&*self.memory);
        self.records.dismantle(&*self.memory);
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
    pub(crate) fn env(&self) -> Env<'_> {
        Env { device: &*self.device, memory: &*self.memory }
    }

    #[inline]
    pub(crate) fn host(&self) -> &dyn HostAllocator {
        &*self.memory
    }

    fn check_pool(&self, pool: PoolId) -> Result<(), Misuse> {
        if pool.tag == self.tag { Ok(()) } else { Err(Misuse::NoSuchPool) }
    }

    #[inline]
    fn check(&self, requirements: &ResourceRequirements, options: &RegionOptions<'_>) -> Result<(), Misuse> {
        if requirements.size == 0 {
            return Err(Misuse::ZeroSize);
        }
        if !requirements.alignment.is_power_of_two() {
            return Err(Misuse::BadAlignment);
        }
        if let Some(pool) = options.pool {
            self.check_pool(pool)?;
        }
        if let Some(priority) = options.priority
            && !(0.0..=1.0).contains(&priority)
        {
            return Err(Misuse::BadPriority);
        }
        Ok(())
    }

    /// What the pools are asked, of what the user asks and was checked. One literal, written where it is read: it is too large to be
    /// handed about on the hot path.
    #[inline(always)]
    fn ask(requirements: &ResourceRequirements, options: &RegionOptions<'_>) -> Ask {
        Ask {
            size: requirements.size,
            alignment: requirements.alignment,
            memory_type_bits: requirements.memory_type_bits,
            wish: options.wish,
            kind: options.kind,
            lifetime: options.lifetime,
            dedicated: options.dedicated,
            resource: None,
            prefers_dedicated: requirements.prefers_dedicated,
            requires_dedicated: requirements.requires_dedicated,
            pool: options.pool,
            word: NIL,
            priority: options.priority,
            export: options.export,
            next: options.next,
            within_budget: options.within_budget,
        }
    }

    /// Finds room, giving up kept buffers before giving up.
    #[inline(always)]
    fn place(&self, ask: &Ask) -> Result<Placed, GpuError> {
        match self.pools.place(self.env(), ask) {
            Err(error) => self.place_without_kept(ask, error),
            placed => placed,
        }
    }

    #[cold]
    fn place_without_kept(&self, ask: &Ask, error: GpuError) -> Result<Placed, GpuError> {
        if !error.is_out_of_device_memory() || self.drop_kept(0, 0) == 0 {
            return Err(error);
        }
        self.pools.place(self.env(), ask)
    }

    /// Tries again without kept buffers where device memory is short.
    fn or_without_kept<T>(&self, mut attempt: impl FnMut() -> Result<T, GpuError>) -> Result<T, GpuError> {
        match attempt() {
            Err(error) if error.is_out_of_device_memory() && self.drop_kept(0, 0) > 0 => attempt(),
            result => result,
        }
    }

    /// What the user gets for a place.
    #[inline]
    pub(crate) fn region(&self, placed: &Placed, record: u32) -> Region {
        Region {
            id: RegionId::new(self.tag, placed.at.place, placed.at.slot, placed.at.generation),
            memory: Some(placed.memory),
            offset: placed.offset,
            size: placed.size,
            resource: 0,
            buffer_offset: 0,
            mapped: None,
            record,
            memory_type: placed.memory_type as u8,
            content: Content::Bare,
        }
    }

    fn give_to_shard(&self, id: RegionId) -> Result<(), Misuse> {
        self.shards.give(self.env(), &self.pools, id)
    }
}

impl<D: DeviceMemory, A: HostAllocator> Drop for GpuAllocator<D, A> {
    fn drop(&mut self) {
        if self.wind_up().is_err() {
            self.let_go();
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

pub(crate) fn where_of(id: RegionId) -> Where {
    Where { place: id.place(), slot: id.slot(), generation: id.generation() }
}
