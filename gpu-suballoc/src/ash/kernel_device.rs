//! The device that creates and destroys compiled kernels: the context's functions and callbacks, shared with each kernel.

use alloc_core::{ContextHandle, TryVec};
use ash::vk;

use super::kernel::{KernelError, KernelStep};
use super::layout::{check, new_handle, pointer_to};
use crate::context::DeviceState;
use crate::device::DeviceError;
use crate::error::GpuError;
use crate::shared_box::SharedBox;

/// A reference; the context has one, and so has each kernel that was compiled with it.
#[derive(Clone)]
pub(super) struct KernelDevice {
    inner: SharedBox<KernelDeviceInner>,
}

struct KernelDeviceInner {
    device: vk::Device,
    commands: ash::DeviceFnV1_0,
    callbacks: Option<vk::AllocationCallbacks<'static>>,
    cache: vk::PipelineCache,
    state: DeviceState,
    memory: ContextHandle,
}

// SAFETY: any thread may use handles and functions, and Vulkan calls the application's callbacks on any thread.
unsafe impl Send for KernelDeviceInner {}
// SAFETY: as above; the driver synchronises a `VkPipelineCache` that was not created as externally synchronised.
unsafe impl Sync for KernelDeviceInner {}

/// `vkCreate*` of an object `V`.
type Create<I, V> = unsafe extern "system" fn(
    vk::Device,
    *const I,
    *const vk::AllocationCallbacks<'_>,
    *mut V,
) -> vk::Result;
/// `vkDestroy*` of an object `V`.
type Destroy<V> = unsafe extern "system" fn(vk::Device, V, *const vk::AllocationCallbacks<'_>);

fn refused(step: KernelStep, error: impl Into<GpuError>) -> KernelError {
    let error = error.into();
    KernelError { step, error }
}

fn check_created<V: vk::Handle + Copy>(
    step: KernelStep,
    result: vk::Result,
    handle: V,
) -> Result<V, KernelError> {
    new_handle(result, handle, |raw| (raw != 0).then_some(handle))
        .map_err(|error| refused(step, error))
}

impl KernelDevice {
    /// A device with a pipeline cache that begins with `data`.
    ///
    /// # Safety
    /// `device` is live, `table` is its table; the device and valid callbacks outlive the value, or the device is lost first. `data` is empty
    /// or the data of a pipeline cache of such a device.
    pub(super) unsafe fn new(
        table: &ash::DeviceFnV1_0,
        device: vk::Device,
        callbacks: Option<vk::AllocationCallbacks<'static>>,
        data: &[u8],
        state: DeviceState,
        memory: ContextHandle,
    ) -> Result<Self, GpuError> {
        let mut cache = vk::PipelineCache::null();
        let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        let allocator = pointer_to(callbacks.as_ref());
        // SAFETY: the caller's promise.
        let result = unsafe {
            (table.create_pipeline_cache)(device, &raw const info, allocator, &raw mut cache)
        };
        let cache = check_created(KernelStep::PipelineCache, result, cache)
            .map_err(|refused| refused.error)?;
        let inner = KernelDeviceInner {
            device,
            commands: table.clone(),
            callbacks,
            cache,
            state,
            memory: memory.clone(),
        };
        // If the memory is refused, `inner` is dropped and destroys the cache.
        Ok(Self {
            inner: SharedBox::new(inner, memory)?,
        })
    }

    pub(super) fn memory(&self) -> &ContextHandle {
        &self.inner.memory
    }

    fn live_inner(&self, step: KernelStep) -> Result<&KernelDeviceInner, KernelError> {
        if self.inner.state.is_lost() {
            return Err(refused(step, DeviceError::DeviceLost));
        }
        Ok(&self.inner)
    }

    /// # Safety
    /// The info is valid for the device.
    pub(super) unsafe fn create<I, V: vk::Handle + Default + Copy>(
        &self,
        step: KernelStep,
        command: impl FnOnce(&ash::DeviceFnV1_0) -> Create<I, V>,
        info: &I,
    ) -> Result<V, KernelError> {
        let inner = self.live_inner(step)?;
        let mut handle = V::default();
        let create = command(&inner.commands);
        // SAFETY: the caller's promise; the device is live, by the promise of `new`.
        let result = unsafe { create(inner.device, info, inner.callbacks(), &raw mut handle) };
        check_created(step, result, handle)
    }

    /// # Safety
    /// The info is valid for the device.
    pub(super) unsafe fn pipeline(
        &self,
        info: &vk::ComputePipelineCreateInfo<'_>,
    ) -> Result<vk::Pipeline, KernelError> {
        let inner = self.live_inner(KernelStep::Pipeline)?;
        let mut pipeline = vk::Pipeline::null();
        let create = inner.commands.create_compute_pipelines;
        // SAFETY: the caller's promise; the device is live, by the promise of `new`, and the cache is its.
        let result = unsafe {
            create(
                inner.device,
                inner.cache,
                1,
                info,
                inner.callbacks(),
                &raw mut pipeline,
            )
        };
        let answer = check_created(KernelStep::Pipeline, result, pipeline);
        if answer.is_err() {
            // The command may have created it and failed.
            self.destroy(pipeline, |commands| commands.destroy_pipeline);
        }
        answer
    }

    /// Destroys an object that the caller alone owns. Does nothing for a null handle, and after the loss of the device.
    pub(super) fn destroy<V: vk::Handle + Copy>(
        &self,
        handle: V,
        command: impl FnOnce(&ash::DeviceFnV1_0) -> Destroy<V>,
    ) {
        if handle.as_raw() != 0 && !self.inner.state.is_lost() {
            let inner = &*self.inner;
            let destroy = command(&inner.commands);
            // SAFETY: created by this device with these callbacks, destroyed once, by its only owner; the user is done with it.
            unsafe { destroy(inner.device, handle, inner.callbacks()) }
        }
    }

    /// Appends the data of the pipeline cache.
    pub(super) fn cache_data(
        &self,
        data: &mut TryVec<u8, ContextHandle>,
    ) -> Result<(), KernelError> {
        let step = KernelStep::PipelineCache;
        let inner = self.live_inner(step)?;
        let get = inner.commands.get_pipeline_cache_data;
        loop {
            let mut size = 0;
            let (device, cache, none) = (inner.device, inner.cache, core::ptr::null_mut());
            // SAFETY: device and cache are live; without memory the command writes the size alone.
            check(unsafe { get(device, cache, &raw mut size, none) })
                .map_err(|error| refused(step, error))?;
            let before = data.len();
            data.try_resize(before.saturating_add(size), 0)
                .map_err(|error| refused(step, error))?;
            let room = data.get_mut(before..).unwrap_or_default();
            // SAFETY: `room` has `size` bytes.
            let result = unsafe { get(device, cache, &raw mut size, room.as_mut_ptr().cast()) };
            if result == vk::Result::SUCCESS {
                data.truncate(before.saturating_add(size));
                return Ok(());
            }
            data.truncate(before);
            // After `INCOMPLETE` another thread compiled meanwhile: what was written is a cache, but not all of it.
            if result != vk::Result::INCOMPLETE {
                return Err(refused(step, DeviceError::from_raw(result.as_raw())));
            }
        }
    }
}

impl KernelDeviceInner {
    /// `pAllocator`: the copy lies in this value, which does not move.
    fn callbacks(&self) -> *const vk::AllocationCallbacks<'static> {
        pointer_to(self.callbacks.as_ref())
    }
}

impl Drop for KernelDeviceInner {
    fn drop(&mut self) {
        if !self.state.is_lost() {
            // SAFETY: created by this device with these callbacks; only this value has the handle.
            unsafe {
                (self.commands.destroy_pipeline_cache)(self.device, self.cache, self.callbacks())
            }
        }
    }
}
