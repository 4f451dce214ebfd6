//! What a physical device says of itself that matters between devices.

use core::ffi::CStr;

use ash::vk;

use crate::group::{CapabilityFlags, DeviceCapabilities, HandleTypes, PciAddress};

/// What Vulkan tells of a device that is, or will be, made with these extensions.
///
/// Links, costs and NUMA nodes are not among it: Vulkan has no words for them. Nor is unified memory, since no object of one `VkDevice`
/// is usable on another, whatever memory it lies in. Below Vulkan 1.1 there are no UUIDs and no external handles: nothing is known then.
///
/// Vulkan specification, *Physical Device Properties* (`VkPhysicalDeviceIDProperties`, `VkPhysicalDeviceDriverProperties`,
/// `VkPhysicalDevicePCIBusInfoPropertiesEXT`), *Additional Buffer DeviceCapabilities* and *Additional Semaphore DeviceCapabilities*.
///
/// # Safety
/// `physical` is of `instance`, both live; `api_version` is the lesser of what the application named and what the device supports;
/// `extensions` are supported by it.
#[must_use]
pub unsafe fn physical_device_capabilities(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    api_version: u32,
    extensions: &[&CStr],
) -> DeviceCapabilities {
    if api_version < vk::API_VERSION_1_1 {
        return DeviceCapabilities::default();
    }
    let has = |name: &CStr| extensions.contains(&name);
    let mut id = vk::PhysicalDeviceIDProperties::default();
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut bus = vk::PhysicalDevicePCIBusInfoPropertiesEXT::default();
    let (knows_driver, knows_bus) = (
        api_version >= vk::API_VERSION_1_2 || has(vk::KHR_DRIVER_PROPERTIES_NAME),
        has(vk::EXT_PCI_BUS_INFO_NAME),
    );
    let mut told = vk::PhysicalDeviceProperties2::default().push_next(&mut id);
    if knows_driver {
        told = told.push_next(&mut driver);
    }
    if knows_bus {
        told = told.push_next(&mut bus);
    }
    // SAFETY: the caller's promise; 1.1 has the command, and the chain holds what version and extensions know.
    unsafe { (instance.fp_v1_1().get_physical_device_properties2)(physical, &raw mut told) };
    // SAFETY: the caller's promise.
    let (buffer_import, buffer_export) = unsafe { buffer_handles(instance, physical, &has) };
    // SAFETY: as above.
    let (semaphore_import, semaphore_export) =
        unsafe { semaphore_handles(instance, physical, &has) };
    DeviceCapabilities {
        driver: (knows_driver && driver.driver_id.as_raw() != 0)
            .then_some(driver.driver_id.as_raw() as u32),
        device_uuid: Some(id.device_uuid),
        driver_uuid: Some(id.driver_uuid),
        device_luid: (id.device_luid_valid != vk::FALSE).then_some(id.device_luid),
        // SAFETY: as above.
        flags: unsafe { flags(instance, physical, api_version) },
        semaphore_import,
        semaphore_export,
        buffer_import,
        buffer_export,
        numa_node: None,
        pci: knows_bus.then_some(PciAddress {
            domain: bus.pci_domain,
            bus: bus.pci_bus as u8,
            device: bus.pci_device as u8,
            function: bus.pci_function as u8,
        }),
    }
}

/// # Safety
/// As [`physical_device_capabilities`]; the version is 1.1 at least.
unsafe fn flags(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    api_version: u32,
) -> CapabilityFlags {
    let mut memory = vk::PhysicalDeviceMemoryProperties::default();
    // SAFETY: the caller's promise.
    unsafe {
        (instance.fp_v1_0().get_physical_device_memory_properties)(physical, &raw mut memory)
    };
    let shared = vk::MemoryPropertyFlags::DEVICE_LOCAL | vk::MemoryPropertyFlags::HOST_COHERENT;
    let coherent = memory
        .memory_types_as_slice()
        .iter()
        .any(|kind| kind.property_flags.contains(shared));
    let mut timeline = vk::PhysicalDeviceTimelineSemaphoreFeatures::default();
    let mut features = vk::PhysicalDeviceFeatures2::default();
    if api_version >= vk::API_VERSION_1_2 {
        features = features.push_next(&mut timeline);
    }
    // SAFETY: as above; the chain holds what the version knows.
    unsafe { (instance.fp_v1_1().get_physical_device_features2)(physical, &raw mut features) };
    let mut flags = CapabilityFlags::DEVICE_ATOMICS;
    if coherent {
        flags = flags | CapabilityFlags::HOST_COHERENT;
    }
    if timeline.timeline_semaphore != vk::FALSE {
        flags = flags | CapabilityFlags::TIMELINE_SEMAPHORE;
    }
    flags
}

/// Handles of buffers that are copied from and to: those that can be taken in, those that can be given out.
///
/// # Safety
/// As [`flags`].
unsafe fn buffer_handles(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    has: &impl Fn(&CStr) -> bool,
) -> (HandleTypes, HandleTypes) {
    let usage = vk::BufferUsageFlags::STORAGE_BUFFER
        | vk::BufferUsageFlags::TRANSFER_SRC
        | vk::BufferUsageFlags::TRANSFER_DST;
    let ways = [
        (
            vk::KHR_EXTERNAL_MEMORY_FD_NAME,
            vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD,
            HandleTypes::OPAQUE_FD,
        ),
        (
            vk::KHR_EXTERNAL_MEMORY_WIN32_NAME,
            vk::ExternalMemoryHandleTypeFlags::OPAQUE_WIN32,
            HandleTypes::OPAQUE_WIN32,
        ),
        (
            vk::EXT_EXTERNAL_MEMORY_DMA_BUF_NAME,
            vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT,
            HandleTypes::DMA_BUF,
        ),
        (
            vk::EXT_EXTERNAL_MEMORY_HOST_NAME,
            vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT,
            HandleTypes::HOST_ALLOCATION,
        ),
    ];
    let (mut import, mut export) = (HandleTypes::NONE, HandleTypes::NONE);
    for (_, raw, handle) in ways.into_iter().filter(|(extension, ..)| has(extension)) {
        let info = vk::PhysicalDeviceExternalBufferInfo::default()
            .usage(usage)
            .handle_type(raw);
        let mut told = vk::ExternalBufferProperties::default();
        // SAFETY: the caller's promise; 1.1 has the command, and the extension knows the handle type.
        unsafe {
            (instance
                .fp_v1_1()
                .get_physical_device_external_buffer_properties)(
                physical,
                &raw const info,
                &raw mut told,
            )
        };
        let can = told.external_memory_properties.external_memory_features;
        if can.contains(vk::ExternalMemoryFeatureFlags::IMPORTABLE) {
            import = import | handle;
        }
        if can.contains(vk::ExternalMemoryFeatureFlags::EXPORTABLE) {
            export = export | handle;
        }
    }
    (import, export)
}

/// As [`buffer_handles`], of binary semaphores.
///
/// # Safety
/// As [`flags`].
unsafe fn semaphore_handles(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    has: &impl Fn(&CStr) -> bool,
) -> (HandleTypes, HandleTypes) {
    let ways = [
        (
            vk::KHR_EXTERNAL_SEMAPHORE_FD_NAME,
            vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD,
            HandleTypes::OPAQUE_FD,
        ),
        (
            vk::KHR_EXTERNAL_SEMAPHORE_FD_NAME,
            vk::ExternalSemaphoreHandleTypeFlags::SYNC_FD,
            HandleTypes::SYNC_FD,
        ),
        (
            vk::KHR_EXTERNAL_SEMAPHORE_WIN32_NAME,
            vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_WIN32,
            HandleTypes::OPAQUE_WIN32,
        ),
    ];
    let (mut import, mut export) = (HandleTypes::NONE, HandleTypes::NONE);
    for (_, raw, handle) in ways.into_iter().filter(|(extension, ..)| has(extension)) {
        let info = vk::PhysicalDeviceExternalSemaphoreInfo::default().handle_type(raw);
        let mut told = vk::ExternalSemaphoreProperties::default();
        // SAFETY: the caller's promise; 1.1 has the command, and the extension knows the handle type.
        unsafe {
            (instance
                .fp_v1_1()
                .get_physical_device_external_semaphore_properties)(
                physical,
                &raw const info,
                &raw mut told,
            )
        };
        if told
            .external_semaphore_features
            .contains(vk::ExternalSemaphoreFeatureFlags::IMPORTABLE)
        {
            import = import | handle;
        }
        if told
            .external_semaphore_features
            .contains(vk::ExternalSemaphoreFeatureFlags::EXPORTABLE)
        {
            export = export | handle;
        }
    }
    (import, export)
}
