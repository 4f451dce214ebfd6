//! Our values as ash's and back; what is shared is proved equal at compile time.

#![forbid(unsafe_code)]

use core::mem::{align_of, offset_of, size_of};

use ash::vk::{self, Handle};

use crate::device::{
    BufferHandle, BufferUsage, DeviceError, ExternalHandleTypes, HeapFlags, ImageHandle, ImageInfo,
    ImageTiling, ImageUsage, MAX_MEMORY_HEAPS, MemoryHandle, MemoryHeap, QueueFamilies,
    ResourceRequirements,
};
use crate::memory_type::{MAX_MEMORY_TYPES, MemoryType};
use crate::property_flags::PropertyFlags;

pub(super) fn memory_of(memory: MemoryHandle) -> vk::DeviceMemory {
    vk::DeviceMemory::from_raw(memory.as_raw())
}

pub(super) fn buffer_of(buffer: BufferHandle) -> vk::Buffer {
    vk::Buffer::from_raw(buffer.as_raw())
}

pub(super) fn image_of(image: ImageHandle) -> vk::Image {
    vk::Image::from_raw(image.as_raw())
}

pub(super) const fn answer(result: vk::Result) -> Result<(), DeviceError> {
    match result.as_raw() {
        0 => Ok(()),
        other => Err(DeviceError::from_raw(other)),
    }
}

/// A driver that says yes and gives nothing is not believed.
pub(super) fn new_handle<V: Handle, H>(
    result: vk::Result,
    made: V,
    ours: fn(u64) -> Option<H>,
) -> Result<H, DeviceError> {
    answer(result)?;
    ours(made.as_raw()).ok_or(DeviceError::Other(vk::Result::ERROR_UNKNOWN.as_raw()))
}

pub(super) const fn type_of(told: &vk::MemoryType) -> MemoryType {
    MemoryType {
        properties: PropertyFlags::from_raw(told.property_flags.as_raw()),
        heap_index: told.heap_index,
    }
}

pub(super) const fn heap_of(told: &vk::MemoryHeap) -> MemoryHeap {
    MemoryHeap::new(told.size, HeapFlags::from_raw(told.flags.as_raw()))
}

pub(super) fn requirements(
    needs: &vk::MemoryRequirements,
    dedicated: Option<&vk::MemoryDedicatedRequirements<'_>>,
) -> ResourceRequirements {
    let requires = dedicated.is_some_and(|told| told.requires_dedicated_allocation == vk::TRUE);
    let prefers = dedicated.is_some_and(|told| told.prefers_dedicated_allocation == vk::TRUE);
    ResourceRequirements {
        size: needs.size,
        alignment: needs.alignment,
        memory_type_bits: needs.memory_type_bits,
        prefers_dedicated: prefers || requires,
        requires_dedicated: requires,
    }
}

pub(super) fn sharing_mode(sharing: QueueFamilies) -> vk::SharingMode {
    if sharing == QueueFamilies::EXCLUSIVE {
        vk::SharingMode::EXCLUSIVE
    } else {
        vk::SharingMode::CONCURRENT
    }
}

/// The indices of the families, lowest first.
pub(super) fn families(sharing: QueueFamilies, indices: &mut [u32; 64]) -> &[u32] {
    let mut count = 0;
    for (index, place) in (0..64u32)
        .filter(|index| sharing.bits() >> index & 1 == 1)
        .zip(indices.iter_mut())
    {
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
        .extent(vk::Extent3D {
            width,
            height,
            depth,
        })
        .mip_levels(info.mip_levels)
        .array_layers(info.array_layers)
        .samples(vk::SampleCountFlags::from_raw(info.samples))
        .tiling(match info.tiling {
            ImageTiling::Optimal => vk::ImageTiling::OPTIMAL,
            ImageTiling::Linear => vk::ImageTiling::LINEAR,
        })
        .usage(vk::ImageUsageFlags::from_raw(info.usage.as_raw()))
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
    assert!(
        size_of::<BufferHandle>() == size_of::<vk::Buffer>()
            && size_of::<ImageHandle>() == size_of::<vk::Image>()
    );

    assert!(HeapFlags::DEVICE_LOCAL.as_raw() == vk::MemoryHeapFlags::DEVICE_LOCAL.as_raw());
    assert!(PropertyFlags::DEVICE_LOCAL.as_raw() == vk::MemoryPropertyFlags::DEVICE_LOCAL.as_raw());
    assert!(PropertyFlags::HOST_VISIBLE.as_raw() == vk::MemoryPropertyFlags::HOST_VISIBLE.as_raw());
    assert!(
        PropertyFlags::HOST_COHERENT.as_raw() == vk::MemoryPropertyFlags::HOST_COHERENT.as_raw()
    );
    assert!(PropertyFlags::HOST_CACHED.as_raw() == vk::MemoryPropertyFlags::HOST_CACHED.as_raw());
    assert!(
        PropertyFlags::LAZILY_ALLOCATED.as_raw()
            == vk::MemoryPropertyFlags::LAZILY_ALLOCATED.as_raw()
    );
    assert!(PropertyFlags::PROTECTED.as_raw() == vk::MemoryPropertyFlags::PROTECTED.as_raw());
    assert!(
        PropertyFlags::DEVICE_COHERENT_AMD.as_raw()
            == vk::MemoryPropertyFlags::DEVICE_COHERENT_AMD.as_raw()
    );
    assert!(
        PropertyFlags::DEVICE_UNCACHED_AMD.as_raw()
            == vk::MemoryPropertyFlags::DEVICE_UNCACHED_AMD.as_raw()
    );
    assert!(
        PropertyFlags::RDMA_CAPABLE_NV.as_raw()
            == vk::MemoryPropertyFlags::RDMA_CAPABLE_NV.as_raw()
    );

    assert!(BufferUsage::TRANSFER_SRC.as_raw() == vk::BufferUsageFlags::TRANSFER_SRC.as_raw());
    assert!(BufferUsage::TRANSFER_DST.as_raw() == vk::BufferUsageFlags::TRANSFER_DST.as_raw());
    assert!(
        BufferUsage::UNIFORM_TEXEL_BUFFER.as_raw()
            == vk::BufferUsageFlags::UNIFORM_TEXEL_BUFFER.as_raw()
    );
    assert!(
        BufferUsage::STORAGE_TEXEL_BUFFER.as_raw()
            == vk::BufferUsageFlags::STORAGE_TEXEL_BUFFER.as_raw()
    );
    assert!(BufferUsage::UNIFORM_BUFFER.as_raw() == vk::BufferUsageFlags::UNIFORM_BUFFER.as_raw());
    assert!(BufferUsage::STORAGE_BUFFER.as_raw() == vk::BufferUsageFlags::STORAGE_BUFFER.as_raw());
    assert!(BufferUsage::INDEX_BUFFER.as_raw() == vk::BufferUsageFlags::INDEX_BUFFER.as_raw());
    assert!(BufferUsage::VERTEX_BUFFER.as_raw() == vk::BufferUsageFlags::VERTEX_BUFFER.as_raw());
    assert!(
        BufferUsage::INDIRECT_BUFFER.as_raw() == vk::BufferUsageFlags::INDIRECT_BUFFER.as_raw()
    );
    assert!(
        BufferUsage::SHADER_DEVICE_ADDRESS.as_raw()
            == vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS.as_raw()
    );
    assert!(ImageUsage::TRANSFER_SRC.as_raw() == vk::ImageUsageFlags::TRANSFER_SRC.as_raw());
    assert!(ImageUsage::TRANSFER_DST.as_raw() == vk::ImageUsageFlags::TRANSFER_DST.as_raw());
    assert!(ImageUsage::SAMPLED.as_raw() == vk::ImageUsageFlags::SAMPLED.as_raw());
    assert!(ImageUsage::STORAGE.as_raw() == vk::ImageUsageFlags::STORAGE.as_raw());
    assert!(
        ImageUsage::COLOR_ATTACHMENT.as_raw() == vk::ImageUsageFlags::COLOR_ATTACHMENT.as_raw()
    );
    assert!(
        ImageUsage::DEPTH_STENCIL_ATTACHMENT.as_raw()
            == vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT.as_raw()
    );
    assert!(
        ImageUsage::TRANSIENT_ATTACHMENT.as_raw()
            == vk::ImageUsageFlags::TRANSIENT_ATTACHMENT.as_raw()
    );
    assert!(
        ImageUsage::INPUT_ATTACHMENT.as_raw() == vk::ImageUsageFlags::INPUT_ATTACHMENT.as_raw()
    );
    assert!(ImageTiling::Optimal as i32 == vk::ImageTiling::OPTIMAL.as_raw());
    assert!(ImageTiling::Linear as i32 == vk::ImageTiling::LINEAR.as_raw());
    assert!(
        ExternalHandleTypes::OPAQUE_FD.as_raw()
            == vk::ExternalMemoryHandleTypeFlags::OPAQUE_FD.as_raw()
    );
    assert!(
        ExternalHandleTypes::OPAQUE_WIN32.as_raw()
            == vk::ExternalMemoryHandleTypeFlags::OPAQUE_WIN32.as_raw()
    );
    assert!(
        ExternalHandleTypes::HOST_ALLOCATION.as_raw()
            == vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT.as_raw()
    );
    assert!(
        ExternalHandleTypes::DMA_BUF.as_raw()
            == vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT.as_raw()
    );

    assert!(DeviceError::OutOfHostMemory.as_raw() == vk::Result::ERROR_OUT_OF_HOST_MEMORY.as_raw());
    assert!(
        DeviceError::OutOfDeviceMemory.as_raw() == vk::Result::ERROR_OUT_OF_DEVICE_MEMORY.as_raw()
    );
    assert!(DeviceError::TooManyObjects.as_raw() == vk::Result::ERROR_TOO_MANY_OBJECTS.as_raw());
    assert!(DeviceError::MapFailed.as_raw() == vk::Result::ERROR_MEMORY_MAP_FAILED.as_raw());
    assert!(DeviceError::DeviceLost.as_raw() == vk::Result::ERROR_DEVICE_LOST.as_raw());
    assert!(
        DeviceError::InvalidExternalHandle.as_raw()
            == vk::Result::ERROR_INVALID_EXTERNAL_HANDLE.as_raw()
    );
    assert!(
        DeviceError::InvalidOpaqueCaptureAddress.as_raw()
            == vk::Result::ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS.as_raw()
    );
};
