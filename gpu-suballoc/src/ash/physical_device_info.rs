//! Types, heaps and limits of the physical device, asked once.

use ash::vk;

use super::commands::DeviceCommands;
use super::layout::{heap_of, type_of};
use crate::device::{
    DeviceFeatures, DeviceLimits, DeviceProperties, HeapFlags, MAX_MEMORY_HEAPS, MemoryHeap,
};
use crate::memory_type::{MAX_MEMORY_TYPES, MemoryType};
use crate::property_flags::PropertyFlags;

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
        let mut types = [MemoryType {
            properties: PropertyFlags::NONE,
            heap_index: 0,
        }; MAX_MEMORY_TYPES];
        types
            .iter_mut()
            .zip(&memory.memory_types)
            .for_each(|(kind, told)| *kind = type_of(told));
        let mut heaps = [MemoryHeap::new(0, HeapFlags::NONE); MAX_MEMORY_HEAPS];
        heaps
            .iter_mut()
            .zip(&memory.memory_heaps)
            .for_each(|(heap, told)| *heap = heap_of(told));
        // SAFETY: the caller's promise.
        let limits = unsafe { limits(instance, commands, physical, api_version) };
        Self {
            types,
            type_count: memory.memory_type_count as usize,
            heaps,
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
    // What a device does not tell has no limit.
    let mut allocation = vk::PhysicalDeviceMaintenance3Properties {
        max_memory_allocation_size: u64::MAX,
        ..Default::default()
    };
    let mut buffer = vk::PhysicalDeviceMaintenance4Properties {
        max_buffer_size: u64::MAX,
        ..Default::default()
    };
    let told = match commands
        .properties2
        .filter(|_| api_version >= vk::API_VERSION_1_1)
    {
        Some(properties2) => {
            let mut told = vk::PhysicalDeviceProperties2::default().push_next(&mut allocation);
            if api_version >= vk::API_VERSION_1_3 {
                told = told.push_next(&mut buffer);
            }
            // SAFETY: the caller's promise; the chain holds what the version knows.
            unsafe { properties2(physical, &raw mut told) };
            told.properties.limits
        }
        None => {
            let mut told = vk::PhysicalDeviceProperties::default();
            // SAFETY: the caller's promise.
            unsafe { (instance.get_physical_device_properties)(physical, &raw mut told) };
            told.limits
        }
    };
    DeviceLimits {
        buffer_image_granularity: told.buffer_image_granularity,
        non_coherent_atom_size: told.non_coherent_atom_size,
        max_memory_allocation_count: told.max_memory_allocation_count,
        max_memory_allocation_size: allocation.max_memory_allocation_size,
        max_buffer_size: buffer.max_buffer_size,
        min_memory_map_alignment: told.min_memory_map_alignment as u64,
        min_storage_buffer_offset_alignment: told.min_storage_buffer_offset_alignment,
        min_uniform_buffer_offset_alignment: told.min_uniform_buffer_offset_alignment,
        min_texel_buffer_offset_alignment: told.min_texel_buffer_offset_alignment,
        optimal_buffer_copy_offset_alignment: told.optimal_buffer_copy_offset_alignment,
    }
}
