//! What compiled kernels are made and destroyed through: the context's own functions and callbacks, as long as one of them lives.

use alloc_core::{ContextHandle, TryVec};
use ash::vk;

use super::kernel::{KernelError, KernelStep};
use crate::context::{DeviceState, SharedBox};
use crate::device::DeviceError;
use crate::error::GpuError;

/// Counted: held by the context and by each kernel that was compiled with it.
#[derive(Clone)]
pub(super) struct KernelDevice {
    inner: SharedBox<KernelDeviceInner>,
}

struct KernelDeviceInner {
    device: vk::Device,
    commands: KernelCommands,
    callbacks: Option<vk::AllocationCallbacks<'static>>,
    cache: vk::PipelineCache,
    state: DeviceState,
    memory: ContextHandle,
}

// SAFETY: handles and functions, which any thread may use; callbacks are the application's, which Vulkan calls on any thread.
unsafe impl Send for KernelDeviceInner {}
// SAFETY: as above; `VkPipelineCache` is synchronised by the driver, for it is not made as externally synchronised.
unsafe impl Sync for KernelDeviceInner {}

#[derive(Clone, Copy)]
struct KernelCommands {
    create_shader_module: vk::PFN_vkCreateShaderModule,
    destroy_shader_module: vk::PFN_vkDestroyShaderModule,
    create_descriptor_set_layout: vk::PFN_vkCreateDescriptorSetLayout,
    destroy_descriptor_set_layout: vk::PFN_vkDestroyDescriptorSetLayout,
    create_pipeline_layout: vk::PFN_vkCreatePipelineLayout,
    destroy_pipeline_layout: vk::PFN_vkDestroyPipelineLayout,
    create_compute_pipelines: vk::PFN_vkCreateComputePipelines,
    destroy_pipeline: vk::PFN_vkDestroyPipeline,
    destroy_pipeline_cache: vk::PFN_vkDestroyPipelineCache,
    get_pipeline_cache_data: vk::PFN_vkGetPipelineCacheData,
}

/// What became of a create.
fn check_created<H: vk::Handle + Copy>(
    step: KernelStep,
    result: vk::Result,
    handle: H,
) -> Result<H, KernelError> {
    let refused = |raw| KernelError {
        step,
        error: GpuError::Device(DeviceError::from_raw(raw)),
    };
    match result.as_raw() {
        // A driver that says yes and gives nothing is not believed.
        0 if handle.as_raw() == 0 => Err(refused(vk::Result::ERROR_UNKNOWN.as_raw())),
        0 => Ok(handle),
        other => Err(refused(other)),
    }
}

impl KernelDevice {
    /// With a pipeline cache that begins with `data`.
    ///
    /// # Safety
    /// The device is live, `table` is its; it outlives the value, or is lost first. The callbacks are what Vulkan demands, as long. `data` is
    /// empty or what a pipeline cache of such a device had.
    pub(super) unsafe fn new(
        table: &ash::DeviceFnV1_0,
        device: vk::Device,
        callbacks: Option<vk::AllocationCallbacks<'static>>,
        data: &[u8],
        state: DeviceState,
        memory: ContextHandle,
    ) -> Result<Self, GpuError> {
        let commands = KernelCommands {
            create_shader_module: table.create_shader_module,
            destroy_shader_module: table.destroy_shader_module,
            create_descriptor_set_layout: table.create_descriptor_set_layout,
            destroy_descriptor_set_layout: table.destroy_descriptor_set_layout,
            create_pipeline_layout: table.create_pipeline_layout,
            destroy_pipeline_layout: table.destroy_pipeline_layout,
            create_compute_pipelines: table.create_compute_pipelines,
            destroy_pipeline: table.destroy_pipeline,
            destroy_pipeline_cache: table.destroy_pipeline_cache,
            get_pipeline_cache_data: table.get_pipeline_cache_data,
        };
        let mut cache = vk::PipelineCache::null();
        let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        let allocator = callbacks
            .as_ref()
            .map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: the caller's promise.
        let result = unsafe {
            (table.create_pipeline_cache)(device, &raw const info, allocator, &raw mut cache)
        };
        let cache = check_created(KernelStep::PipelineCache, result, cache)
            .map_err(|refused| refused.error)?;
        let inner = KernelDeviceInner {
            device,
            commands,
            callbacks,
            cache,
            state,
            memory: memory.clone(),
        };
        // Refused, it is dropped, and the cache with it.
        Ok(Self {
            inner: SharedBox::new(inner, memory)?,
        })
    }

    pub(super) fn memory(&self) -> &ContextHandle {
        &self.inner.memory
    }

    fn live_inner(&self, step: KernelStep) -> Result<&KernelDeviceInner, KernelError> {
        if self.inner.state.is_lost() {
            return Err(KernelError {
                step,
                error: GpuError::Device(DeviceError::DeviceLost),
            });
        }
        Ok(&self.inner)
    }

    /// # Safety
    /// The code is valid SPIR-V for the device.
    pub(super) unsafe fn module(&self, code: &[u32]) -> Result<vk::ShaderModule, KernelError> {
        let inner = self.live_inner(KernelStep::ShaderModule)?;
        let info = vk::ShaderModuleCreateInfo::default().code(code);
        let mut module = vk::ShaderModule::null();
        // SAFETY: the caller's promise; the device is live, by the promise of `new`.
        let result = unsafe {
            (inner.commands.create_shader_module)(
                inner.device,
                &raw const info,
                inner.callbacks(),
                &raw mut module,
            )
        };
        check_created(KernelStep::ShaderModule, result, module)
    }

    /// # Safety
    /// The info is valid for the device.
    pub(super) unsafe fn set_layout(
        &self,
        info: &vk::DescriptorSetLayoutCreateInfo<'_>,
    ) -> Result<vk::DescriptorSetLayout, KernelError> {
        let inner = self.live_inner(KernelStep::DescriptorSetLayout)?;
        let mut layout = vk::DescriptorSetLayout::null();
        // SAFETY: the caller's promise; the device is live, by the promise of `new`.
        let result = unsafe {
            (inner.commands.create_descriptor_set_layout)(
                inner.device,
                info,
                inner.callbacks(),
                &raw mut layout,
            )
        };
        check_created(KernelStep::DescriptorSetLayout, result, layout)
    }

    /// # Safety
    /// The info is valid for the device.
    pub(super) unsafe fn layout(
        &self,
        info: &vk::PipelineLayoutCreateInfo<'_>,
    ) -> Result<vk::PipelineLayout, KernelError> {
        let inner = self.live_inner(KernelStep::PipelineLayout)?;
        let mut layout = vk::PipelineLayout::null();
        // SAFETY: the caller's promise; the device is live, by the promise of `new`.
        let result = unsafe {
            (inner.commands.create_pipeline_layout)(
                inner.device,
                info,
                inner.callbacks(),
                &raw mut layout,
            )
        };
        check_created(KernelStep::PipelineLayout, result, layout)
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
            // It may have been made although the command did not succeed.
            self.destroy_pipeline(pipeline);
        }
        answer
    }

    // A null handle is none, and of a lost device everything is gone.

    pub(super) fn destroy_pipeline(&self, pipeline: vk::Pipeline) {
        if let Some(inner) = self.inner_for(pipeline) {
            // SAFETY: made by this device with these callbacks, destroyed once, by its only owner; the user is done with it.
            unsafe { (inner.commands.destroy_pipeline)(inner.device, pipeline, inner.callbacks()) }
        }
    }

    pub(super) fn destroy_layout(&self, layout: vk::PipelineLayout) {
        if let Some(inner) = self.inner_for(layout) {
            // SAFETY: as for pipelines.
            unsafe {
                (inner.commands.destroy_pipeline_layout)(inner.device, layout, inner.callbacks())
            }
        }
    }

    pub(super) fn destroy_set_layout(&self, layout: vk::DescriptorSetLayout) {
        if let Some(inner) = self.inner_for(layout) {
            // SAFETY: as for pipelines.
            unsafe {
                (inner.commands.destroy_descriptor_set_layout)(
                    inner.device,
                    layout,
                    inner.callbacks(),
                )
            }
        }
    }

    pub(super) fn destroy_module(&self, module: vk::ShaderModule) {
        if let Some(inner) = self.inner_for(module) {
            // SAFETY: as for pipelines.
            unsafe {
                (inner.commands.destroy_shader_module)(inner.device, module, inner.callbacks())
            }
        }
    }

    fn inner_for(&self, handle: impl vk::Handle) -> Option<&KernelDeviceInner> {
        (handle.as_raw() != 0 && !self.inner.state.is_lost()).then_some(&*self.inner)
    }

    /// What the pipeline cache has, appended.
    pub(super) fn cache_data(
        &self,
        data: &mut TryVec<u8, ContextHandle>,
    ) -> Result<(), KernelError> {
        let step = KernelStep::PipelineCache;
        let inner = self.live_inner(step)?;
        let refused = |raw| KernelError {
            step,
            error: GpuError::Device(DeviceError::from_raw(raw)),
        };
        let get = inner.commands.get_pipeline_cache_data;
        loop {
            let mut size = 0;
            // SAFETY: device and cache are live; only the size is asked.
            let result = unsafe {
                get(
                    inner.device,
                    inner.cache,
                    &raw mut size,
                    core::ptr::null_mut(),
                )
            };
            if result != vk::Result::SUCCESS {
                return Err(refused(result.as_raw()));
            }
            let before = data.len();
            data.try_resize(before.saturating_add(size), 0)
                .map_err(|error| KernelError {
                    step,
                    error: error.into(),
                })?;
            let room = data.get_mut(before..).unwrap_or_default();
            // SAFETY: room for so many bytes.
            let result = unsafe {
                get(
                    inner.device,
                    inner.cache,
                    &raw mut size,
                    room.as_mut_ptr().cast(),
                )
            };
            match result {
                vk::Result::SUCCESS => {
                    data.truncate(before.saturating_add(size));
                    return Ok(());
                }
                // Another thread compiled meanwhile: what was written is a cache, but not all of it.
                vk::Result::INCOMPLETE => data.truncate(before),
                other => {
                    data.truncate(before);
                    return Err(refused(other.as_raw()));
                }
            }
        }
    }
}

impl KernelDeviceInner {
    /// `pAllocator`: the copy lives where this does, and does not move.
    fn callbacks(&self) -> *const vk::AllocationCallbacks<'static> {
        self.callbacks
            .as_ref()
            .map_or(core::ptr::null(), core::ptr::from_ref)
    }
}

impl Drop for KernelDeviceInner {
    fn drop(&mut self) {
        if !self.state.is_lost() {
            // SAFETY: made by this device with these callbacks; nobody else has it.
            unsafe {
                (self.commands.destroy_pipeline_cache)(self.device, self.cache, self.callbacks())
            }
        }
    }
}
