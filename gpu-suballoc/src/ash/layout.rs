//! What both have is asserted equal at compile time.

use crate::device::{
    BufferHandle, BufferUsage, DeviceError, ExternalHandleTypes, HeapFlags, ImageHandle, ImageInfo, ImageTiling,
    ImageUsage, MAX_MEMORY_HEAPS, MemoryHandle, MemoryHeap, MemoryRequest, QueueFamilies, ResourceHandle,
    ResourceRequirements,
};
use crate::error::GpuMisuse;
use crate::memory_type::{MAX_MEMORY_TYPES, MemoryType, PropertyFlags};
use ash::vk;
use ash::vk::Handle;
use core::mem::{align_of, offset_of, size_of};
use core::ptr;

const UNKNOWN: DeviceError = DeviceError::Other(vk::Result::ERROR_UNKNOWN.as_raw());

pub(super) const fn check(result: vk::Result) -> Result<(), DeviceError> {
    match result.as_raw() {
        0 => Ok(()),
        other => Err(DeviceError::from_raw(other)),
    }
}

pub(super) fn pointer_to(
    callbacks: Option<&vk::AllocationCallbacks<'static>>,
) -> *const vk::AllocationCallbacks<'static> {
    callbacks.map_or(ptr::null(), ptr::from_ref)
}

/// `VK_NULL_HANDLE` is an error also if the driver reports success.
pub(super) fn new_handle<V: Handle, H>(
    result: vk::Result,
    handle: V,
    ours: impl FnOnce(u64) -> Option<H>,
) -> Result<H, DeviceError> {
    check(result)?;
    ours(handle.as_raw()).ok_or(UNKNOWN)
}

pub(super) fn type_of(vulkan: &vk::MemoryType) -> MemoryType {
    MemoryType { properties: vulkan.property_flags.into(), heap_index: vulkan.heap_index }
}

pub(super) const fn heap_of(vulkan: &vk::MemoryHeap) -> MemoryHeap {
    MemoryHeap::new(vulkan.size, HeapFlags::from_raw(vulkan.flags.as_raw()))
}

pub(super) fn requirements(
    needs: &vk::MemoryRequirements,
    dedicated: Option<&vk::MemoryDedicatedRequirements<'_>>,
) -> ResourceRequirements {
    let requires = dedicated.is_some_and(|it| it.requires_dedicated_allocation == vk::TRUE);
    let prefers = dedicated.is_some_and(|it| it.prefers_dedicated_allocation == vk::TRUE);
    ResourceRequirements {
        size: needs.size,
        alignment: needs.alignment,
        memory_type_bits: needs.memory_type_bits,
        prefers_dedicated: prefers || requires,
        requires_dedicated: requires,
    }
}

pub(super) fn sharing_mode(sharing: QueueFamilies) -> vk::SharingMode {
    if sharing == QueueFamilies::EXCLUSIVE { vk::SharingMode::EXCLUSIVE } else { vk::SharingMode::CONCURRENT }
}

pub(super) fn families(sharing: QueueFamilies, indices: &mut [u32; 64]) -> &[u32] {
    let mut count = 0;
    for (index, place) in (0..64u32).filter(|index| sharing.bits() >> index & 1 == 1).zip(indices.iter_mut()) {
        *place = index;
        count += 1;
    }
    indices.get(..count).unwrap_or_default()
}

pub(super) fn image_info(info: &ImageInfo) -> vk::ImageCreateInfo<'_> {
    let [width, height, depth] = info.extent;
    vk::ImageCreateInfo::default()
        .flags(vk::ImageCreateFlags::from_raw(info.flags))
        .image_type(vk::ImageType::from_raw(info.image_type as i32))
        .format(vk::Format::from_raw(info.format as i32))
        .extent(vk::Extent3D { width, height, depth })
        .mip_levels(info.mip_levels)
        .array_layers(info.array_layers)
        .samples(vk::SampleCountFlags::from_raw(info.samples))
        .tiling(match info.tiling {
            ImageTiling::Optimal => vk::ImageTiling::OPTIMAL,
            ImageTiling::Linear => vk::ImageTiling::LINEAR,
        })
        .usage(info.usage.into())
        .sharing_mode(sharing_mode(info.sharing))
        .initial_layout(vk::ImageLayout::from_raw(info.initial_layout as i32))
}

const _: () = {
    assert!(MAX_MEMORY_TYPES == vk::MAX_MEMORY_TYPES && MAX_MEMORY_HEAPS == vk::MAX_MEMORY_HEAPS);
    assert!(
        size_of::<MemoryType>() == size_of::<vk::MemoryType>()
            && align_of::<MemoryType>() == align_of::<vk::MemoryType>()
    );
    assert!(offset_of!(MemoryType, properties) == offset_of!(vk::MemoryType, property_flags));
    assert!(offset_of!(MemoryType, heap_index) == offset_of!(vk::MemoryType, heap_index));
    assert!(
        size_of::<MemoryHeap>() == size_of::<vk::MemoryHeap>()
            && align_of::<MemoryHeap>() == align_of::<vk::MemoryHeap>()
    );
    assert!(offset_of!(MemoryHeap, size) == offset_of!(vk::MemoryHeap, size));
    assert!(offset_of!(MemoryHeap, flags) == offset_of!(vk::MemoryHeap, flags));
    assert!(size_of::<MemoryHandle>() == size_of::<vk::DeviceMemory>());
    assert!(size_of::<BufferHandle>() == size_of::<vk::Buffer>() && size_of::<ImageHandle>() == size_of::<vk::Image>());
    assert!(ImageTiling::Optimal as i32 == vk::ImageTiling::OPTIMAL.as_raw());
    assert!(ImageTiling::Linear as i32 == vk::ImageTiling::LINEAR.as_raw());
};

macro_rules! assert_equal {
    ($ours:ident, $vulkan:ident: $($name:ident)*) => {
        assert_equal!($ours, $vulkan: $($name = $name,)*);
    };
    ($ours:ident, $vulkan:ident: $($name:ident = $vulkan_name:ident,)*) => {
        const _: () = { $(assert!($ours::$name.as_raw() == vk::$vulkan::$vulkan_name.as_raw());)* };
    };
}

assert_equal!(HeapFlags, MemoryHeapFlags: DEVICE_LOCAL);
assert_equal!(PropertyFlags, MemoryPropertyFlags:
    DEVICE_LOCAL HOST_VISIBLE HOST_COHERENT HOST_CACHED LAZILY_ALLOCATED PROTECTED
    DEVICE_COHERENT_AMD DEVICE_UNCACHED_AMD RDMA_CAPABLE_NV);
assert_equal!(BufferUsage, BufferUsageFlags:
    TRANSFER_SRC TRANSFER_DST UNIFORM_TEXEL_BUFFER STORAGE_TEXEL_BUFFER UNIFORM_BUFFER
    STORAGE_BUFFER INDEX_BUFFER VERTEX_BUFFER INDIRECT_BUFFER SHADER_DEVICE_ADDRESS);
assert_equal!(ImageUsage, ImageUsageFlags:
    TRANSFER_SRC TRANSFER_DST SAMPLED STORAGE COLOR_ATTACHMENT DEPTH_STENCIL_ATTACHMENT
    TRANSIENT_ATTACHMENT INPUT_ATTACHMENT);
assert_equal!(ExternalHandleTypes, ExternalMemoryHandleTypeFlags:
    OPAQUE_FD = OPAQUE_FD,
    OPAQUE_WIN32 = OPAQUE_WIN32,
    HOST_ALLOCATION = HOST_ALLOCATION_EXT,
    DMA_BUF = DMA_BUF_EXT,
);
assert_equal!(DeviceError, Result:
    OutOfHostMemory = ERROR_OUT_OF_HOST_MEMORY,
    OutOfDeviceMemory = ERROR_OUT_OF_DEVICE_MEMORY,
    TooManyObjects = ERROR_TOO_MANY_OBJECTS,
    MapFailed = ERROR_MEMORY_MAP_FAILED,
    DeviceLost = ERROR_DEVICE_LOST,
    InvalidExternalHandle = ERROR_INVALID_EXTERNAL_HANDLE,
    InvalidOpaqueCaptureAddress = ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS,
);

macro_rules! handles {
    ($($ours:ty, $theirs:ty;)*) => {$(
        impl From<$ours> for $theirs {
            fn from(handle: $ours) -> Self {
                Self::from_raw(handle.as_raw())
            }
        }

        impl TryFrom<$theirs> for $ours {
            type Error = GpuMisuse;

            fn try_from(handle: $theirs) -> Result<Self, GpuMisuse> {
                Self::from_raw(handle.as_raw()).ok_or(GpuMisuse::NullHandle)
            }
        }
    )*};
}

handles! {
    MemoryHandle, vk::DeviceMemory;
    BufferHandle, vk::Buffer;
    ImageHandle, vk::Image;
}

macro_rules! flags {
    ($($ours:ty, $theirs:ty;)*) => {$(
        impl From<$ours> for $theirs {
            fn from(flags: $ours) -> Self {
                Self::from_raw(flags.as_raw())
            }
        }

        impl From<$theirs> for $ours {
            fn from(flags: $theirs) -> Self {
                Self::from_raw(flags.as_raw())
            }
        }
    )*};
}

flags! {
    BufferUsage, vk::BufferUsageFlags;
    ImageUsage, vk::ImageUsageFlags;
    PropertyFlags, vk::MemoryPropertyFlags;
    ExternalHandleTypes, vk::ExternalMemoryHandleTypeFlags;
}

// The `pNext` chain of an allocation, on the stack.

/// ```text
///   VkMemoryAllocateInfo -> dedicated? -> flags? -> export? -> priority? -> the caller's chain
/// ```
pub(super) fn with_allocate_info<R>(
    request: &MemoryRequest,
    call: impl FnOnce(*const vk::MemoryAllocateInfo<'_>) -> R,
) -> R {
    let mut info =
        vk::MemoryAllocateInfo::default().allocation_size(request.size).memory_type_index(request.memory_type);
    info.p_next = request.next.map_or(ptr::null(), |chain| chain.as_ptr());
    let mut priority = vk::MemoryPriorityAllocateInfoEXT::default();
    if let Some(requested) = request.priority {
        priority.priority = requested;
        info = info.push_next(&mut priority);
    }
    let mut export = vk::ExportMemoryAllocateInfo::default();
    if !request.export.is_empty() {
        export.handle_types = request.export.into();
        info = info.push_next(&mut export);
    }
    let mut flags = vk::MemoryAllocateFlagsInfo::default();
    if request.device_address {
        flags.flags = vk::MemoryAllocateFlags::DEVICE_ADDRESS;
        info = info.push_next(&mut flags);
    }
    let mut dedicated = vk::MemoryDedicatedAllocateInfo::default();
    if let Some(resource) = request.dedicated {
        match resource {
            ResourceHandle::Buffer(buffer) => dedicated.buffer = buffer.into(),
            ResourceHandle::Image(image) => dedicated.image = image.into(),
        }
        info = info.push_next(&mut dedicated);
    }
    call(&raw const info)
}

#[cfg(test)]
mod conversions_tests {
    use super::*;

    #[test]
    fn handles_go_there_and_back_and_null_is_none() {
        let theirs = vk::Buffer::from_raw(0x50);
        let ours = BufferHandle::try_from(theirs);
        assert_eq!(ours.map(BufferHandle::as_raw), Ok(0x50));
        assert!(ours.map(vk::Buffer::from) == Ok(theirs));
        assert_eq!(BufferHandle::try_from(vk::Buffer::null()), Err(GpuMisuse::NullHandle));
    }

    #[test]
    fn flags_go_there_and_back_with_all_their_bits() {
        let theirs = vk::BufferUsageFlags::VERTEX_BUFFER | vk::BufferUsageFlags::from_raw(1 << 31);
        assert_eq!(BufferUsage::from(theirs).as_raw(), theirs.as_raw());
        assert!(vk::BufferUsageFlags::from(BufferUsage::from(theirs)) == theirs);
        assert_eq!(PropertyFlags::from(vk::MemoryPropertyFlags::HOST_CACHED), PropertyFlags::HOST_CACHED);
    }
}
