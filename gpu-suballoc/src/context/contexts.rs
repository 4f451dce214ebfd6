//! The home of contexts: the cache that they share, and which of them are on one device.

use core::fmt;
use core::sync::atomic::AtomicBool;

use alloc_core::{ContextHandle, HostError};

use super::device_context::DeviceContext;
use super::error::ContextError;
use super::handles::VulkanHandles;
use super::loss_aware_device::{ContextDevice, LossAwareDevice};
use super::shared_box::SharedBox;
use crate::allocator::{AllocatorOptions, GpuAllocator};
use crate::cache::{CacheDevice, CacheLimits, ShaderCache};
use crate::group::MAX_DEVICES;
use crate::sync::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, StateMutex};

/// The contexts of an application's devices, with the shader cache that they share.
///
/// DeviceContexts that are acquired with one `VkDevice` share its compiled shaders; each keeps, and takes along, what it compiled. A device is
/// known by a number that is drawn when its first context is acquired and is never drawn again: the same handle's value, after all its
/// contexts went or it was [lost](DeviceContext::device_lost), is another device.
///
/// At most 64 devices have contexts at once, any number each; one more is [`ContextError::TooManyDevices`].
///
/// A value is a handle: clones lead to one home, which goes with the last of them and the last context. No global state: two homes know
/// nothing of one another. Usable from all threads at once.
pub struct DeviceContexts<P: Send + Sync, E: Copy + Send + Sync> {
    inner: SharedBox<ContextsInner<P, E>>,
}

struct ContextsInner<P: Send + Sync, E: Copy + Send + Sync> {
    cache: ShaderCache<P, E>,
    devices: StateMutex<[Option<SharedBox<SharedDevice>>; MAX_DEVICES]>,
    memory: ContextHandle,
}

/// A device with contexts.
struct SharedDevice {
    handles: VulkanHandles,
    number: CacheDevice,
    is_lost: AtomicBool,
    /// Contexts on it; changed under the home's lock.
    contexts: AtomicU32,
}

/// What all contexts of a device know of it: its number, and whether it is lost.
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

    /// True once it was said to be lost: its driver is not called any more.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.device.is_lost.load(Acquire)
    }
}

/// A context's place on its device, until dropped.
pub(super) struct DeviceShare<P: Send + Sync, E: Copy + Send + Sync> {
    contexts: DeviceContexts<P, E>,
    pub(super) state: DeviceState,
}

impl<P: Send + Sync, E: Copy + Send + Sync> DeviceContexts<P, E> {
    /// A home without contexts; its own memory, and the cache's, is the context's.
    ///
    /// # Errors
    /// The context's refusal.
    pub fn new(memory: ContextHandle, limits: CacheLimits) -> Result<Self, HostError> {
        let cache = ShaderCache::new(memory.clone(), limits)?;
        let home = ContextsInner {
            cache,
            devices: StateMutex::new([const { None }; MAX_DEVICES]),
            memory: memory.clone(),
        };
        Ok(Self {
            inner: SharedBox::new(home, memory)?,
        })
    }

    /// The cache that its contexts share.
    #[must_use]
    pub fn cache(&self) -> &ShaderCache<P, E> {
        &self.inner.cache
    }

    /// Acquires a context on a device of the application: an allocator, and an owner in the shared cache, with books in `memory`.
    ///
    /// `load` gets hold of the device's driver: it runs once, here and never again. It is told the device's state, so that what it makes
    /// can stop calling a lost device.
    ///
    /// # Errors
    /// [`ContextError::NullHandle`]; [`ContextError::OtherHandle`] where the device is known, and of another instance or physical device;
    /// what `load`, the allocator, or `memory` refuse. Nothing was made then.
    ///
    /// # Safety
    /// - The handles are live, of one another, and outlive the context and what is held of its shaders, or the device is said to be
    ///   [lost](DeviceContext::device_lost) first, and no call of a context of it that began before is under way when it goes.
    /// - What `load` answers is that device, and its [`memory`](ContextDevice::memory) is the same at every call.
    /// - As [`GpuAllocator::new`].
    pub unsafe fn acquire<D: ContextDevice>(
        &self,
        handles: VulkanHandles,
        memory: ContextHandle,
        options: AllocatorOptions,
        load: impl FnOnce(&DeviceState) -> Result<D, ContextError>,
    ) -> Result<DeviceContext<D, P, E>, ContextError> {
        handles.check()?;
        let share = self.join_device(handles)?;
        let device = LossAwareDevice::new(load(&share.state)?, share.state.clone());
        // SAFETY: the caller's promise.
        let gpu = unsafe { GpuAllocator::new(device, memory.clone(), options) }
            .map_err(|refused| refused.error)?;
        let owner = self.inner.cache.owner(share.state.cache_device(), memory)?;
        Ok(DeviceContext::new(handles, owner, gpu, share))
    }

    /// How many contexts there are on a device that is not lost; 0 where it is not known.
    #[must_use]
    pub fn contexts_on(&self, device: u64) -> u32 {
        let devices = self.inner.devices.lock();
        find_device(&*devices, device).map_or(0, |there| there.contexts.load(Relaxed))
    }

    /// Joins the device if it is known; otherwise it is from now on.
    fn join_device(&self, handles: VulkanHandles) -> Result<DeviceShare<P, E>, ContextError> {
        let fresh = SharedDevice {
            handles,
            number: CacheDevice::new_unique(),
            is_lost: AtomicBool::new(false),
            contexts: AtomicU32::new(0),
        };
        // Made before, so that nothing is asked for under the lock; where the device is known it goes again, after the lock.
        let fresh = SharedBox::new(fresh, self.inner.memory.clone())?;
        let mut devices = self.inner.devices.lock();
        let joined = match find_device(&*devices, handles.device) {
            Some(there) => there.handles.check_same(handles).map(|()| there.clone()),
            None => match devices.iter_mut().find(|place| place.is_none()) {
                Some(place) => {
                    *place = Some(fresh.clone());
                    Ok(fresh.clone())
                }
                None => Err(ContextError::TooManyDevices),
            },
        };
        if let Ok(device) = &joined {
            device
                .contexts
                .store(device.contexts.load(Relaxed).wrapping_add(1), Relaxed);
        }
        drop(devices);
        Ok(DeviceShare {
            contexts: self.clone(),
            state: DeviceState { device: joined? },
        })
    }
}

/// The device that is not lost, of this handle.
fn find_device(
    devices: &[Option<SharedBox<SharedDevice>>],
    device: u64,
) -> Option<&SharedBox<SharedDevice>> {
    devices
        .iter()
        .flatten()
        .find(|there| there.handles.device == device && !there.is_lost.load(Acquire))
}

impl<P: Send + Sync, E: Copy + Send + Sync> DeviceShare<P, E> {
    /// The device is lost, or about to be destroyed: nobody calls its driver, nobody joins it.
    pub(super) fn lose(&self) {
        self.state.device.is_lost.store(true, Release);
    }

    pub(super) const fn contexts(&self) -> &DeviceContexts<P, E> {
        &self.contexts
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Drop for DeviceShare<P, E> {
    fn drop(&mut self) {
        let mine: &SharedDevice = &self.state.device;
        let mut devices = self.contexts.inner.devices.lock();
        let left = mine.contexts.load(Relaxed).wrapping_sub(1);
        mine.contexts.store(left, Relaxed);
        let gone = match devices.iter_mut().find(|place| {
            place
                .as_ref()
                .is_some_and(|there| core::ptr::eq(&**there, mine))
        }) {
            Some(place) if left == 0 => place.take(),
            _ => None,
        };
        drop(devices);
        drop(gone);
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> Clone for DeviceContexts<P, E> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<P: Send + Sync, E: Copy + Send + Sync> fmt::Debug for DeviceContexts<P, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceContexts")
            .field("cache", self.cache())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for DeviceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceState")
            .field("device", &self.cache_device())
            .field("lost", &self.is_lost())
            .finish()
    }
}
