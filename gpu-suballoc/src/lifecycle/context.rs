//! A context: what the application's device is used through, until it is released.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use alloc_core::Handle;

use super::contexts::{Contexts, DeviceState, Seat};
use super::dispatch::Dispatch;
use super::error::ContextError;
use super::handles::ContextHandles;
use super::release::{ContextOutstanding, ForcedRelease, ReleaseRefused, Released};
use super::turns::Turns;
use super::until_lost::{ContextDevice, UntilLost};
use crate::allocator::GpuAllocator;
use crate::cache::{CacheOwner, Removed};

/// The allocator of a context.
pub type ContextAllocator<D> = GpuAllocator<UntilLost<D>, Handle>;

/// A number that no other context of the process has or had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnedContextId(u64);

impl OwnedContextId {
    fn fresh() -> Self {
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
/// Acquired by [`Contexts::acquire`]. It must be [released](Self::release), or dropped, before the application destroys the device, or the
/// device be said to be [lost](Self::device_lost) first. Nothing of the application's is ever destroyed: neither instance nor device, nor
/// queue, and none is waited for. Dropping it releases the same things in the same order; what is still in use then stays with the driver.
pub struct OwnedContext<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> {
    // In the order in which they go: shader modules, then regions and blocks, then the place on the device.
    owner: CacheOwner<P, E>,
    gpu: ContextAllocator<D>,
    seat: Seat<P, E>,
    lock: Turns,
    handles: ContextHandles,
    id: OwnedContextId,
}

impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> OwnedContext<D, P, E> {
    pub(super) fn new(handles: ContextHandles, owner: CacheOwner<P, E>, gpu: ContextAllocator<D>, seat: Seat<P, E>) -> Self {
        Self { owner, gpu, seat, lock: Turns::new(), handles, id: OwnedContextId::fresh() }
    }

    /// The same context, asked for again: says whether these are its handles. Loads nothing, takes nothing.
    ///
    /// # Errors
    /// [`ContextError::NullHandle`], [`ContextError::OtherHandle`]; the context is as it was.
    pub fn acquire_again(&self, handles: ContextHandles) -> Result<(), ContextError> {
        self.handles.check_same(handles)
    }

    /// Its number.
    #[must_use]
    pub const fn id(&self) -> OwnedContextId {
        self.id
    }

    /// What it was acquired with.
    #[must_use]
    pub const fn handles(&self) -> ContextHandles {
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
        &self.seat.state
    }

    /// The home that it was acquired from.
    #[must_use]
    pub const fn contexts(&self) -> &Contexts<P, E> {
        self.seat.contexts()
    }

    /// The context for one dispatch at a time: waits until the one before is over. Locks, and does nothing else.
    pub fn dispatch(&self) -> Dispatch<'_, D, P, E> {
        Dispatch::new(self, &self.lock)
    }

    /// Says that the device is lost (`VK_ERROR_DEVICE_LOST`), or that the application is about to destroy it: no call of a context of it that
    /// begins from now on reaches its driver, and what they are asked for is [`DeviceError::DeviceLost`](crate::DeviceError::DeviceLost). It
    /// does not wait for calls that other threads are in: before it destroys the device the application does. Release them then: only
    /// host memory is given back. Nobody else joins the device; its handle's value is another device from now on.
    pub fn device_lost(&self) {
        self.seat.lose();
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
    #[expect(clippy::result_large_err, reason = "the context is given back, as large as it is")]
    pub fn release(self) -> Result<Released, ReleaseRefused<Self>> {
        let mut context = self;
        if context.seat.state.is_lost() {
            return Ok(context.end().released);
        }
        let outstanding = context.outstanding();
        if outstanding.is_any() {
            return Err(ReleaseRefused { value: context, outstanding });
        }
        let Self { owner, gpu, seat, lock, handles, id } = context;
        match owner.release_unused() {
            Ok(shaders) => Ok(end_of(gpu, seat, shaders)),
            Err((owner, shaders)) => Err(ReleaseRefused {
                value: Self { owner, gpu, seat, lock, handles, id },
                outstanding: ContextOutstanding { shaders, ..outstanding },
            }),
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
        ContextOutstanding { regions: left.regions, wrapped: left.wrapped, crops: left.crops, shaders: self.owner.in_use() }
    }

    fn end(self) -> ForcedRelease {
        let mut context = self;
        let outstanding = context.outstanding();
        let Self { owner, gpu, seat, .. } = context;
        let shaders = owner.release();
        ForcedRelease { released: end_of(gpu, seat, shaders), outstanding }
    }
}

/// What is left of a context when its shaders went: memory, then the place on the device.
fn end_of<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync>(
    gpu: ContextAllocator<D>,
    seat: Seat<P, E>,
    shaders: Removed,
) -> Released {
    let stats = gpu.stats();
    let lost = seat.state.is_lost();
    if lost {
        gpu.abandon();
    } else {
        gpu.close_by_force();
    }
    drop(seat);
    Released {
        shaders: shaders.destroyed,
        held: shaders.held,
        blocks: stats.total.blocks,
        block_bytes: stats.total.block_bytes,
        host_bytes: stats.host_bytes,
        lost,
    }
}

impl<D: ContextDevice, P: Send + Sync, E: Copy + Send + Sync> fmt::Debug for OwnedContext<D, P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("OwnedContext");
        all.field("id", &self.id.0).field("handles", &self.handles).field("device", &self.seat.state).finish_non_exhaustive()
    }
}
