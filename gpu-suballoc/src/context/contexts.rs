use super::device_context::{DeviceContext, DeviceContextId};
use super::dispatch_lock::DispatchLock;
use super::error::{ContextError, VulkanHandles};
use crate::allocator::{AllocatorOptions, GpuAllocator};
use crate::cache::{CacheDevice, CacheLimits, ShaderCache};
use crate::device::{DeviceMemory, forward_device_memory};
use crate::flags::debug_fields;
use crate::group::MAX_DEVICES;
use crate::shared_box::SharedBox;
use crate::sync::Ordering::{Acquire, Release};
use crate::sync::StateMutex;
use alloc_core::{ContextHandle, HostError};
use core::fmt;
use core::sync::atomic::AtomicBool;

/// The contexts of an application's devices, with the shader cache that they share.
///
/// After the last context of a device was released, or after the device was [lost](DeviceContext::device_lost), a
/// device of the same handle is another device.
///
/// At most 64 devices have contexts at once.
///
/// Clones share the state.
pub struct DeviceContexts<P, E> {
    inner: SharedBox<ContextsInner<P, E>>,
}

struct ContextsInner<P, E> {
    cache: ShaderCache<P, E>,
    devices: StateMutex<[Option<DeviceEntry>; MAX_DEVICES]>,
    memory: ContextHandle,
}

struct DeviceEntry {
    device: SharedBox<SharedDevice>,
    contexts: u32,
}

struct SharedDevice {
    handles: VulkanHandles,
    number: CacheDevice,
    is_lost: AtomicBool,
}

/// A device's number, and whether it is lost; shared by its contexts.
#[derive(Clone)]
pub struct DeviceState {
    device: SharedBox<SharedDevice>,
}

impl DeviceState {
    /// The device's number in the cache.
    #[must_use]
    pub fn cache_device(&self) -> CacheDevice {
        self.device.number
    }

    /// True after it was [reported lost](DeviceContext::device_lost): its driver is not called any more.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.device.is_lost.load(Acquire)
    }

    pub(super) fn lose(&self) {
        self.device.is_lost.store(true, Release);
    }
}

pub(super) struct DeviceShare<P, E> {
    pub(super) contexts: DeviceContexts<P, E>,
    pub(super) state: DeviceState,
}

impl<P, E> DeviceContexts<P, E> {
    /// Creates a value without contexts; `memory` is its own memory and the cache's.
    ///
    /// # Errors
    /// The refusal of `memory`.
    pub fn new(memory: ContextHandle, limits: CacheLimits) -> Result<Self, HostError> {
        let cache = ShaderCache::new(memory.clone(), limits)?;
        let home =
            ContextsInner { cache, devices: StateMutex::new([const { None }; MAX_DEVICES]), memory: memory.clone() };
        Ok(Self { inner: SharedBox::new(home, memory)? })
    }

    /// The shared cache.
    #[must_use]
    pub fn cache(&self) -> &ShaderCache<P, E> {
        &self.inner.cache
    }

    /// Acquires a context on a device of the application: an allocator, and an owner in the shared cache, with
    /// bookkeeping in `memory`.
    ///
    /// `load` opens the device's driver, once. Its result can stop calling a lost device by the device's state.
    ///
    /// # Errors
    /// [`ContextError::NullHandle`]; [`ContextError::OtherHandle`] for a device that has contexts with another instance
    /// or physical device; refusals of `load`, the allocator, or `memory`.
    ///
    /// # Safety
    /// - The handles are live and belong to each other. They outlive the context and all references to its shaders, or
    ///   the device is reported [lost](DeviceContext::device_lost) first, and destroyed after all calls that began
    ///   before have returned.
    /// - `load` returns that device.
    /// - As [`GpuAllocator::new`].
    pub unsafe fn acquire<D: DeviceMemory>(
        &self,
        handles: VulkanHandles,
        memory: ContextHandle,
        options: AllocatorOptions,
        load: impl FnOnce(&DeviceState) -> Result<D, ContextError>,
    ) -> Result<DeviceContext<D, P, E>, ContextError> {
        handles.check()?;
        let share = self.join_device(handles)?;
        let device = LossAwareDevice::new(load(&share.state)?, share.state.clone());
        // SAFETY: `acquire` demands what `GpuAllocator::new` does.
        let gpu = unsafe { GpuAllocator::new(device, memory.clone(), options) }.map_err(|refused| refused.error)?;
        let owner = self.inner.cache.owner(share.state.cache_device(), memory)?;
        Ok(DeviceContext {
            owner,
            gpu,
            device_share: share,
            lock: DispatchLock::new(),
            handles,
            id: DeviceContextId::new_unique(),
        })
    }

    fn join_device(&self, handles: VulkanHandles) -> Result<DeviceShare<P, E>, ContextError> {
        let fresh = SharedDevice { handles, number: CacheDevice::new_unique(), is_lost: AtomicBool::new(false) };
        // If the device exists, this is freed after the lock is released.
        let fresh = SharedBox::new(fresh, self.inner.memory.clone())?;
        let mut devices = self.inner.devices.lock();
        let joined = match find_device(&mut *devices, handles.device) {
            Some(there) => there.device.handles.check_same(handles).map(|()| {
                there.contexts += 1;
                there.device.clone()
            }),
            None => match devices.iter_mut().find(|place| place.is_none()) {
                Some(place) => {
                    *place = Some(DeviceEntry { device: fresh.clone(), contexts: 1 });
                    Ok(fresh.clone())
                }
                None => Err(ContextError::TooManyDevices),
            },
        };
        drop(devices);
        Ok(DeviceShare { contexts: self.clone(), state: DeviceState { device: joined? } })
    }
}

fn find_device(devices: &mut [Option<DeviceEntry>], device: u64) -> Option<&mut DeviceEntry> {
    devices
        .iter_mut()
        .flatten()
        .find(|there| there.device.handles.device == device && !there.device.is_lost.load(Acquire))
}

impl<P, E> Drop for DeviceShare<P, E> {
    fn drop(&mut self) {
        let mine: &SharedDevice = &self.state.device;
        let mut devices = self.contexts.inner.devices.lock();
        let mut place =
            devices.iter_mut().find(|place| matches!(place, Some(there) if core::ptr::eq(&*there.device, mine)));
        let gone = place.as_mut().and_then(|place| {
            place.take_if(|there| {
                there.contexts -= 1;
                there.contexts == 0
            })
        });
        drop(devices);
        drop(gone);
    }
}

impl<P, E> Clone for DeviceContexts<P, E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

debug_fields!([P, E] DeviceContexts<P, E>, "DeviceContexts", |this| cache = *this.cache());

impl fmt::Debug for DeviceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceState").field("device", &self.cache_device()).field("lost", &self.is_lost()).finish()
    }
}

/// A device whose driver is not called after it was [reported lost](super::DeviceContext::device_lost): allocating and
/// creating are [`DeviceError::DeviceLost`](crate::device::DeviceError::DeviceLost) then.
pub struct LossAwareDevice<D: DeviceMemory> {
    device: D,
    state: DeviceState,
}

debug_fields!([D: DeviceMemory] LossAwareDevice<D>, "LossAwareDevice", |this| state = this.state);

impl<D: DeviceMemory> LossAwareDevice<D> {
    pub(super) const fn new(device: D, state: DeviceState) -> Self {
        Self { device, state }
    }

    /// The device.
    #[must_use]
    pub const fn device(&self) -> &D {
        &self.device
    }

    fn live(&self) -> Option<&D> {
        (!self.state.is_lost()).then_some(&self.device)
    }
}

forward_device_memory!([D: DeviceMemory] LossAwareDevice<D>, self => self.device, self.live());
