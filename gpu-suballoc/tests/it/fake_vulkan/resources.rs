//! Commands of buffers and images.

use super::*;

pub unsafe extern "system" fn create_buffer(
    _: vk::Device,
    info: *const vk::BufferCreateInfo<'_>,
    allocator: Callbacks<'_>,
    made: *mut vk::Buffer,
) -> vk::Result {
    called(6, allocator);
    // SAFETY: one info.
    let info = unsafe { &*info };
    // SAFETY: so many families.
    let families =
        unsafe { std::slice::from_raw_parts(info.p_queue_family_indices, info.queue_family_index_count as usize) };
    note_resource(info.size, families, info.sharing_mode, info.p_next);
    // SAFETY: room for one handle.
    unsafe { made.write(vk::Buffer::from_raw(0x4000)) };
    result()
}

pub unsafe extern "system" fn destroy_buffer(_: vk::Device, _: vk::Buffer, allocator: Callbacks<'_>) {
    called(7, allocator);
}

const NEEDS: vk::MemoryRequirements = vk::MemoryRequirements { size: 256, alignment: 64, memory_type_bits: 0b11 };

pub unsafe extern "system" fn buffer_requirements(_: vk::Device, _: vk::Buffer, told: *mut vk::MemoryRequirements) {
    called(8, ptr::null());
    // SAFETY: room for one.
    unsafe { told.write(NEEDS) };
}

pub unsafe extern "system" fn bind_buffer(
    _: vk::Device,
    _: vk::Buffer,
    _: vk::DeviceMemory,
    offset: u64,
) -> vk::Result {
    called(9, ptr::null());
    change(|fake| fake.seen.size = offset);
    result()
}

pub unsafe extern "system" fn create_image(
    _: vk::Device,
    info: *const vk::ImageCreateInfo<'_>,
    allocator: Callbacks<'_>,
    made: *mut vk::Image,
) -> vk::Result {
    called(10, allocator);
    // SAFETY: one info.
    let info = unsafe { &*info };
    // SAFETY: so many families.
    let families =
        unsafe { std::slice::from_raw_parts(info.p_queue_family_indices, info.queue_family_index_count as usize) };
    note_resource(0, families, info.sharing_mode, info.p_next);
    change(|fake| fake.seen.extent = (info.extent.width, info.extent.height, info.extent.depth));
    // SAFETY: room for one handle.
    unsafe { made.write(vk::Image::from_raw(0x5000)) };
    result()
}

fn note_resource(size: u64, families: &[u32], mode: vk::SharingMode, next: *const c_void) {
    change(|fake| {
        fake.seen.families = [u32::MAX; 3];
        fake.seen.families.iter_mut().zip(families).for_each(|(place, family)| *place = *family);
        (fake.seen.size, fake.seen.concurrent, fake.seen.external) = (size, mode == vk::SharingMode::CONCURRENT, 0);
    });
    walk(next, |structure| {
        // SAFETY: the two structures of external memory have the same fields.
        let told = unsafe { &*structure.cast::<vk::ExternalMemoryBufferCreateInfo<'_>>() };
        change(|fake| fake.seen.external = told.handle_types.as_raw());
    });
}

pub unsafe extern "system" fn destroy_image(_: vk::Device, _: vk::Image, allocator: Callbacks<'_>) {
    called(11, allocator);
}

pub unsafe extern "system" fn image_requirements(_: vk::Device, _: vk::Image, told: *mut vk::MemoryRequirements) {
    called(12, ptr::null());
    // SAFETY: room for one.
    unsafe { told.write(NEEDS) };
}

pub unsafe extern "system" fn bind_image(_: vk::Device, _: vk::Image, _: vk::DeviceMemory, offset: u64) -> vk::Result {
    called(13, ptr::null());
    change(|fake| fake.seen.size = offset);
    result()
}

pub unsafe extern "system" fn buffer_requirements2(
    _: vk::Device,
    _: *const vk::BufferMemoryRequirementsInfo2<'_>,
    told: *mut vk::MemoryRequirements2<'_>,
) {
    called(14, ptr::null());
    // SAFETY: room for one, by Vulkan's contract.
    unsafe { requirements2(told) }
}

pub unsafe extern "system" fn image_requirements2(
    _: vk::Device,
    _: *const vk::ImageMemoryRequirementsInfo2<'_>,
    told: *mut vk::MemoryRequirements2<'_>,
) {
    called(15, ptr::null());
    // SAFETY: room for one, by Vulkan's contract.
    unsafe { requirements2(told) }
}

/// # Safety
/// A structure to be filled in.
unsafe fn requirements2(told: *mut vk::MemoryRequirements2<'_>) {
    // SAFETY: room for one, by Vulkan's contract.
    let told = unsafe { &mut *told };
    told.memory_requirements = NEEDS;
    walk(told.p_next.cast_const(), |structure| {
        let (prefers, requires) = fake().dedicated;
        let told = structure.cast::<vk::MemoryDedicatedRequirements<'_>>().cast_mut();
        // SAFETY: the one structure that may be here, and to be filled in.
        let told = unsafe { &mut *told };
        (told.prefers_dedicated_allocation, told.requires_dedicated_allocation) = (prefers.into(), requires.into());
    });
}

pub unsafe extern "system" fn buffer_address(_: vk::Device, _: *const vk::BufferDeviceAddressInfo<'_>) -> u64 {
    called(16, ptr::null());
    0x1_0000
}
