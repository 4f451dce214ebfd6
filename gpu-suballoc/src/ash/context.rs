//! Contexts on a Vulkan device of the application: its commands loaded once, by name, and every one of them there.

use core::ffi::{CStr, c_void};

use alloc_core::{ContextHandle, TryVec};
use ash::vk::{self, Handle as _};

use super::commands::CommandTables;
use super::kernel::{CompiledKernel, KernelError, KernelInfo};
use super::kernel_device::KernelDevice;
use super::{AshDevice, AshOptions};
use crate::allocator::AllocatorOptions;
use crate::cache::{CompiledShader, StoreIdentity};
use crate::context::{
    CommandSource, ContextDevice, ContextError, ContextTable, DeviceContext, DeviceContexts,
    DeviceState, VulkanHandles,
};

/// Contexts on Vulkan devices, with kernels in their cache.
pub type AshContexts = DeviceContexts<CompiledKernel, KernelError>;
/// A context on a Vulkan device.
pub type AshContext = DeviceContext<LoadedDevice, CompiledKernel, KernelError>;
/// Contexts on Vulkan devices, by number.
pub type AshContextTable = ContextTable<LoadedDevice, CompiledKernel, KernelError>;

/// What a context is acquired with; all of it stays the application's.
pub struct AshContextInfo<'a> {
    /// The loader's, or a driver's.
    pub get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
    /// The application's instance.
    pub instance: vk::Instance,
    /// One of its physical devices.
    pub physical_device: vk::PhysicalDevice,
    /// A device made from it.
    pub device: vk::Device,
    /// How the device was made, and the callbacks: copied, and used for all that the context makes, to its end.
    pub options: AshOptions,
    /// Sizes and limits of the allocator.
    pub allocator: AllocatorOptions,
    /// Whose memory the context's books and kernels are in.
    pub memory: ContextHandle,
    /// What a [`VkPipelineCache` had](AshContext::pipeline_cache_data) in an earlier run; empty for none.
    pub pipeline_cache_data: &'a [u8],
}

/// The commands of a context: one table, loaded when it was acquired, its own.
pub struct LoadedDevice {
    memory: AshDevice,
    kernels: KernelDevice,
    table: ash::DeviceFnV1_0,
}

impl ContextDevice for LoadedDevice {
    type Memory = AshDevice;

    fn memory(&self) -> &AshDevice {
        &self.memory
    }
}

impl LoadedDevice {
    /// The commands of Vulkan 1.0, as this device's driver has them.
    #[must_use]
    pub const fn commands(&self) -> &ash::DeviceFnV1_0 {
        &self.table
    }
}

/// Without these, and those of an [`AshDevice`], there is no context; every Vulkan 1.0 has them.
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
    /// The commands of instance and device are asked for here, once, and kept with the context: two contexts, of two drivers say, know
    /// nothing of one another's.
    ///
    /// # Errors
    /// As [`acquire`](DeviceContexts::acquire), and [`ContextError::MissingCommand`].
    ///
    /// # Safety
    /// - As [`acquire`](DeviceContexts::acquire), [`AshDevice::new`] and `vkGetInstanceProcAddr`.
    /// - The callbacks are good until the context, and all that holds a kernel of it, is gone.
    /// - `pipeline_cache_data` is empty, or all of what [`pipeline_cache_data`](AshContext::pipeline_cache_data) gave for such a device, as it was:
    ///   a driver looks at its header and may trust the rest. In a file, [`StoredShaders`](crate::cache::StoredShaders) sees to that.
    pub unsafe fn acquire_ash(&self, info: AshContextInfo<'_>) -> Result<AshContext, ContextError> {
        let handles = handles_of(info.instance, info.physical_device, info.device);
        let (memory, allocator) = (info.memory.clone(), info.allocator);
        let load = |state: &DeviceState| {
            // SAFETY: the caller's promise; `acquire` has seen that no handle is null.
            unsafe { load(&info, state) }
        };
        // SAFETY: the caller's promise.
        unsafe { self.acquire(handles, memory, allocator, load) }
    }
}

/// The handles as numbers.
fn handles_of(
    instance: vk::Instance,
    physical_device: vk::PhysicalDevice,
    device: vk::Device,
) -> VulkanHandles {
    VulkanHandles {
        instance: instance.as_raw(),
        physical_device: physical_device.as_raw(),
        device: device.as_raw(),
    }
}

/// # Safety
/// As [`AshContexts::acquire_ash`]; the handles are not null.
unsafe fn load(
    info: &AshContextInfo<'_>,
    state: &DeviceState,
) -> Result<LoadedDevice, ContextError> {
    // Of a pointer that is a function's or null.
    let void = |function: vk::PFN_vkVoidFunction| {
        function.map_or(core::ptr::null(), |function| function as *const c_void)
    };
    // SAFETY: without an instance this may be asked of every loader and driver.
    let create = unsafe {
        (info.get_instance_proc_addr)(vk::Instance::null(), c"vkCreateInstance".as_ptr())
    };
    if create.is_none() {
        return Err(ContextError::MissingCommand {
            level: CommandSource::Loader,
            name: c"vkCreateInstance",
        });
    }
    let mut missing = None;
    let of_instance = ash::InstanceFnV1_0::load(|name| {
        // SAFETY: the caller's promise; the name is a C string.
        let function = void(unsafe { (info.get_instance_proc_addr)(info.instance, name.as_ptr()) });
        note(
            &mut missing,
            CommandSource::Instance,
            &[&OF_INSTANCE, &AshDevice::INSTANCE_COMMANDS],
            name,
            function,
        )
    });
    if let Some(missing) = missing {
        return Err(missing);
    }
    let of_device = ash::DeviceFnV1_0::load(|name| {
        // SAFETY: the caller's promise; the name is a C string.
        let function =
            void(unsafe { (of_instance.get_device_proc_addr)(info.device, name.as_ptr()) });
        note(
            &mut missing,
            CommandSource::Device,
            &[&AshDevice::DEVICE_COMMANDS, &OF_KERNELS],
            name,
            function,
        )
    });
    if let Some(missing) = missing {
        return Err(missing);
    }
    let tables = CommandTables {
        get_instance_proc_addr: info.get_instance_proc_addr,
        instance: info.instance,
        of_instance: &of_instance,
        device: info.device,
        of_device: &of_device,
    };
    // SAFETY: the caller's promise.
    let memory = unsafe { AshDevice::of_tables(&tables, info.physical_device, info.options) };
    let (callbacks, data, host) = (
        info.options.callbacks,
        info.pipeline_cache_data,
        info.memory.clone(),
    );
    // SAFETY: the caller's promise.
    let kernels = unsafe {
        KernelDevice::new(
            &of_device,
            info.device,
            callbacks,
            data,
            state.clone(),
            host,
        )
    }?;
    Ok(LoadedDevice {
        memory,
        kernels,
        table: of_device,
    })
}

/// Notes the first command that is needed and not there.
fn note(
    missing: &mut Option<ContextError>,
    level: CommandSource,
    needed: &[&[&'static CStr]],
    name: &CStr,
    function: *const c_void,
) -> *const c_void {
    if function.is_null()
        && missing.is_none()
        && let Some(name) = needed
            .iter()
            .copied()
            .flatten()
            .find(|needed| **needed == name)
    {
        *missing = Some(ContextError::MissingCommand { level, name });
    }
    function
}

impl AshContext {
    /// Compiles a kernel, with this context's callbacks and in its memory: for [`get_or_compile`](crate::cache::CacheOwner::get_or_compile) of its
    /// [`shaders`](DeviceContext::shaders). Counts as many bytes as its code has.
    ///
    /// # Errors
    /// What driver and memory refuse; nothing is left then.
    ///
    /// # Safety
    /// The info is valid for the device: its code (`VkShaderModuleCreateInfo`), layouts and constants. The device is done with the kernel
    /// when it is destroyed: when its owner, or the last hold, lets go.
    pub unsafe fn compile(
        &self,
        info: &KernelInfo<'_>,
    ) -> Result<CompiledShader<CompiledKernel>, KernelError> {
        // SAFETY: the caller's promise.
        let value = unsafe { CompiledKernel::compile(&self.device().kernels, info) }?;
        Ok(CompiledShader {
            value,
            bytes: info.code.len() as u64 * 4,
        })
    }

    /// What the context's `VkPipelineCache` has (`vkGetPipelineCacheData`), appended to `data`.
    ///
    /// # Errors
    /// What driver and memory refuse; `data` is as it was.
    pub fn pipeline_cache_data(
        &self,
        data: &mut TryVec<u8, ContextHandle>,
    ) -> Result<(), KernelError> {
        self.device().kernels.cache_data(data)
    }
}

/// Whose binaries a device's are: what a file of them has in its head. `format` is the program's own.
///
/// Below Vulkan 1.1 there is no `deviceUUID`; it is zeros then.
///
/// # Safety
/// `physical` is of `instance`, both live; `api_version` is the lesser of what the application named and what the device supports.
#[must_use]
pub unsafe fn physical_device_identity(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    api_version: u32,
    format: u32,
) -> StoreIdentity {
    let mut told = vk::PhysicalDeviceProperties::default();
    // SAFETY: the caller's promise.
    unsafe { (instance.fp_v1_0().get_physical_device_properties)(physical, &raw mut told) };
    let mut id = vk::PhysicalDeviceIDProperties::default();
    if api_version >= vk::API_VERSION_1_1 {
        let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut id);
        // SAFETY: the caller's promise; 1.1 has the command and the structure.
        unsafe { (instance.fp_v1_1().get_physical_device_properties2)(physical, &raw mut all) };
    }
    StoreIdentity {
        vendor: told.vendor_id,
        device: told.device_id,
        driver_version: told.driver_version,
        format,
        pipeline_cache_uuid: told.pipeline_cache_uuid,
        device_uuid: id.device_uuid,
    }
}
