//! A compiled kernel: the value of a Vulkan device's shader cache.

use super::AshDevice;
use super::layout::{check, new_handle};
use crate::context::{ContextDevice, DeviceState};
use crate::device::DeviceError;
use crate::error::GpuError;
use crate::shared_box::SharedBox;
use alloc_core::{ContextHandle, TryVec};
use ash::vk;
use core::ffi::CStr;
use core::fmt;

/// The source of a kernel.
#[derive(Clone, Copy)]
pub struct KernelInfo<'a> {
    /// SPIR-V, as `VkShaderModuleCreateInfo::pCode`.
    pub code: &'a [u32],
    /// Its descriptor sets, in their order.
    pub set_layouts: &'a [vk::DescriptorSetLayoutCreateInfo<'a>],
    /// As `VkPipelineLayoutCreateInfo::pPushConstantRanges`.
    pub push_constant_ranges: &'a [vk::PushConstantRange],
    /// A compute pipeline each.
    pub pipelines: &'a [KernelPipeline<'a>],
    /// Keeps the SPIR-V, so that it can be [written to a file](CompiledKernel::code).
    pub keep_code: bool,
}

/// A compute pipeline of a kernel.
#[derive(Clone, Copy)]
pub struct KernelPipeline<'a> {
    /// The entry point.
    pub name: &'a CStr,
    /// Its constants, if it has any.
    pub specialization: Option<&'a vk::SpecializationInfo<'a>>,
}

/// Shader module, descriptor set layouts, pipeline layout and compute pipelines, created with the callbacks of the context that compiled
/// the kernel. Dropping it destroys pipelines, pipeline layout, descriptor set layouts and module in this order, unless the device is lost.
pub struct CompiledKernel {
    pipelines: TryVec<vk::Pipeline, ContextHandle>,
    layout: vk::PipelineLayout,
    set_layouts: TryVec<vk::DescriptorSetLayout, ContextHandle>,
    module: vk::ShaderModule,
    code: TryVec<u8, ContextHandle>,
    device: LoadedDevice,
}

impl CompiledKernel {
    /// Creates in the reverse of the order of row H29. If a step fails, what the steps before created is destroyed as in `drop`.
    ///
    /// # Safety
    /// As [`AshContext::compile`](super::AshContext).
    pub(super) unsafe fn compile(
        device: &LoadedDevice,
        info: &KernelInfo<'_>,
    ) -> Result<Self, KernelError> {
        let memory = device.host_memory();
        let mut kernel = Self {
            pipelines: TryVec::new_in(memory.clone()),
            layout: vk::PipelineLayout::null(),
            set_layouts: TryVec::new_in(memory.clone()),
            module: vk::ShaderModule::null(),
            code: TryVec::new_in(memory.clone()),
            device: device.share(),
        };
        let short = |error| KernelError {
            step: KernelStep::Memory,
            error,
        };
        kernel.reserve(info).map_err(short)?;
        let module = vk::ShaderModuleCreateInfo::default().code(info.code);
        let step = KernelStep::ShaderModule;
        // SAFETY: the caller's promise.
        kernel.module = unsafe { device.create(step, |of| of.create_shader_module, &module) }?;
        for set in info.set_layouts {
            let step = KernelStep::DescriptorSetLayout;
            // SAFETY: the caller's promise.
            let set = unsafe { device.create(step, |of| of.create_descriptor_set_layout, set) }?;
            if let Err(refused) = kernel.set_layouts.try_push(set) {
                device.destroy(set, |of| of.destroy_descriptor_set_layout);
                return Err(short(refused.error.into()));
            }
        }
        let layout = vk::PipelineLayoutCreateInfo::default()
            .set_layouts(&kernel.set_layouts)
            .push_constant_ranges(info.push_constant_ranges);
        let step = KernelStep::PipelineLayout;
        // SAFETY: the caller's promise; the set layouts were created above.
        kernel.layout = unsafe { device.create(step, |of| of.create_pipeline_layout, &layout) }?;
        for KernelPipeline {
            name,
            specialization,
        } in info.pipelines
        {
            let mut stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(kernel.module)
                .name(name);
            stage.p_specialization_info = specialization
                .map_or(core::ptr::null(), core::ptr::from_ref)
                .cast();
            let pipeline = vk::ComputePipelineCreateInfo::default()
                .stage(stage)
                .layout(kernel.layout);
            // SAFETY: the caller's promise; module and layout were created above.
            let pipeline = unsafe { device.pipeline(&pipeline) }?;
            if let Err(refused) = kernel.pipelines.try_push(pipeline) {
                device.destroy(pipeline, |of| of.destroy_pipeline);
                return Err(short(refused.error.into()));
            }
        }
        Ok(kernel)
    }

    /// Allocates all host memory, before the first call of the driver.
    fn reserve(&mut self, info: &KernelInfo<'_>) -> Result<(), GpuError> {
        self.pipelines.try_reserve(info.pipelines.len())?;
        self.set_layouts.try_reserve(info.set_layouts.len())?;
        if info.keep_code {
            self.code.try_reserve(info.code.len().saturating_mul(4))?;
            for word in info.code {
                self.code.try_extend_from_slice(&word.to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// The pipelines, in the order of the info.
    #[must_use]
    pub fn pipelines(&self) -> &[vk::Pipeline] {
        &self.pipelines
    }

    /// The pipeline layout.
    #[must_use]
    pub const fn layout(&self) -> vk::PipelineLayout {
        self.layout
    }

    /// The descriptor set layouts, in the order of the info.
    #[must_use]
    pub fn set_layouts(&self) -> &[vk::DescriptorSetLayout] {
        &self.set_layouts
    }

    /// The shader module.
    #[must_use]
    pub const fn module(&self) -> vk::ShaderModule {
        self.module
    }

    /// Its SPIR-V, least significant byte first, for [`ShaderCache::save`](crate::ShaderCache::save); `None` if it was not kept.
    #[must_use]
    pub fn code(&self) -> Option<&[u8]> {
        (!self.code.is_empty()).then_some(&*self.code)
    }
}

impl Drop for CompiledKernel {
    fn drop(&mut self) {
        for pipeline in &*self.pipelines {
            self.device.destroy(*pipeline, |of| of.destroy_pipeline);
        }
        self.device
            .destroy(self.layout, |of| of.destroy_pipeline_layout);
        for set in &*self.set_layouts {
            self.device
                .destroy(*set, |of| of.destroy_descriptor_set_layout);
        }
        self.device
            .destroy(self.module, |of| of.destroy_shader_module);
    }
}

impl fmt::Debug for CompiledKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("CompiledKernel");
        all.field("module", &self.module)
            .field("layout", &self.layout)
            .field("pipelines", &self.pipelines())
            .finish_non_exhaustive()
    }
}

/// Why a kernel was not compiled. Nothing of it remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelError {
    /// The step that failed.
    pub step: KernelStep,
    /// Why.
    pub error: GpuError,
}

/// A step of compiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelStep {
    /// Host memory for the lists.
    Memory,
    /// `vkCreateShaderModule`.
    ShaderModule,
    /// `vkCreateDescriptorSetLayout`.
    DescriptorSetLayout,
    /// `vkCreatePipelineLayout`.
    PipelineLayout,
    /// `vkCreatePipelineCache`, `vkGetPipelineCacheData`.
    PipelineCache,
    /// `vkCreateComputePipelines`.
    Pipeline,
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match self.step {
            KernelStep::Memory => "host memory",
            KernelStep::ShaderModule => "the shader module",
            KernelStep::DescriptorSetLayout => "a descriptor set layout",
            KernelStep::PipelineLayout => "the pipeline layout",
            KernelStep::PipelineCache => "the pipeline cache",
            KernelStep::Pipeline => "a pipeline",
        };
        write!(f, "{step} of a kernel was refused: {}", self.error)
    }
}

impl core::error::Error for KernelError {}

// The device of a context: its memory, and what creates and destroys its kernels; shared with each kernel.

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
