//! The `pNext` chain of an allocation, built on the stack from what the request names.

use core::ffi::c_void;
use core::ptr;

use ash::vk;

use crate::device::{MemoryRequest, ResourceHandle};

/// ```text
///   VkMemoryAllocateInfo -> dedicated? -> flags? -> export? -> priority? -> the caller's chain
/// ```
pub(super) fn with_allocate_info<R>(
    request: &MemoryRequest,
    call: impl FnOnce(*const vk::MemoryAllocateInfo<'_>) -> R,
) -> R {
    let mut next: *const c_void = request.next.map_or(ptr::null(), |chain| chain.as_ptr());
    let mut priority = vk::MemoryPriorityAllocateInfoEXT::default();
    if let Some(requested) = request.priority {
        priority.priority = requested;
        priority.p_next = next;
        next = (&raw const priority).cast();
    }
    let mut export = vk::ExportMemoryAllocateInfo::default();
    if !request.export.is_empty() {
        export.handle_types = request.export.into();
        export.p_next = next;
        next = (&raw const export).cast();
    }
    let mut flags = vk::MemoryAllocateFlagsInfo::default();
    if request.device_address {
        flags.flags = vk::MemoryAllocateFlags::DEVICE_ADDRESS;
        flags.p_next = next;
        next = (&raw const flags).cast();
    }
    let mut dedicated = vk::MemoryDedicatedAllocateInfo::default();
    if let Some(resource) = request.dedicated {
        match resource {
            ResourceHandle::Buffer(buffer) => dedicated.buffer = buffer.into(),
            ResourceHandle::Image(image) => dedicated.image = image.into(),
        }
        dedicated.p_next = next;
        next = (&raw const dedicated).cast();
    }
    let mut info = vk::MemoryAllocateInfo::default()
        .allocation_size(request.size)
        .memory_type_index(request.memory_type);
    info.p_next = next;
    call(&raw const info)
}
