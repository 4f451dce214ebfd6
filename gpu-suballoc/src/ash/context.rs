use core::ffi::{CStr, c_void};

use alloc_core::{ContextHandle, TryVec};
use ash::vk::{self, Handle as _};

use super::commands::{CommandTables, PhysicalDevice2};
use super::kernel::{CompiledKernel, KernelInfo, LoadedDevice};
use super::{AshDevice, AshOptions};
use crate::allocator::AllocatorOptions;
use crate::cache::{CompiledShader, StoreIdentity};
use crate::context::{
    CommandSource, ContextError, ContextTable, DeviceContext, DeviceContexts, DeviceState, VulkanHandles,
};
use crate::error::GpuError;
use crate::flags::debug_fields;

/// Contexts on Vulkan devices, with kernels in their cache.
pub type AshContexts = DeviceContexts<CompiledKernel, GpuError>;
/// A context on a Vulkan device.
pub type AshContext = DeviceContext<LoadedDevice, CompiledKernel, GpuError>;
/// Contexts on Vulkan devices, by number.
pub type AshContextTable = ContextTable<LoadedDevice, CompiledKernel, GpuError>;

/// The parameters of a context. Handles, callbacks and data stay the application's.
pub struct AshContextInfo<'a> {
    /// The loader's, or a driver's.
    pub get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
    /// The application's instance.
    pub instance: vk::Instance,
    /// One of its physical devices.
    pub physical_device: vk::PhysicalDevice,
    /// A device made from it.
    pub device: vk::Device,
    /// How the device was created, and the callbacks for all objects that the context creates. Copied.
    pub options: AshOptions,
    /// Sizes and limits of the allocator.
    pub allocator: AllocatorOptions,
    /// The memory of the context's bookkeeping and kernels.
    pub memory: ContextHandle,
    /// The [data of a `VkPipelineCache`](AshContext::pipeline_cache_data) of an earlier run, or empty.
    pub pipeline_cache_data: &'a [u8],
}

debug_fields!(
    [] AshContextInfo<'_>, "AshContextInfo",
    |this| instance = this.instance,
        physical_device = this.physical_device,
        device = this.device,
        options = this.options
);

const OF_INSTANCE: [&CStr; 1] = [c"vkGetDeviceProcAddr"];
const OF_KERNELS: [&CStr; 11] = [
    c"vkCreateShaderModule",
    c"vkDestroyShaderModule",
    c"vkCreateDescriptorSetLayout",
    c"vkDestroyDescriptorSetLayout",
    c"vkCreatePipelineLayout",
    c"vkDestroyPipelineLayout",
    c"vkCreateComputePipelines",
    c"vkDestroyPipeline",
    c"vkCreatePipelineCache",
    c"vkDestroyPipelineCache",
    c"vkGetPipelineCacheData",
];

impl AshContexts {
    /// Acquires a context on a Vulkan device of the application.
    ///
    /// # Errors
    /// As [`acquire`](DeviceContexts::acquire), and [`ContextError::MissingCommand`].
    ///
    /// # Safety
    /// - As [`acquire`](DeviceContexts::acquire), [`AshDevice::new`] and `vkGetInstanceProcAddr`.
    /// - The callbacks are valid until the context and all references to its kernels are gone.
    /// - `pipeline_cache_data` is empty, or all that [`pipeline_cache_data`](AshContext::pipeline_cache_data) returned
    ///   for such a device, unchanged: a driver checks the header and may trust the rest.
    ///   [`StoredShaders`](crate::cache::StoredShaders) ensures this for a file.
    pub unsafe fn acquire_ash(&self, info: AshContextInfo<'_>) -> Result<AshContext, ContextError> {
        let handles = VulkanHandles {
            instance: info.instance.as_raw(),
            physical_device: info.physical_device.as_raw(),
            device: info.device.as_raw(),
        };
        let (memory, allocator) = (info.memory.clone(), info.allocator);
        let load = |state: &DeviceState| {
            // SAFETY: the handles are live and belong together (`acquire_ash`), and none is null.
            unsafe { load(&info, state) }
        };
        // SAFETY: the handles outlive the context (`acquire_ash`), and `load` returns their device.
        unsafe { self.acquire(handles, memory, allocator, load) }
    }
}

/// # Safety
/// As [`AshContexts::acquire_ash`]; the handles are not null.
unsafe fn load(info: &AshContextInfo<'_>, state: &DeviceState) -> Result<LoadedDevice, ContextError> {
    let void =
        |function: vk::PFN_vkVoidFunction| function.map_or(core::ptr::null(), |function| function as *const c_void);
    // SAFETY: without an instance this may be asked of every loader and driver.
    let create = unsafe { (info.get_instance_proc_addr)(vk::Instance::null(), c"vkCreateInstance".as_ptr()) };
    if create.is_none() {
        return Err(ContextError::MissingCommand { level: CommandSource::Loader, name: c"vkCreateInstance" });
    }
    let mut missing = None;
    let of_instance = ash::InstanceFnV1_0::load(|name| {
        // SAFETY: the instance is live and of this loader, and the name is a C string.
        let function = void(unsafe { (info.get_instance_proc_addr)(info.instance, name.as_ptr()) });
        note(&mut missing, CommandSource::Instance, &[&OF_INSTANCE, &AshDevice::INSTANCE_COMMANDS], name, function)
    });
    if let Some(missing) = missing {
        return Err(missing);
    }
    let of_device = ash::DeviceFnV1_0::load(|name| {
        // SAFETY: the device is live and of this instance, and the name is a C string.
        let function = void(unsafe { (of_instance.get_device_proc_addr)(info.device, name.as_ptr()) });
        note(&mut missing, CommandSource::Device, &[&AshDevice::DEVICE_COMMANDS, &OF_KERNELS], name, function)
    });
    if let Some(missing) = missing {
        return Err(missing);
    }
    let (loader, version) = (info.get_instance_proc_addr, info.options.api_version);
    let tables = CommandTables {
        of_instance: &of_instance,
        // SAFETY: the instance is live, of this loader, and of this version (`acquire_ash`).
        physical_device2: unsafe { PhysicalDevice2::load(loader, info.instance, version) },
        device: info.device,
        of_device: &of_device,
    };
    // SAFETY: handles, version and callbacks are as `AshDevice::new` demands, and no command is missing.
    let ash = unsafe { AshDevice::of_tables(&tables, info.physical_device, info.options) };
    let (data, memory) = (info.pipeline_cache_data, info.memory.clone());
    // SAFETY: device and callbacks outlive the kernels, and the data is a pipeline cache's (`acquire_ash`).
    Ok(unsafe { LoadedDevice::new(ash, data, state.clone(), memory) }?)
}

fn note(
    missing: &mut Option<ContextError>,
    level: CommandSource,
    needed: &[&[&'static CStr]],
    name: &CStr,
    function: *const c_void,
) -> *const c_void {
    if function.is_null()
        && missing.is_none()
        && let Some(name) = needed.iter().copied().flatten().find(|needed| **needed == name)
    {
        *missing = Some(ContextError::MissingCommand { level, name });
    }
    function
}

impl AshContext {
    /// Compiles a kernel with this context's callbacks and memory, for
    /// [`get_or_compile`](crate::cache::CacheOwner::get_or_compile) of its [`shaders`](DeviceContext::shaders).
    ///
    /// # Errors
    /// The refusal of driver or memory; nothing remains then.
    ///
    /// # Safety
    /// The info is valid for the device: code (`VkShaderModuleCreateInfo`), layouts and constants. The device does not
    /// use the kernel when its owner, or the last reference, is released.
    pub unsafe fn compile(&self, info: &KernelInfo<'_>) -> Result<CompiledShader<CompiledKernel>, GpuError> {
        // SAFETY: the info is valid for the device (`compile`).
        let value = unsafe { CompiledKernel::compile(self.device(), info) }?;
        Ok(CompiledShader { value, bytes: info.code.len() as u64 * 4 })
    }

    /// Appends the data of the context's `VkPipelineCache` (`vkGetPipelineCacheData`) to `data`.
    ///
    /// # Errors
    /// The refusal of driver or memory; `data` is unchanged.
    pub fn pipeline_cache_data(&self, data: &mut TryVec<u8, ContextHandle>) -> Result<(), GpuError> {
        self.device().cache_data(data)
    }
}

/// The identity of a device for the head of a file with its binaries. `format` is the program's number.
///
/// Below Vulkan 1.1 `device_uuid` is zeros.
///
/// # Safety
/// `physical` is of `instance`, both live; `api_version` is the lesser of what the application named and what the
/// device supports.
#[must_use]
pub unsafe fn physical_device_identity(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    api_version: u32,
    format: u32,
) -> StoreIdentity {
    let mut properties = vk::PhysicalDeviceProperties::default();
    // SAFETY: `physical` is live and of `instance` (`physical_device_identity`).
    unsafe { (instance.fp_v1_0().get_physical_device_properties)(physical, &raw mut properties) };
    let mut id = vk::PhysicalDeviceIDProperties::default();
    if api_version >= vk::API_VERSION_1_1 {
        let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut id);
        // SAFETY: `physical` is live and of `instance`, and has 1.1.
        unsafe { (instance.fp_v1_1().get_physical_device_properties2)(physical, &raw mut all) };
    }
    StoreIdentity {
        vendor: properties.vendor_id,
        device: properties.device_id,
        driver_version: properties.driver_version,
        format,
        pipeline_cache_uuid: properties.pipeline_cache_uuid,
        device_uuid: id.device_uuid,
    }
}
