//! Types, heaps and limits of the physical device, read once.

use ash::vk;

use super::commands::DeviceCommands;
use super::layout::{heap_of, type_of};
use crate::device::{DeviceFeatures, DeviceLimits, DeviceProperties, MAX_MEMORY_HEAPS, MemoryHeap};
use crate::memory_type::{MAX_MEMORY_TYPES, MemoryType};

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
        // SAFETY: the caller's promise.
        unsafe { (instance.get_physical_device_memory_properties)(physical, &raw mut memory) };
        // SAFETY: the caller's promise.
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
    let mut allocation = vk::PhysicalDeviceMaintenance3Properties {
        max_memory_allocation_size: u64::MAX,
        ..Default::default()
    };
    let mut buffer = vk::PhysicalDeviceMaintenance4Properties {
        max_buffer_size: u64::MAX,
        ..Default::default()
    };
    let mut properties = vk::PhysicalDeviceProperties2::default();
    let since_1_1 = |_: &_| api_version >= vk::API_VERSION_1_1;
    if let Some(properties2) = commands.properties2.filter(since_1_1) {
        properties = properties.push_next(&mut allocation);
        if api_version >= vk::API_VERSION_1_3 {
            properties = properties.push_next(&mut buffer);
        }
        // SAFETY: the caller's promise; the chain holds what the version knows.
        unsafe { properties2(physical, &raw mut properties) };
    } else {
        let core = &raw mut properties.properties;
        // SAFETY: the caller's promise.
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
        optimal_buffer_copy_offset_alignment: core.optimal_buffer_copy_offset_alignment,
    }
}
