//! A context: what the application's device is used through, until it is released.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use alloc_core::{ContextHandle, Rejected};

use super::contexts::{DeviceContexts, DeviceShare, DeviceState};
use super::dispatch_lock::DispatchLock;
use super::error::ContextError;
use super::handles::VulkanHandles;
use super::loss_aware_device::{ContextDevice, LossAwareDevice};
use super::release::{ContextOutstanding, ForcedRelease, ReleaseReport};
use crate::allocator::GpuAllocator;
use crate::cache::{CacheOwner, RemovalCounts};
use crate::threads;

/// The allocator of a context.
pub type ContextAllocator<D> = GpuAllocator<LossAwareDevice<D>, ContextHandle>;

/// A number that no other context of the process has or had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceContextId(u64);

impl DeviceContextId {
    fn new_unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Relaxed))
    }

    /// The number, never 0: for C.
    #[must_use]
    pub const fn as_raw(self) -> u64 {
        self.0
    }

    /// From C. Whether there is such a context its table knows.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

/// An allocator and a share of the shader cache, on a device that the application owns.
///
/// Acquired by [`DeviceContexts::acquire`]. It must be [released](Self::release), or dropped, before the application destroys the device, or the
/// device be said to be [lost](Self::device_lost) first. Nothing of the application's is ever destroyed: neither instance nor device, nor
/// queue, and none is waited for. Dropping it releases the same things in the same order; what is still in use then stays with the driver.
pub struct DeviceContext<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> {
    // In the order in which they go: shader modules, then regions and blocks, then the place on the device.
    owner: CacheOwner<P, E>,
    gpu: ContextAllocator<D>,
    device_share: DeviceShare<P, E>,
    lock: DispatchLock,
    handles: VulkanHandles,
    id: DeviceContextId,
}

impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> DeviceContext<D, P, E> {
    pub(super) fn new(
        handles: VulkanHandles,
        owner: CacheOwner<P, E>,
        gpu: ContextAllocator<D>,
        device_share: DeviceShare<P, E>,
    ) -> Self {
        Self {
            owner,
            gpu,
            device_share,
            lock: DispatchLock::new(),
            handles,
            id: DeviceContextId::new_unique(),
        }
    }

    /// The same context, asked for again: says whether these are its handles. Loads nothing, takes nothing.
    ///
    /// # Errors
    /// [`ContextError::NullHandle`], [`ContextError::OtherHandle`]; the context is as it was.
    pub fn acquire_again(&self, handles: VulkanHandles) -> Result<(), ContextError> {
        self.handles.check_same(handles)
    }

    /// Its number.
    #[must_use]
    pub const fn id(&self) -> DeviceContextId {
        self.id
    }

    /// What it was acquired with.
    #[must_use]
    pub const fn handles(&self) -> VulkanHandles {
        self.handles
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

    /// What it knows of its device, with the device's other contexts.
    #[must_use]
    pub const fn device_state(&self) -> &DeviceState {
        &self.device_share.state
    }

    /// The home that it was acquired from.
    #[must_use]
    pub const fn contexts(&self) -> &DeviceContexts<P, E> {
        self.device_share.contexts()
    }

    /// Runs one dispatch at a time: waits until the one before is over. Locks, and does nothing else; the turn ends when `run` returns or
    /// unwinds, and cannot be forgotten.
    ///
    /// Threads that wait for one another's contexts in turn wait for ever, as with any lock: dispatch on several in one order.
    ///
    /// # Errors
    /// [`ContextError::NestedDispatch`] within a dispatch of this context on the same thread, which would wait for itself; `run` is not
    /// called then. Without feature `std` threads cannot be told apart, and it does.
    pub fn dispatch<R>(&self, run: impl FnOnce(&Self) -> R) -> Result<R, ContextError> {
        let _turn = self
            .lock
            .enter(threads::number())
            .ok_or(ContextError::NestedDispatch)?;
        Ok(run(self))
    }

    /// Says that the device is lost (`VK_ERROR_DEVICE_LOST`), or that the application is about to destroy it: no call of a context of it that
    /// begins from now on reaches its driver, and what they are asked for is [`DeviceError::DeviceLost`](crate::device::DeviceError::DeviceLost). It
    /// does not wait for calls that other threads are in: before it destroys the device the application does. Release them then: only
    /// host memory is given back. Nobody else joins the device; its handle's value is another device from now on.
    pub fn device_lost(&self) {
        self.device_share.lose();
        self.contexts().cache().release_device(self.owner.device());
    }

    /// Gives everything back: shader modules of this owner, then regions and blocks, then the books. Waits for nothing: the device must be
    /// done with what is released.
    ///
    /// After the device was lost no driver call is made, and nothing is refused.
    ///
    /// Nobody comes in between: the context is the caller's alone, so what is looked for and not found is not made meanwhile; and a thread
    /// that asks another context of the device for one of its shaders just then waits, and holds it, which refuses the release, or finds
    /// it gone. Nothing of the context's is left when this returns.
    ///
    /// # Errors
    /// The context, as it was but for kept buffers and empty blocks, while regions, wrapped buffers, crops or held shaders of it are left, or
    /// one is being compiled for it.
    #[expect(
        clippy::result_large_err,
        reason = "the context is given back, as large as it is"
    )]
    pub fn release(self) -> Result<ReleaseReport, Rejected<Self, ContextOutstanding>> {
        let mut context = self;
        if context.device_share.state.is_lost() {
            return Ok(context.end().released);
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

    /// As [`release`](Self::release), whatever is left: held shaders are found by nobody and go with their last hold, which must be before
    /// the device goes; regions go with their buffers, images and memory, and their ids mean nothing from then on.
    pub fn release_forced(self) -> ForcedRelease {
        self.end()
    }

    /// What is in the way of a release, now. Gives kept buffers back.
    pub(super) fn outstanding(&mut self) -> ContextOutstanding {
        let left = self.gpu.outstanding();
        ContextOutstanding {
            regions: left.regions,
            wrapped: left.wrapped,
            crops: left.crops,
            shaders: self.owner.in_use(),
        }
    }

    fn end(self) -> ForcedRelease {
        let mut context = self;
        let outstanding = context.outstanding();
        let shaders = context.owner.release();
        ForcedRelease {
            released: release_parts(context.gpu, context.device_share, shaders),
            outstanding,
        }
    }
}

/// What is left of a context when its shaders went: memory, then the place on the device.
fn release_parts<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync>(
    gpu: ContextAllocator<D>,
    device_share: DeviceShare<P, E>,
    shaders: RemovalCounts,
) -> ReleaseReport {
    let stats = gpu.stats();
    let lost = device_share.state.is_lost();
    if lost {
        gpu.abandon();
    } else {
        gpu.close_by_force();
    }
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
