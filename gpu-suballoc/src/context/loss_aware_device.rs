//! A device wrapper that makes no call after device loss.

use core::num::NonZeroU64;
use core::ptr::NonNull;

use super::contexts::DeviceState;
use crate::device::{
    BufferHandle, BufferInfo, DeviceError, DeviceMemory, DeviceProperties, HeapBudget, ImageHandle,
    ImageInfo, MappedRange, MemoryHandle, MemoryRequest, ResourceRequirements,
    forward_device_memory,
};

/// The device of a context: its memory, and what else the context calls.
pub trait ContextDevice: Send + Sync {
    /// The device's memory.
    type Memory: DeviceMemory;

    /// The device's memory, the same at every call.
    fn memory(&self) -> &Self::Memory;
}

impl<D: DeviceMemory> ContextDevice for D {
    type Memory = D;

    fn memory(&self) -> &D {
        self
    }
}

/// A device whose driver is not called after the device was [reported lost](super::DeviceContext::device_lost): allocating and creating
/// are [`DeviceError::DeviceLost`] then, and freeing and destroying do nothing.
pub struct LossAwareDevice<D: ContextDevice> {
    device: D,
    state: DeviceState,
}

impl<D: ContextDevice> LossAwareDevice<D> {
    pub(super) const fn new(device: D, state: DeviceState) -> Self {
        Self { device, state }
    }

    /// The device.
    #[must_use]
    pub const fn device(&self) -> &D {
        &self.device
    }

    fn live_memory(&self) -> Option<&D::Memory> {
        (!self.state.is_lost()).then(|| self.device.memory())
    }
}

forward_device_memory!([D: ContextDevice] LossAwareDevice<D>, self => self.device.memory(), self.live_memory());
