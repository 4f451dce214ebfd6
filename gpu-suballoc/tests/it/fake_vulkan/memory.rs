//! Commands of device memory.

use super::*;

pub unsafe extern "system" fn allocate(
    _: vk::Device,
    info: *const vk::MemoryAllocateInfo<'_>,
    allocator: Callbacks<'_>,
    made: *mut vk::DeviceMemory,
) -> vk::Result {
    called(0, allocator);
    // SAFETY: one info.
    let info = unsafe { &*info };
    change(|fake| (fake.seen.size, fake.seen.memory_type) = (info.allocation_size, info.memory_type_index));
    walk(info.p_next, |structure| {
        // SAFETY: a structure of the chain.
        match unsafe { (*structure).s_type } {
            vk::StructureType::MEMORY_DEDICATED_ALLOCATE_INFO => {
                // SAFETY: of this type, by its `sType`.
                let told = unsafe { &*structure.cast::<vk::MemoryDedicatedAllocateInfo<'_>>() };
                change(|fake| fake.seen.dedicated = (told.buffer.as_raw(), told.image.as_raw()));
            }
            vk::StructureType::MEMORY_PRIORITY_ALLOCATE_INFO_EXT => {
                // SAFETY: of this type, by its `sType`.
                let told = unsafe { &*structure.cast::<vk::MemoryPriorityAllocateInfoEXT<'_>>() };
                change(|fake| fake.seen.priority = told.priority);
            }
            vk::StructureType::EXPORT_MEMORY_ALLOCATE_INFO => {
                // SAFETY: of this type, by its `sType`.
                let told = unsafe { &*structure.cast::<vk::ExportMemoryAllocateInfo<'_>>() };
                change(|fake| fake.seen.export = told.handle_types.as_raw());
            }
            vk::StructureType::MEMORY_ALLOCATE_FLAGS_INFO => {
                // SAFETY: of this type, by its `sType`.
                let told = unsafe { &*structure.cast::<vk::MemoryAllocateFlagsInfo<'_>>() };
                change(|fake| fake.seen.flags = told.flags.as_raw());
            }
            _ => {}
        }
    });
    // SAFETY: room for one handle.
    unsafe { made.write(vk::DeviceMemory::from_raw(0x3000)) };
    result()
}

pub unsafe extern "system" fn free(_: vk::Device, _: vk::DeviceMemory, allocator: Callbacks<'_>) {
    called(1, allocator);
}

pub unsafe extern "system" fn map(
    _: vk::Device,
    _: vk::DeviceMemory,
    offset: u64,
    _: u64,
    _: vk::MemoryMapFlags,
    first: *mut *mut c_void,
) -> vk::Result {
    called(2, ptr::null());
    // SAFETY: room for one pointer. Nobody looks at what it points to; 0 stands for a driver that maps nothing.
    unsafe { first.write(ptr::without_provenance_mut(offset as usize)) };
    result()
}

pub unsafe extern "system" fn unmap(_: vk::Device, _: vk::DeviceMemory) {
    called(3, ptr::null());
}

pub unsafe extern "system" fn flush(_: vk::Device, count: u32, ranges: *const vk::MappedMemoryRange<'_>) -> vk::Result {
    called(4, ptr::null());
    // SAFETY: `count` ranges, by Vulkan's contract.
    unsafe { note_ranges(count, ranges) }
}

pub unsafe extern "system" fn invalidate(
    _: vk::Device,
    count: u32,
    ranges: *const vk::MappedMemoryRange<'_>,
) -> vk::Result {
    called(5, ptr::null());
    // SAFETY: `count` ranges, by Vulkan's contract.
    unsafe { note_ranges(count, ranges) }
}

/// # Safety
/// So many ranges.
unsafe fn note_ranges(count: u32, ranges: *const vk::MappedMemoryRange<'_>) -> vk::Result {
    // SAFETY: `count` ranges, of which there is one at least.
    let last = unsafe { ranges.wrapping_add(count as usize - 1).read() };
    change(|fake| fake.seen.ranges = [fake.seen.ranges[1], (count, last.offset, last.size)]);
    result()
}

pub unsafe extern "system" fn commitment(_: vk::Device, _: vk::DeviceMemory, bytes: *mut vk::DeviceSize) {
    called(17, ptr::null());
    // SAFETY: room for one size.
    unsafe { bytes.write(4096) };
}
