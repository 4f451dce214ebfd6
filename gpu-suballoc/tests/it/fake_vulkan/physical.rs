//! What the physical device says of itself.

use super::*;

const LIMITS: vk::PhysicalDeviceLimits = {
    // SAFETY: numbers alone; zeros are some.
    let mut limits: vk::PhysicalDeviceLimits = unsafe { std::mem::zeroed() };
    limits.buffer_image_granularity = 1024;
    limits.non_coherent_atom_size = 128;
    limits.max_memory_allocation_count = 99;
    limits.min_memory_map_alignment = 64;
    limits
};

pub unsafe extern "system" fn properties(_: vk::PhysicalDevice, told: *mut vk::PhysicalDeviceProperties) {
    let properties = vk::PhysicalDeviceProperties { limits: LIMITS, ..Default::default() };
    // SAFETY: room for one.
    unsafe { told.write(properties) };
}

pub unsafe extern "system" fn properties2(_: vk::PhysicalDevice, told: *mut vk::PhysicalDeviceProperties2<'_>) {
    // SAFETY: a structure to be filled in.
    let told = unsafe { &mut *told };
    told.properties.limits = LIMITS;
    walk(told.p_next.cast_const(), |structure| {
        // SAFETY: a structure of the chain, which may be written to here.
        match unsafe { (*structure).s_type } {
            vk::StructureType::PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES => {
                let told = structure.cast::<vk::PhysicalDeviceMaintenance3Properties<'_>>().cast_mut();
                // SAFETY: of this type, by its `sType`.
                unsafe { (*told).max_memory_allocation_size = 1 << 31 };
            }
            vk::StructureType::PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES => {
                let told = structure.cast::<vk::PhysicalDeviceMaintenance4Properties<'_>>().cast_mut();
                // SAFETY: of this type, by its `sType`.
                unsafe { (*told).max_buffer_size = 1 << 30 };
            }
            _ => {}
        }
    });
}

pub unsafe extern "system" fn memory_properties(_: vk::PhysicalDevice, told: *mut vk::PhysicalDeviceMemoryProperties) {
    // SAFETY: a structure to be filled in.
    unsafe { told.write(memory()) };
}

pub unsafe extern "system" fn memory_properties2(
    _: vk::PhysicalDevice,
    told: *mut vk::PhysicalDeviceMemoryProperties2<'_>,
) {
    // SAFETY: a structure to be filled in.
    let told = unsafe { &mut *told };
    told.memory_properties = memory();
    walk(told.p_next.cast_const(), |structure| {
        // SAFETY: a structure of the chain.
        if unsafe { (*structure).s_type } == vk::StructureType::PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT {
            let told = structure.cast::<vk::PhysicalDeviceMemoryBudgetPropertiesEXT<'_>>().cast_mut();
            // SAFETY: of this type, by its `sType`, and to be filled in.
            let told = unsafe { &mut *told };
            (told.heap_usage[0], told.heap_budget[0], told.heap_usage[1], told.heap_budget[1]) = (10, 20, 30, 40);
        }
    });
}

fn memory() -> vk::PhysicalDeviceMemoryProperties {
    let kind = |property_flags, heap_index| vk::MemoryType { property_flags, heap_index };
    let heap = |size, flags| vk::MemoryHeap { size, flags };
    vk::PhysicalDeviceMemoryProperties::default()
        .memory_types(&[
            kind(vk::MemoryPropertyFlags::DEVICE_LOCAL, 0),
            kind(vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT, 1),
        ])
        .memory_heaps(&[heap(1 << 30, vk::MemoryHeapFlags::DEVICE_LOCAL), heap(1 << 31, vk::MemoryHeapFlags::empty())])
}
