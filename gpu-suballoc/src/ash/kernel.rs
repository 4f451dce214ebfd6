//! A compiled kernel: the value of a Vulkan device's shader cache.

use core::ffi::CStr;
use core::fmt;

use alloc_core::{ContextHandle, TryVec};
use ash::vk;

use super::kernel_device::LoadedDevice;
use crate::error::GpuError;

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
