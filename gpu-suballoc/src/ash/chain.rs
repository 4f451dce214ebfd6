//! `pNext` chains, built on the stack: nothing is in them that was not asked for.

use core::ffi::c_void;
use core::ptr;

use ash::vk;

use super::layout::{buffer_of, image_of, requirements};
use crate::device::{DedicatedResource, MemoryRequest, ResourceRequirements};

/// ```text
///   VkMemoryAllocateInfo -> dedicated? -> flags? -> export? -> priority? -> the caller's chain
/// ```
pub(super) fn with_allocate_info<R>(
    request: &MemoryRequest,
    call: impl FnOnce(*const vk::MemoryAllocateInfo<'_>) -> R,
) -> R {
    let mut next: *const c_void = request.next.map_or(ptr::null(), |chain| chain.as_ptr());
    let mut priority = vk::MemoryPriorityAllocateInfoEXT::default();
    if let Some(wanted) = request.priority {
        priority.priority = wanted;
        priority.p_next = next;
        next = (&raw const priority).cast();
    }
    let mut export = vk::ExportMemoryAllocateInfo::default();
    if !request.export.is_empty() {
        export.handle_types = vk::ExternalMemoryHandleTypeFlags::from_raw(request.export.as_raw());
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
            DedicatedResource::Buffer(buffer) => dedicated.buffer = buffer_of(buffer),
            DedicatedResource::Image(image) => dedicated.image = image_of(image),
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

/// What a resource asks for, with the wish for memory of its own where that is known.
pub(super) fn with_requirements2(
    dedicated_known: bool,
    call: impl FnOnce(*mut vk::MemoryRequirements2<'_>),
) -> ResourceRequirements {
    let mut dedicated = vk::MemoryDedicatedRequirements::default();
    let mut needs = vk::MemoryRequirements2::default();
    if dedicated_known {
        needs.p_next = (&raw mut dedicated).cast();
    }
    call(&raw mut needs);
    requirements(
        &needs.memory_requirements,
        dedicated_known.then_some(&dedicated),
    )
}
