use super::commands::DeviceCommands;
use super::layout::{heap_of, type_of};
use crate::device::{DeviceFeatures, DeviceLimits, DeviceProperties, MAX_MEMORY_HEAPS, MemoryHeap};
use crate::group::{CapabilityFlags, DeviceCapabilities, HandleTypes};
use crate::memory_type::{MAX_MEMORY_TYPES, MemoryType};
use ash::vk;
use core::ffi::CStr;

pub(super) struct PhysicalDeviceInfo {
    types: [MemoryType; MAX_MEMORY_TYPES],
    type_count: usize,
    heaps: [MemoryHeap; MAX_MEMORY_HEAPS],
    heap_count: usize,
    limits: DeviceLimits,
    pub(super) features: DeviceFeatures,
}

impl PhysicalDeviceInfo {
    /// # Safety
    /// The physical device is of the instance, and supports the version.
    pub(super) unsafe fn query(
        instance: &ash::InstanceFnV1_0,
        commands: &DeviceCommands,
        physical: vk::PhysicalDevice,
        api_version: u32,
        features: DeviceFeatures,
    ) -> Self {
        let mut memory = vk::PhysicalDeviceMemoryProperties::default();
        // SAFETY: the physical device is live and the instance's (`query`).
        unsafe { (instance.get_physical_device_memory_properties)(physical, &raw mut memory) };
        // SAFETY: the physical device is the instance's, and supports the version (`query`).
        let limits = unsafe { limits(instance, commands, physical, api_version) };
        Self {
            types: memory.memory_types.each_ref().map(type_of),
            type_count: memory.memory_type_count as usize,
            heaps: memory.memory_heaps.each_ref().map(heap_of),
            heap_count: memory.memory_heap_count as usize,
            limits,
            features,
        }
    }

    pub(super) fn properties(&self) -> DeviceProperties<'_> {
        DeviceProperties {
            types: self.types.get(..self.type_count).unwrap_or(&self.types),
            heaps: self.heaps.get(..self.heap_count).unwrap_or(&self.heaps),
            limits: self.limits,
            features: self.features,
        }
    }
}

/// # Safety
/// As [`PhysicalDeviceInfo::query`].
unsafe fn limits(
    instance: &ash::InstanceFnV1_0,
    commands: &DeviceCommands,
    physical: vk::PhysicalDevice,
    api_version: u32,
) -> DeviceLimits {
    // A limit that a device does not report is none.
    let mut allocation =
        vk::PhysicalDeviceMaintenance3Properties { max_memory_allocation_size: u64::MAX, ..Default::default() };
    let mut buffer = vk::PhysicalDeviceMaintenance4Properties { max_buffer_size: u64::MAX, ..Default::default() };
    let mut properties = vk::PhysicalDeviceProperties2::default();
    let since_1_1 = |_: &_| api_version >= vk::API_VERSION_1_1;
    if let Some(properties2) = commands.physical_device2.properties.filter(since_1_1) {
        properties = properties.push_next(&mut allocation);
        if api_version >= vk::API_VERSION_1_3 {
            properties = properties.push_next(&mut buffer);
        }
        // SAFETY: the physical device supports the version (`limits`), which knows what the chain holds.
        unsafe { properties2(physical, &raw mut properties) };
    } else {
        let core = &raw mut properties.properties;
        // SAFETY: the physical device is live and the instance's (`limits`).
        unsafe { (instance.get_physical_device_properties)(physical, core) };
    }
    let core = properties.properties.limits;
    DeviceLimits {
        buffer_image_granularity: core.buffer_image_granularity,
        non_coherent_atom_size: core.non_coherent_atom_size,
        max_memory_allocation_count: core.max_memory_allocation_count,
        max_memory_allocation_size: allocation.max_memory_allocation_size,
        max_buffer_size: buffer.max_buffer_size,
        min_memory_map_alignment: core.min_memory_map_alignment as u64,
        min_storage_buffer_offset_alignment: core.min_storage_buffer_offset_alignment,
        min_uniform_buffer_offset_alignment: core.min_uniform_buffer_offset_alignment,
        min_texel_buffer_offset_alignment: core.min_texel_buffer_offset_alignment,
    }
}

/// The capabilities that Vulkan reports for a device created with these extensions.
///
/// Memory is never unified, since no object of one `VkDevice` is usable on another. Below Vulkan 1.1 there are no
/// capabilities.
///
/// # Safety
/// `physical` is of `instance`, both live; `api_version` is the lesser of what the application named and what the
/// device supports; `extensions` are supported by it.
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
    let knows_driver = api_version >= vk::API_VERSION_1_2 || has(vk::KHR_DRIVER_PROPERTIES_NAME);
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut id);
    if knows_driver {
        properties = properties.push_next(&mut driver);
    }
    // SAFETY: `physical` is live and of `instance`; version and extensions know the chain.
    unsafe { (instance.fp_v1_1().get_physical_device_properties2)(physical, &raw mut properties) };
    // SAFETY: `physical` is of `instance`, and the version is 1.1 at least.
    let (buffer_import, buffer_export) = unsafe { buffer_handles(instance, physical, has) };
    // SAFETY: `physical` is of `instance`, and the version is 1.1 at least.
    let (semaphore_import, semaphore_export) = unsafe { semaphore_handles(instance, physical, has) };
    DeviceCapabilities {
        driver: (knows_driver && driver.driver_id.as_raw() != 0).then_some(driver.driver_id.as_raw() as u32),
        device_uuid: Some(id.device_uuid),
        driver_uuid: Some(id.driver_uuid),
        flags: CapabilityFlags::NONE,
        semaphore_import,
        semaphore_export,
        buffer_import,
        buffer_export,
    }
}

fn handle_types<T, const N: usize>(
    types: [(&CStr, T, HandleTypes); N],
    has: impl Fn(&CStr) -> bool,
    features: impl Fn(T) -> (bool, bool),
) -> (HandleTypes, HandleTypes) {
    let (mut import, mut export) = (HandleTypes::NONE, HandleTypes::NONE);
    for (_, raw, handle) in types.into_iter().filter(|(extension, ..)| has(extension)) {
        let (importable, exportable) = features(raw);
        if importable {
            import = import | handle;
        }
        if exportable {
            export = export | handle;
        }
    }
    (import, export)
}

/// # Safety
/// As [`physical_device_capabilities`]; the version is 1.1 at least.
unsafe fn buffer_handles(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    has: impl Fn(&CStr) -> bool,
) -> (HandleTypes, HandleTypes) {
    use vk::{ExternalMemoryFeatureFlags as Features, ExternalMemoryHandleTypeFlags as Types};
    let usage =
        vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
    let types = [
        (vk::KHR_EXTERNAL_MEMORY_FD_NAME, Types::OPAQUE_FD, HandleTypes::OPAQUE_FD),
        (vk::KHR_EXTERNAL_MEMORY_WIN32_NAME, Types::OPAQUE_WIN32, HandleTypes::OPAQUE_WIN32),
        (vk::EXT_EXTERNAL_MEMORY_DMA_BUF_NAME, Types::DMA_BUF_EXT, HandleTypes::DMA_BUF),
        (vk::EXT_EXTERNAL_MEMORY_HOST_NAME, Types::HOST_ALLOCATION_EXT, HandleTypes::HOST_ALLOCATION),
    ];
    let query = instance.fp_v1_1().get_physical_device_external_buffer_properties;
    handle_types(types, has, |raw| {
        let info = vk::PhysicalDeviceExternalBufferInfo::default().usage(usage).handle_type(raw);
        let mut properties = vk::ExternalBufferProperties::default();
        // SAFETY: `physical` is live and supports 1.1; its extension knows the handle type.
        unsafe { query(physical, &raw const info, &raw mut properties) };
        let can = properties.external_memory_properties.external_memory_features;
        (can.contains(Features::IMPORTABLE), can.contains(Features::EXPORTABLE))
    })
}

/// # Safety
/// As [`physical_device_capabilities`]; the version is 1.1 at least.
unsafe fn semaphore_handles(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    has: impl Fn(&CStr) -> bool,
) -> (HandleTypes, HandleTypes) {
    use vk::{ExternalSemaphoreFeatureFlags as Features, ExternalSemaphoreHandleTypeFlags as Types};
    let types = [
        (vk::KHR_EXTERNAL_SEMAPHORE_FD_NAME, Types::OPAQUE_FD, HandleTypes::OPAQUE_FD),
        (vk::KHR_EXTERNAL_SEMAPHORE_FD_NAME, Types::SYNC_FD, HandleTypes::SYNC_FD),
        (vk::KHR_EXTERNAL_SEMAPHORE_WIN32_NAME, Types::OPAQUE_WIN32, HandleTypes::OPAQUE_WIN32),
    ];
    let query = instance.fp_v1_1().get_physical_device_external_semaphore_properties;
    handle_types(types, has, |raw| {
        let info = vk::PhysicalDeviceExternalSemaphoreInfo::default().handle_type(raw);
        let mut properties = vk::ExternalSemaphoreProperties::default();
        // SAFETY: `physical` is live and supports 1.1; its extension knows the handle type.
        unsafe { query(physical, &raw const info, &raw mut properties) };
        let can = properties.external_semaphore_features;
        (can.contains(Features::IMPORTABLE), can.contains(Features::EXPORTABLE))
    })
}
