use super::contexts::{DeviceShare, DeviceState, LossAwareDevice};
use super::dispatch_lock::DispatchLock;
use super::error::{ContextError, VulkanHandles};
use crate::allocator::{GpuAllocator, OutstandingRegions, write_in_use};
use crate::cache::{CacheOwner, RemovalCounts, ShaderKey};
use crate::device::DeviceMemory;
use crate::flags::debug_fields;
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
/// It must be [released](Self::release), or dropped, before the application destroys the device, or the device must be
/// reported [lost](Self::device_lost) first. Dropping it is [`release_forced`](Self::release_forced) without the
/// report.
#[must_use = "dropping a context releases it"]
pub struct DeviceContext<D: DeviceMemory, P, E> {
    // In the order of dropping.
    pub(super) owner: CacheOwner<P, E>,
    pub(super) gpu: ContextAllocator<D>,
    pub(super) device_share: DeviceShare<P, E>,
    pub(super) lock: DispatchLock,
    pub(super) handles: VulkanHandles,
    pub(super) id: DeviceContextId,
}

impl<D: DeviceMemory, P, E> DeviceContext<D, P, E> {
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
    /// Threads that dispatch on several contexts must do so in one order.
    ///
    /// # Errors
    /// [`ContextError::NestedDispatch`] within a dispatch of this context on the same thread. Without feature `std` the
    /// thread waits for itself.
    pub fn dispatch<R>(&self, run: impl FnOnce(&Self) -> R) -> Result<R, ContextError> {
        let _turn = self.lock.enter(waiting::number()).ok_or(ContextError::NestedDispatch)?;
        Ok(run(self))
    }

    /// Reports that the device is lost (`VK_ERROR_DEVICE_LOST`), or that the application is about to destroy it. Calls
    /// of its contexts that begin from now on do not reach the driver, and requests are
    /// [`DeviceError::DeviceLost`](crate::device::DeviceError::DeviceLost). The application must wait for calls of
    /// other threads before it destroys the device. Releasing the contexts frees host memory only.
    pub fn device_lost(&self) {
        self.device_share.state.lose();
        self.owner.cache().release_device(self.owner.device());
    }

    /// Frees everything: shader modules of this owner, then regions and blocks, then the bookkeeping. The device must
    /// have finished its work with them. After the loss of the device the driver is not called, and nothing is refused.
    ///
    /// # Errors
    /// The context, unchanged but for kept buffers and empty blocks, while regions, wrapped buffers, crops or
    /// referenced shaders of it are left, or a shader is being compiled for it.
    #[expect(clippy::result_large_err, reason = "a refusal returns the context")]
    pub fn release(mut self) -> Result<ReleaseReport, Rejected<Self, ContextOutstanding>> {
        match self.try_release() {
            Ok(report) => Ok(report),
            Err(outstanding) => Err(Rejected::new(self, outstanding)),
        }
    }

    /// The caller drops the context then.
    pub(super) fn try_release(&mut self) -> Result<ReleaseReport, ContextOutstanding> {
        let outstanding = self.outstanding();
        if self.device_share.state.is_lost() {
            let shaders = self.owner.release_all();
            return Ok(self.report(shaders));
        }
        if outstanding != ContextOutstanding::default() {
            return Err(outstanding);
        }
        match self.owner.try_release_unused() {
            Ok(shaders) => Ok(self.report(shaders)),
            Err(shaders) => Err(ContextOutstanding { shaders, ..outstanding }),
        }
    }

    /// As [`release`](Self::release), but frees regions with their resources and memory. Referenced shaders are
    /// destroyed with their last reference, which must be before the device is destroyed.
    pub fn release_forced(mut self) -> ForcedRelease {
        let outstanding = self.outstanding();
        let shaders = self.owner.release_all();
        ForcedRelease { released: self.report(shaders), outstanding }
    }

    /// Frees the kept buffers first.
    fn outstanding(&self) -> ContextOutstanding {
        ContextOutstanding { allocator: self.gpu.outstanding(), shaders: self.owner.in_use() }
    }

    fn report(&self, shaders: RemovalCounts) -> ReleaseReport {
        let stats = self.gpu.stats();
        ReleaseReport {
            shaders: shaders.destroyed,
            held: shaders.held,
            blocks: stats.total.blocks,
            block_bytes: stats.total.block_bytes,
            host_bytes: stats.host_bytes,
            device_lost: self.device_share.state.is_lost(),
        }
    }
}

debug_fields!(
    [D: DeviceMemory, P, E] DeviceContext<D, P, E>, "DeviceContext",
    |this| id = this.id.0, handles = this.handles, device = this.device_share.state
);

/// What a release freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReleaseReport {
    /// Compiled shaders that were destroyed.
    pub shaders: u64,
    /// Referenced shaders, which are destroyed with their last reference.
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
#[non_exhaustive]
pub struct ForcedRelease {
    /// What was freed.
    pub released: ReleaseReport,
    /// What was in use.
    pub outstanding: ContextOutstanding,
}

/// Counts of what prevents a release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextOutstanding {
    /// What is left in its allocator.
    pub allocator: OutstandingRegions,
    /// Shaders that are referenced or being compiled.
    pub shaders: u64,
}

/// Something that prevents a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseBlocker {
    /// A region of the context's memory, a wrapped buffer or a crop.
    Region(RegionId, Ownership),
    /// A referenced shader.
    Shader(ShaderKey),
}

const BATCH: usize = 16;

impl fmt::Display for ContextOutstanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [regions, wrapped, crops] = self.allocator.named();
        let what = [regions, wrapped, crops, (self.shaders, "shader")];
        write_in_use(f, &what, "the context", "release the context by force")
    }
}

impl core::error::Error for ContextOutstanding {}

impl<D: DeviceMemory, P, E> DeviceContext<D, P, E> {
    /// All that prevents [`release`](Self::release), but for shaders that are being compiled. Allocates nothing.
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
            Some(ReleaseBlocker::Region(id, ownership))
        });
        regions.chain(self.shaders().held_keys().map(ReleaseBlocker::Shader))
    }
}
