//! A context on a device of the application.

use super::contexts::{ContextDevice, LossAwareDevice};
use super::contexts::{DeviceShare, DeviceState};
use super::dispatch_lock::DispatchLock;
use super::error::{ContextError, VulkanHandles};
use crate::allocator::{GpuAllocator, write_in_use};
use crate::cache::{CacheOwner, RemovalCounts, ShaderKey};
use crate::id::RegionId;
use crate::region::Ownership;
use crate::waiting;
use alloc_core::{ContextHandle, Rejected};
use core::fmt;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// The allocator of a context.
pub type ContextAllocator<D> = GpuAllocator<LossAwareDevice<D>, ContextHandle>;

/// The number of a context, unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceContextId(u64);

impl DeviceContextId {
    pub(super) fn new_unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Relaxed))
    }

    /// The number, never 0: for C.
    #[must_use]
    pub const fn as_raw(self) -> u64 {
        self.0
    }

    /// From C; any number. The table knows whether the context exists.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

/// An allocator and a share of the shader cache, on a device that the application owns.
///
/// Acquired by [`DeviceContexts::acquire`](super::DeviceContexts::acquire). It must be [released](Self::release), or dropped, before the application destroys the device, or the
/// device must be reported [lost](Self::device_lost) first. It never destroys or waits for the application's instance, device or
/// queues. Dropping it is [`release_forced`](Self::release_forced) without the report.
pub struct DeviceContext<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> {
    // In the order of dropping: shader modules, then regions and blocks, then the share of the device.
    pub(super) owner: CacheOwner<P, E>,
    pub(super) gpu: ContextAllocator<D>,
    pub(super) device_share: DeviceShare<P, E>,
    pub(super) lock: DispatchLock,
    pub(super) handles: VulkanHandles,
    pub(super) id: DeviceContextId,
}

impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> DeviceContext<D, P, E> {
    /// Acquires the same context again: checks that these are its handles. Loads and allocates nothing.
    ///
    /// # Errors
    /// [`ContextError::NullHandle`], [`ContextError::OtherHandle`]; the context is unchanged.
    pub fn acquire_again(&self, handles: VulkanHandles) -> Result<(), ContextError> {
        self.handles.check_same(handles)
    }

    /// Its number.
    #[must_use]
    pub const fn id(&self) -> DeviceContextId {
        self.id
    }

    /// Its allocator.
    #[must_use]
    pub const fn allocator(&self) -> &ContextAllocator<D> {
        &self.gpu
    }

    /// Its part of the shader cache.
    #[must_use]
    pub const fn shaders(&self) -> &CacheOwner<P, E> {
        &self.owner
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> &D {
        self.gpu.device().device()
    }

    /// The state of its device, shared with the device's other contexts.
    #[must_use]
    pub const fn device_state(&self) -> &DeviceState {
        &self.device_share.state
    }

    /// Runs one dispatch at a time, under a lock that is released when `run` returns or unwinds.
    ///
    /// Threads that dispatch on several contexts must do so in one order, as with any locks.
    ///
    /// # Errors
    /// [`ContextError::NestedDispatch`] within a dispatch of this context on the same thread; `run` is not
    /// called then. Without feature `std` this is not detected, and the thread waits for itself.
    pub fn dispatch<R>(&self, run: impl FnOnce(&Self) -> R) -> Result<R, ContextError> {
        let _turn = self
            .lock
            .enter(waiting::number())
            .ok_or(ContextError::NestedDispatch)?;
        Ok(run(self))
    }

    /// Reports that the device is lost (`VK_ERROR_DEVICE_LOST`), or that the application is about to destroy it. Calls of its contexts that
    /// begin from now on do not reach the driver: requests are [`DeviceError::DeviceLost`](crate::device::DeviceError::DeviceLost). This call does
    /// not wait for calls of other threads: the application must, before it destroys the device. Releasing the contexts then frees only
    /// host memory. A context that is acquired with the same handle later is on another device.
    pub fn device_lost(&self) {
        self.device_share.state.lose();
        self.owner.cache().release_device(self.owner.device());
    }

    /// Frees everything: shader modules of this owner, then regions and blocks, then the bookkeeping. Does not wait: the device must have
    /// finished its work with them.
    ///
    /// After the loss of the device the driver is not called, and nothing is refused.
    ///
    /// A thread that requests one of its shaders through another context of the device at the same time either gets a reference, which
    /// refuses the release, or does not find the shader. Nothing of the context remains when this returns.
    ///
    /// # Errors
    /// The context, unchanged but for kept buffers and empty blocks, while regions, wrapped buffers, crops or referenced shaders of it are left,
    /// or a shader is being compiled for it.
    #[expect(clippy::result_large_err, reason = "a refusal returns the context")]
    pub fn release(self) -> Result<ReleaseReport, Rejected<Self, ContextOutstanding>> {
        let mut context = self;
        if context.device_share.state.is_lost() {
            return Ok(context.release_forced().released);
        }
        let outstanding = context.outstanding();
        if outstanding.is_any() {
            return Err(Rejected::new(context, outstanding));
        }
        match context.owner.release_unused() {
            Ok(shaders) => Ok(release_parts(context.gpu, context.device_share, shaders)),
            Err((owner, shaders)) => {
                context.owner = owner;
                let outstanding = ContextOutstanding {
                    shaders,
                    ..outstanding
                };
                Err(Rejected::new(context, outstanding))
            }
        }
    }

    /// As [`release`](Self::release), but frees regions with their buffers, images and memory, and removes referenced shaders from the cache: they
    /// are destroyed with their last reference, which must be before the device is destroyed.
    pub fn release_forced(self) -> ForcedRelease {
        let mut context = self;
        let outstanding = context.outstanding();
        let shaders = context.owner.release();
        ForcedRelease {
            released: release_parts(context.gpu, context.device_share, shaders),
            outstanding,
        }
    }

    /// Counts what prevents a release, after freeing the kept buffers.
    pub(super) fn outstanding(&mut self) -> ContextOutstanding {
        let left = self.gpu.outstanding();
        ContextOutstanding {
            regions: left.regions,
            wrapped: left.wrapped,
            crops: left.crops,
            shaders: self.owner.in_use(),
        }
    }
}

/// Releases a context's memory, then its share of the device.
fn release_parts<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync>(
    gpu: ContextAllocator<D>,
    device_share: DeviceShare<P, E>,
    shaders: RemovalCounts,
) -> ReleaseReport {
    let stats = gpu.stats();
    let lost = device_share.state.is_lost();
    drop(gpu);
    drop(device_share);
    ReleaseReport {
        shaders: shaders.destroyed,
        held: shaders.held,
        blocks: stats.total.blocks,
        block_bytes: stats.total.block_bytes,
        host_bytes: stats.host_bytes,
        device_lost: lost,
    }
}

impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> fmt::Debug
    for DeviceContext<D, P, E>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("DeviceContext");
        all.field("id", &self.id.0)
            .field("handles", &self.handles)
            .field("device", &self.device_share.state)
            .finish_non_exhaustive()
    }
}

/// What a release freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReleaseReport {
    /// Compiled shaders that were destroyed.
    pub shaders: u64,
    /// Referenced shaders, which were removed from the cache and are destroyed with their last reference. After an unforced release this is
    /// 0, unless the device was lost.
    pub held: u64,
    /// Memory objects that were freed, or that were lost with the device.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Bytes of freed host memory of the allocator's bookkeeping.
    pub host_bytes: u64,
    /// The device was lost, and its driver was not called.
    pub device_lost: bool,
}

/// The result of a forced release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForcedRelease {
    /// What was freed.
    pub released: ReleaseReport,
    /// What was in use.
    pub outstanding: ContextOutstanding,
}

/// Counts of what prevents a release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextOutstanding {
    /// Regions of the context's memory.
    pub regions: u64,
    /// Wrapped buffers.
    pub wrapped: u64,
    /// Crops.
    pub crops: u64,
    /// Shaders that are referenced or being compiled.
    pub shaders: u64,
}

impl ContextOutstanding {
    /// Whether a count is not 0.
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.regions | self.wrapped | self.crops | self.shaders != 0
    }
}

/// Something that prevents a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseBlocker {
    /// A region of the context's memory.
    Region(RegionId),
    /// A wrapped buffer.
    Wrapped(RegionId),
    /// A crop.
    Crop(RegionId),
    /// A referenced shader.
    Shader(ShaderKey),
}

/// Regions that are looked up at a time.
const BATCH: usize = 16;

impl fmt::Display for ContextOutstanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            regions,
            wrapped,
            crops,
            shaders,
        } = self;
        let what = [
            (*regions, "region"),
            (*wrapped, "wrapped buffer"),
            (*crops, "crop"),
            (*shaders, "shader"),
        ];
        write_in_use(f, &what, "the context", "release the context by force")
    }
}

impl core::error::Error for ContextOutstanding {}

impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> DeviceContext<D, P, E> {
    /// All that prevents [`release`](Self::release): regions, wrapped buffers, crops, referenced shaders. Allocates
    /// nothing. Shaders that are being compiled are only counted, by a refused release.
    pub fn release_blockers(&self) -> impl Iterator<Item = ReleaseBlocker> + '_ {
        let allocator = self.allocator();
        let (mut some, mut there, mut from) = ([None; BATCH], BATCH, 0);
        let regions = core::iter::from_fn(move || {
            if there == BATCH {
                some = [None; BATCH];
                allocator.records.live_regions(&mut from, &mut some);
                there = 0;
            }
            let (key, ownership) = some.get_mut(there)?.take()?;
            let id = RegionId::new(allocator.tag, key);
            there += 1;
            Some(match ownership {
                Ownership::Wrapped => ReleaseBlocker::Wrapped(id),
                Ownership::CropAlias => ReleaseBlocker::Crop(id),
                Ownership::Owned => ReleaseBlocker::Region(id),
            })
        });
        regions.chain(self.shaders().held_keys().map(ReleaseBlocker::Shader))
    }
}
