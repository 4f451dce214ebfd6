//! The functions that are called. What Vulkan 1.0 has comes from ash's table; the rest is asked for by name, because ash's table
//! holds functions that panic where the driver has none.

use core::ffi::CStr;
use core::mem::transmute;

use ash::vk;

/// Each is in a table of ash's; every Vulkan 1.0 has it.
pub(super) const OF_INSTANCE: [&CStr; 2] = [
    c"vkGetPhysicalDeviceProperties",
    c"vkGetPhysicalDeviceMemoryProperties",
];
/// As [`OF_INSTANCE`]: the first fields of [`DeviceCommands`].
pub(super) const OF_DEVICE: [&CStr; 14] = [
    c"vkAllocateMemory",
    c"vkFreeMemory",
    c"vkMapMemory",
    c"vkUnmapMemory",
    c"vkFlushMappedMemoryRanges",
    c"vkInvalidateMappedMemoryRanges",
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
    pub(super) allocate_memory: vk::PFN_vkAllocateMemory,
    pub(super) free_memory: vk::PFN_vkFreeMemory,
    pub(super) map_memory: vk::PFN_vkMapMemory,
    pub(super) unmap_memory: vk::PFN_vkUnmapMemory,
    pub(super) flush_ranges: vk::PFN_vkFlushMappedMemoryRanges,
    pub(super) invalidate_ranges: vk::PFN_vkInvalidateMappedMemoryRanges,
    pub(super) create_buffer: vk::PFN_vkCreateBuffer,
    pub(super) destroy_buffer: vk::PFN_vkDestroyBuffer,
    pub(super) buffer_requirements: vk::PFN_vkGetBufferMemoryRequirements,
    pub(super) bind_buffer: vk::PFN_vkBindBufferMemory,
    pub(super) create_image: vk::PFN_vkCreateImage,
    pub(super) destroy_image: vk::PFN_vkDestroyImage,
    pub(super) image_requirements: vk::PFN_vkGetImageMemoryRequirements,
    pub(super) bind_image: vk::PFN_vkBindImageMemory,
    pub(super) requirements2: Option<Requirements2>,
    pub(super) buffer_address: Option<vk::PFN_vkGetBufferDeviceAddress>,
    pub(super) memory_properties2: Option<vk::PFN_vkGetPhysicalDeviceMemoryProperties2>,
    pub(super) properties2: Option<vk::PFN_vkGetPhysicalDeviceProperties2>,
}

/// An instance and a device, with what Vulkan 1.0 has of them.
pub(super) struct CommandTables<'t> {
    pub(super) get_instance_proc_addr: vk::PFN_vkGetInstanceProcAddr,
    pub(super) instance: vk::Instance,
    pub(super) of_instance: &'t ash::InstanceFnV1_0,
    pub(super) device: vk::Device,
    pub(super) of_device: &'t ash::DeviceFnV1_0,
}

/// There together or not at all.
#[derive(Clone, Copy)]
pub(super) struct Requirements2 {
    pub(super) buffer: vk::PFN_vkGetBufferMemoryRequirements2,
    pub(super) image: vk::PFN_vkGetImageMemoryRequirements2,
}

impl DeviceCommands {
    /// # Safety
    /// Instance and device are live, and of the tables and of each other; the version is not above either's.
    pub(super) unsafe fn load(tables: &CommandTables<'_>, api_version: u32) -> Self {
        let of_device = |since: u32, core: &'static CStr, others: &[&'static CStr]| {
            let core = (api_version >= since).then_some(core);
            core.into_iter()
                .chain(others.iter().copied())
                .find_map(|name| {
                    // SAFETY: the caller's promise; the name is a C string.
                    unsafe {
                        (tables.of_instance.get_device_proc_addr)(tables.device, name.as_ptr())
                    }
                })
        };
        let of_instance = |core: &'static CStr, other: &'static CStr| {
            let core = (api_version >= vk::API_VERSION_1_1).then_some(core);
            core.into_iter().chain([other]).find_map(|name| {
                // SAFETY: the caller's promise; the name is a C string.
                unsafe { (tables.get_instance_proc_addr)(tables.instance, name.as_ptr()) }
            })
        };
        let buffer2 = of_device(
            vk::API_VERSION_1_1,
            c"vkGetBufferMemoryRequirements2",
            &[c"vkGetBufferMemoryRequirements2KHR"],
        );
        let image2 = of_device(
            vk::API_VERSION_1_1,
            c"vkGetImageMemoryRequirements2",
            &[c"vkGetImageMemoryRequirements2KHR"],
        );
        let address = of_device(
            vk::API_VERSION_1_2,
            c"vkGetBufferDeviceAddress",
            &[
                c"vkGetBufferDeviceAddressKHR",
                c"vkGetBufferDeviceAddressEXT",
            ],
        );
        let memory2 = of_instance(
            c"vkGetPhysicalDeviceMemoryProperties2",
            c"vkGetPhysicalDeviceMemoryProperties2KHR",
        );
        let properties2 = of_instance(
            c"vkGetPhysicalDeviceProperties2",
            c"vkGetPhysicalDeviceProperties2KHR",
        );
        let requirements2 = buffer2.zip(image2).map(|(buffer, image)| Requirements2 {
            // SAFETY: the function of this name, with or without suffix, has this type.
            buffer: unsafe { transmute::<Void, vk::PFN_vkGetBufferMemoryRequirements2>(buffer) },
            // SAFETY: as above.
            image: unsafe { transmute::<Void, vk::PFN_vkGetImageMemoryRequirements2>(image) },
        });
        let table = tables.of_device;
        Self {
            allocate_memory: table.allocate_memory,
            free_memory: table.free_memory,
            map_memory: table.map_memory,
            unmap_memory: table.unmap_memory,
            flush_ranges: table.flush_mapped_memory_ranges,
            invalidate_ranges: table.invalidate_mapped_memory_ranges,
            create_buffer: table.create_buffer,
            destroy_buffer: table.destroy_buffer,
            buffer_requirements: table.get_buffer_memory_requirements,
            bind_buffer: table.bind_buffer_memory,
            create_image: table.create_image,
            destroy_image: table.destroy_image,
            image_requirements: table.get_image_memory_requirements,
            bind_image: table.bind_image_memory,
            requirements2,
            // SAFETY: the function of this name, with or without suffix, has this type.
            buffer_address: address
                .map(|f| unsafe { transmute::<Void, vk::PFN_vkGetBufferDeviceAddress>(f) }),
            // SAFETY: as above.
            memory_properties2: memory2.map(|f| unsafe {
                transmute::<Void, vk::PFN_vkGetPhysicalDeviceMemoryProperties2>(f)
            }),
            // SAFETY: as above.
            properties2: properties2
                .map(|f| unsafe { transmute::<Void, vk::PFN_vkGetPhysicalDeviceProperties2>(f) }),
        }
    }
}

/// `PFN_vkVoidFunction` that is there.
type Void = unsafe extern "system" fn();
