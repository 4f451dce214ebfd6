//! The functions of Vulkan 1.0 come from ash's table. Later ones are loaded by name, because a function of ash's table
//! panics if the driver has none.

use core::ffi::CStr;
use core::mem::transmute_copy;

use crate::device::DeviceFeatures;
use ash::vk;

pub(super) const OF_INSTANCE: [&CStr; 2] = [c"vkGetPhysicalDeviceProperties", c"vkGetPhysicalDeviceMemoryProperties"];
pub(super) const OF_DEVICE: [&CStr; 15] = [
    c"vkAllocateMemory",
    c"vkFreeMemory",
    c"vkMapMemory",
    c"vkUnmapMemory",
    c"vkFlushMappedMemoryRanges",
    c"vkInvalidateMappedMemoryRanges",
    c"vkGetDeviceMemoryCommitment",
    c"vkCreateBuffer",
    c"vkDestroyBuffer",
    c"vkGetBufferMemoryRequirements",
    c"vkBindBufferMemory",
    c"vkCreateImage",
    c"vkDestroyImage",
    c"vkGetImageMemoryRequirements",
    c"vkBindImageMemory",
];

pub(super) struct DeviceCommands {
    pub(super) core: ash::DeviceFnV1_0,
    pub(super) requirements2: Option<Requirements2>,
    pub(super) buffer_address: Option<vk::PFN_vkGetBufferDeviceAddress>,
    pub(super) physical_device2: PhysicalDevice2,
}

pub(super) struct CommandTables<'t> {
    pub(super) of_instance: &'t ash::InstanceFnV1_0,
    pub(super) physical_device2: PhysicalDevice2,
    pub(super) device: vk::Device,
    pub(super) of_device: &'t ash::DeviceFnV1_0,
}

#[derive(Clone, Copy, Default)]
pub(super) struct PhysicalDevice2 {
    pub(super) memory_properties: Option<vk::PFN_vkGetPhysicalDeviceMemoryProperties2>,
    pub(super) properties: Option<vk::PFN_vkGetPhysicalDeviceProperties2>,
}

impl PhysicalDevice2 {
    /// # Safety
    /// The instance is live and of this loader or driver; the version is at most the instance's.
    pub(super) unsafe fn load(
        get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
        instance: vk::Instance,
        api_version: u32,
    ) -> Self {
        let find = |core: &'static CStr, other: &'static CStr| {
            let core = (api_version >= vk::API_VERSION_1_1).then_some(core);
            core.into_iter().chain([other]).find_map(|name| {
                // SAFETY: the instance is live and of this loader, and the name is a C string.
                unsafe { get_instance_proc_addr(instance, name.as_ptr()) }
            })
        };
        let memory_properties =
            find(c"vkGetPhysicalDeviceMemoryProperties2", c"vkGetPhysicalDeviceMemoryProperties2KHR");
        let properties = find(c"vkGetPhysicalDeviceProperties2", c"vkGetPhysicalDeviceProperties2KHR");
        Self {
            // SAFETY: functions of this name have the field's type.
            memory_properties: unsafe { cast(memory_properties) },
            // SAFETY: functions of this name have the field's type.
            properties: unsafe { cast(properties) },
        }
    }

    pub(super) fn of_instance(instance: &ash::Instance, api_version: u32) -> Self {
        if api_version < vk::API_VERSION_1_1 {
            return Self::default();
        }
        let table = instance.fp_v1_1();
        Self {
            memory_properties: Some(table.get_physical_device_memory_properties2),
            properties: Some(table.get_physical_device_properties2),
        }
    }
}

/// Both or neither.
#[derive(Clone, Copy)]
pub(super) struct Requirements2 {
    pub(super) buffer: vk::PFN_vkGetBufferMemoryRequirements2,
    pub(super) image: vk::PFN_vkGetImageMemoryRequirements2,
}

impl DeviceCommands {
    /// # Safety
    /// Instance and device are live and belong to the tables and to each other; the version is at most that of either,
    /// and the device was made with the features.
    pub(super) unsafe fn load(tables: &CommandTables<'_>, api_version: u32, features: &DeviceFeatures) -> Self {
        let of_device = |is_known: bool, core: &'static CStr, others: &[&'static CStr]| {
            let core = is_known.then_some(core);
            core.into_iter().chain(others.iter().copied()).find_map(|name| {
                // SAFETY: the device is live and of these tables, and the name is a C string.
                unsafe { (tables.of_instance.get_device_proc_addr)(tables.device, name.as_ptr()) }
            })
        };
        let is_1_1 = api_version >= vk::API_VERSION_1_1 || features.dedicated_allocation;
        let buffer2 = of_device(is_1_1, c"vkGetBufferMemoryRequirements2", &[c"vkGetBufferMemoryRequirements2KHR"]);
        let image2 = of_device(is_1_1, c"vkGetImageMemoryRequirements2", &[c"vkGetImageMemoryRequirements2KHR"]);
        let address = of_device(
            api_version >= vk::API_VERSION_1_2 || features.buffer_device_address,
            c"vkGetBufferDeviceAddress",
            &[c"vkGetBufferDeviceAddressKHR", c"vkGetBufferDeviceAddressEXT"],
        );
        // SAFETY: functions of this name have the type of `Requirements2::buffer`.
        let buffer = unsafe { cast(buffer2) };
        // SAFETY: functions of this name have the type of `Requirements2::image`.
        let image = unsafe { cast(image2) };
        Self {
            core: tables.of_device.clone(),
            requirements2: buffer.zip(image).map(|(buffer, image)| Requirements2 { buffer, image }),
            // SAFETY: functions of this name have the field's type.
            buffer_address: unsafe { cast(address) },
            physical_device2: tables.physical_device2,
        }
    }
}

/// # Safety
/// `F` is the type of the function.
unsafe fn cast<F: Copy>(function: vk::PFN_vkVoidFunction) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<unsafe extern "system" fn()>()) };
    // SAFETY: `F` is the function's type; both are function pointers.
    function.map(|function| unsafe { transmute_copy(&function) })
}
