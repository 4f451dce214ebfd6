use super::AshDevice;
use super::layout::{check, new_handle};
use crate::context::DeviceState;
use crate::device::{DeviceError, forward_device_memory};
use crate::error::GpuError;
use crate::flags::debug_fields;
use crate::shared_box::SharedBox;
use alloc_core::{ContextHandle, TryVec};
use ash::vk;
use core::ffi::CStr;

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

/// Shader module, descriptor set layouts, pipeline layout and compute pipelines. Dropping it destroys them in the
/// reverse order, unless the device is lost.
pub struct CompiledKernel {
    pipelines: TryVec<vk::Pipeline, ContextHandle>,
    layout: vk::PipelineLayout,
    set_layouts: TryVec<vk::DescriptorSetLayout, ContextHandle>,
    module: vk::ShaderModule,
    code: TryVec<u8, ContextHandle>,
    device: LoadedDevice,
}

debug_fields!(
    [] KernelInfo<'_>, "KernelInfo",
    |this| pipelines = this.pipelines, keep_code = this.keep_code
);

debug_fields!([] KernelPipeline<'_>, "KernelPipeline", |this| name = this.name);

impl CompiledKernel {
    /// What was created before a refused step is destroyed as in `drop`; the order is the reverse of row H29.
    ///
    /// # Safety
    /// As [`AshContext::compile`](super::AshContext).
    pub(super) unsafe fn compile(device: &LoadedDevice, info: &KernelInfo<'_>) -> Result<Self, GpuError> {
        let memory = device.host_memory();
        let mut kernel = Self {
            pipelines: TryVec::new_in(memory.clone()),
            layout: vk::PipelineLayout::null(),
            set_layouts: TryVec::new_in(memory.clone()),
            module: vk::ShaderModule::null(),
            code: TryVec::new_in(memory.clone()),
            device: device.share(),
        };
        // All host memory is allocated before the first call of the driver.
        (kernel.pipelines).try_resize(info.pipelines.len(), vk::Pipeline::null())?;
        (kernel.set_layouts).try_resize(info.set_layouts.len(), vk::DescriptorSetLayout::null())?;
        if info.keep_code {
            kernel.code.try_reserve(info.code.len().saturating_mul(4))?;
            for word in info.code {
                kernel.code.try_extend_from_slice(&word.to_le_bytes())?;
            }
        }
        let commands = device.commands();
        let module = vk::ShaderModuleCreateInfo::default().code(info.code);
        // SAFETY: the code is valid for the device (`AshContext::compile`).
        kernel.module = unsafe { device.create(commands.create_shader_module, &module) }?;
        for (set, info) in kernel.set_layouts.iter_mut().zip(info.set_layouts) {
            // SAFETY: the set layout's info is valid for the device (`AshContext::compile`).
            *set = unsafe { device.create(commands.create_descriptor_set_layout, info) }?;
        }
        let layout = vk::PipelineLayoutCreateInfo::default()
            .set_layouts(&kernel.set_layouts)
            .push_constant_ranges(info.push_constant_ranges);
        // SAFETY: the push constant ranges are valid (`AshContext::compile`), and so are the set layouts.
        kernel.layout = unsafe { device.create(commands.create_pipeline_layout, &layout) }?;
        for (pipeline, info) in kernel.pipelines.iter_mut().zip(info.pipelines) {
            let mut stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(kernel.module)
                .name(info.name);
            stage.p_specialization_info = (info.specialization).map_or(core::ptr::null(), core::ptr::from_ref).cast();
            let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(kernel.layout);
            // SAFETY: entry point and constants are valid (`AshContext::compile`), and so are module and layout.
            *pipeline = unsafe { device.pipeline(&info) }?;
        }
        Ok(kernel)
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

    /// Its SPIR-V, least significant byte first, for [`ShaderCache::save`](crate::ShaderCache::save); `None` if it was
    /// not kept.
    #[must_use]
    pub fn code(&self) -> Option<&[u8]> {
        (!self.code.is_empty()).then_some(&*self.code)
    }
}

impl Drop for CompiledKernel {
    fn drop(&mut self) {
        let (device, commands) = (&self.device.inner, self.device.commands());
        for pipeline in &*self.pipelines {
            device.destroy(*pipeline, commands.destroy_pipeline);
        }
        device.destroy(self.layout, commands.destroy_pipeline_layout);
        for set in &*self.set_layouts {
            device.destroy(*set, commands.destroy_descriptor_set_layout);
        }
        device.destroy(self.module, commands.destroy_shader_module);
    }
}

debug_fields!(
    [] CompiledKernel, "CompiledKernel",
    |this| module = this.module, layout = this.layout, pipelines = this.pipelines()
);

/// The commands of one context, loaded when it was acquired.
pub struct LoadedDevice {
    inner: SharedBox<LoadedInner>,
}

struct LoadedInner {
    ash: AshDevice,
    cache: vk::PipelineCache,
    state: DeviceState,
    memory: ContextHandle,
}

type Create<I, V> =
    unsafe extern "system" fn(vk::Device, *const I, *const vk::AllocationCallbacks<'_>, *mut V) -> vk::Result;
type Destroy<V> = unsafe extern "system" fn(vk::Device, V, *const vk::AllocationCallbacks<'_>);

fn not_null<V: vk::Handle>(raw: u64) -> Option<V> {
    (raw != 0).then(|| V::from_raw(raw))
}

forward_device_memory!([] LoadedDevice, self => self.inner.ash, self.live().ok());

debug_fields!([] LoadedDevice, "LoadedDevice", |this| device = this.inner.ash);

impl LoadedDevice {
    /// # Safety
    /// The device of `ash` and valid callbacks outlive the value, or the device is lost first. `data` is empty or the
    /// data of a pipeline cache of such a device.
    pub(super) unsafe fn new(
        ash: AshDevice,
        data: &[u8],
        state: DeviceState,
        memory: ContextHandle,
    ) -> Result<Self, GpuError> {
        let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        // SAFETY: device and callbacks are live, and `data` is a pipeline cache's (`new`).
        let cache = unsafe { ash.create(ash.core().create_pipeline_cache, &info, not_null) }?;
        let inner = LoadedInner { ash, cache, state, memory: memory.clone() };
        Ok(Self { inner: SharedBox::new(inner, memory)? })
    }

    pub(super) fn share(&self) -> Self {
        Self { inner: self.inner.clone() }
    }

    /// The commands of Vulkan 1.0 of this device's driver.
    #[must_use]
    pub fn commands(&self) -> &ash::DeviceFnV1_0 {
        self.inner.ash.core()
    }

    pub(super) fn host_memory(&self) -> &ContextHandle {
        &self.inner.memory
    }

    fn live(&self) -> Result<&AshDevice, DeviceError> {
        if self.inner.state.is_lost() {
            return Err(DeviceError::DeviceLost);
        }
        Ok(&self.inner.ash)
    }

    /// # Safety
    /// The info is valid for the device.
    unsafe fn create<I, V: vk::Handle + Default>(&self, command: Create<I, V>, info: &I) -> Result<V, DeviceError> {
        let ash = self.live()?;
        // SAFETY: the info is valid (`create`); the device is not lost, so it lives (`new`).
        unsafe { ash.create(command, info, not_null) }
    }

    /// # Safety
    /// The info is valid for the device.
    unsafe fn pipeline(&self, info: &vk::ComputePipelineCreateInfo<'_>) -> Result<vk::Pipeline, DeviceError> {
        let ash = self.live()?;
        let mut pipeline = vk::Pipeline::null();
        let create = ash.core().create_compute_pipelines;
        let (cache, callbacks) = (self.inner.cache, ash.callbacks());
        // SAFETY: the info is valid (`pipeline`); the device is not lost, so it lives (`new`).
        let result = unsafe { create(ash.device, cache, 1, info, callbacks, &raw mut pipeline) };
        let answer = new_handle(result, pipeline, not_null);
        if answer.is_err() {
            // The command may have created it and failed.
            (self.inner).destroy(pipeline, ash.core().destroy_pipeline);
        }
        answer
    }

    pub(super) fn cache_data(&self, data: &mut TryVec<u8, ContextHandle>) -> Result<(), GpuError> {
        let ash = self.live()?;
        let get = ash.core().get_pipeline_cache_data;
        loop {
            let mut size = 0;
            let (device, cache, none) = (ash.device, self.inner.cache, core::ptr::null_mut());
            // SAFETY: device and cache are live; without memory the command writes the size alone.
            check(unsafe { get(device, cache, &raw mut size, none) })?;
            let before = data.len();
            data.try_resize(before.saturating_add(size), 0)?;
            let room = data.get_mut(before..).unwrap_or_default();
            // SAFETY: `room` has `size` bytes.
            let result = unsafe { get(device, cache, &raw mut size, room.as_mut_ptr().cast()) };
            if result == vk::Result::SUCCESS {
                data.truncate(before.saturating_add(size));
                return Ok(());
            }
            data.truncate(before);
            // After `INCOMPLETE` what was written is a cache, but not all of it.
            if result != vk::Result::INCOMPLETE {
                return Err(DeviceError::from_raw(result.as_raw()).into());
            }
        }
    }
}

impl LoadedInner {
    fn destroy<V: vk::Handle + Copy>(&self, handle: V, command: Destroy<V>) {
        if handle.as_raw() != 0 && !self.state.is_lost() {
            // SAFETY: created by this device with these callbacks, destroyed once, by its only owner.
            unsafe { command(self.ash.device, handle, self.ash.callbacks()) }
        }
    }
}

impl Drop for LoadedInner {
    fn drop(&mut self) {
        self.destroy(self.cache, self.ash.core().destroy_pipeline_cache);
    }
}
