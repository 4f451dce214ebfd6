//! The device of a context: its memory, and what creates and destroys its kernels; shared with each kernel.

use alloc_core::{ContextHandle, TryVec};
use ash::vk;

use super::AshDevice;
use super::kernel::{KernelError, KernelStep};
use super::layout::{check, new_handle};
use crate::context::{ContextDevice, DeviceState};
use crate::device::DeviceError;
use crate::error::GpuError;
use crate::shared_box::SharedBox;

/// The commands of one context, loaded when it was acquired.
pub struct LoadedDevice {
    /// The context has a reference, and so has each kernel that was compiled with it.
    inner: SharedBox<LoadedInner>,
}

struct LoadedInner {
    ash: AshDevice,
    cache: vk::PipelineCache,
    state: DeviceState,
    memory: ContextHandle,
}

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

fn not_null<V: vk::Handle>(raw: u64) -> Option<V> {
    (raw != 0).then(|| V::from_raw(raw))
}

impl ContextDevice for LoadedDevice {
    type Memory = AshDevice;

    fn memory(&self) -> &AshDevice {
        &self.inner.ash
    }
}

impl LoadedDevice {
    /// A device with a pipeline cache that begins with `data`.
    ///
    /// # Safety
    /// The device of `ash` and valid callbacks outlive the value, or the device is lost first. `data` is empty or the data of a pipeline
    /// cache of such a device.
    pub(super) unsafe fn new(
        ash: AshDevice,
        data: &[u8],
        state: DeviceState,
        memory: ContextHandle,
    ) -> Result<Self, GpuError> {
        let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        // SAFETY: the caller's promise.
        let cache = unsafe { ash.create(ash.core().create_pipeline_cache, &info, not_null) }?;
        let inner = LoadedInner {
            ash,
            cache,
            state,
            memory: memory.clone(),
        };
        // If the memory is refused, `inner` is dropped and destroys the cache.
        Ok(Self {
            inner: SharedBox::new(inner, memory)?,
        })
    }

    pub(super) fn share(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }

    /// The commands of Vulkan 1.0 of this device's driver.
    #[must_use]
    pub fn commands(&self) -> &ash::DeviceFnV1_0 {
        self.inner.ash.core()
    }

    pub(super) fn host_memory(&self) -> &ContextHandle {
        &self.inner.memory
    }

    fn live(&self, step: KernelStep) -> Result<&AshDevice, KernelError> {
        if self.inner.state.is_lost() {
            return Err(refused(step, DeviceError::DeviceLost));
        }
        Ok(&self.inner.ash)
    }

    /// # Safety
    /// The info is valid for the device.
    pub(super) unsafe fn create<I, V: vk::Handle + Default>(
        &self,
        step: KernelStep,
        command: impl FnOnce(&ash::DeviceFnV1_0) -> Create<I, V>,
        info: &I,
    ) -> Result<V, KernelError> {
        let ash = self.live(step)?;
        // SAFETY: the caller's promise; the device is live, by the promise of `new`.
        let created = unsafe { ash.create(command(ash.core()), info, not_null) };
        created.map_err(|error| refused(step, error))
    }

    /// # Safety
    /// The info is valid for the device.
    pub(super) unsafe fn pipeline(
        &self,
        info: &vk::ComputePipelineCreateInfo<'_>,
    ) -> Result<vk::Pipeline, KernelError> {
        let ash = self.live(KernelStep::Pipeline)?;
        let mut pipeline = vk::Pipeline::null();
        let create = ash.core().create_compute_pipelines;
        let (cache, callbacks) = (self.inner.cache, ash.callbacks());
        // SAFETY: the caller's promise; the device is live, by the promise of `new`, and the cache is its.
        let result = unsafe { create(ash.device, cache, 1, info, callbacks, &raw mut pipeline) };
        let answer = new_handle(result, pipeline, not_null);
        if answer.is_err() {
            // The command may have created it and failed.
            self.destroy(pipeline, |commands| commands.destroy_pipeline);
        }
        answer.map_err(|error| refused(KernelStep::Pipeline, error))
    }

    /// Destroys an object that the caller alone owns. Does nothing for a null handle, and after the loss of the device.
    pub(super) fn destroy<V: vk::Handle + Copy>(
        &self,
        handle: V,
        command: impl FnOnce(&ash::DeviceFnV1_0) -> Destroy<V>,
    ) {
        self.inner.destroy(handle, command);
    }

    /// Appends the data of the pipeline cache.
    pub(super) fn cache_data(
        &self,
        data: &mut TryVec<u8, ContextHandle>,
    ) -> Result<(), KernelError> {
        let step = KernelStep::PipelineCache;
        let ash = self.live(step)?;
        let get = ash.core().get_pipeline_cache_data;
        loop {
            let mut size = 0;
            let (device, cache, none) = (ash.device, self.inner.cache, core::ptr::null_mut());
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

impl LoadedInner {
    fn destroy<V: vk::Handle + Copy>(
        &self,
        handle: V,
        command: impl FnOnce(&ash::DeviceFnV1_0) -> Destroy<V>,
    ) {
        if handle.as_raw() != 0 && !self.state.is_lost() {
            let destroy = command(self.ash.core());
            // SAFETY: created by this device with these callbacks, destroyed once, by its only owner; the user is done with it.
            unsafe { destroy(self.ash.device, handle, self.ash.callbacks()) }
        }
    }
}

impl Drop for LoadedInner {
    fn drop(&mut self) {
        self.destroy(self.cache, |commands| commands.destroy_pipeline_cache);
    }
}
