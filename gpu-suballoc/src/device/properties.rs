#![forbid(unsafe_code)]

use crate::flags::{flags, vulkan_masks};
use crate::memory_type::MemoryType;

/// `VK_MAX_MEMORY_HEAPS`.
pub const MAX_MEMORY_HEAPS: usize = 16;

/// Memory types, heaps, limits and features of a device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceProperties<'a> {
    /// By memory type index, at most [`MAX_MEMORY_TYPES`](crate::memory_type::MAX_MEMORY_TYPES).
    pub types: &'a [MemoryType],
    /// By heap index, at most [`MAX_MEMORY_HEAPS`].
    pub heaps: &'a [MemoryHeap],
    /// `VkPhysicalDeviceLimits` and its later additions.
    pub limits: DeviceLimits,
    /// Enabled features.
    pub features: DeviceFeatures,
}

/// `VkMemoryHeap`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MemoryHeap {
    /// Bytes.
    pub size: u64,
    /// `VkMemoryHeapFlags`.
    pub flags: HeapFlags,
}

impl MemoryHeap {
    /// A heap of `size` bytes.
    #[must_use]
    pub const fn new(size: u64, flags: HeapFlags) -> Self {
        Self { size, flags }
    }
}

flags! {
    /// `VkMemoryHeapFlags`. A heap of the host has none.
    HeapFlags(u32) {
        /// The device's own memory.
        DEVICE_LOCAL = 0;
    }
}
vulkan_masks!(HeapFlags);

/// Limits of memory; sizes and alignments in bytes. A limit that the device does not report is `u64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// `bufferImageGranularity`: linear and optimal resources keep pages of this size apart. A power of two, 1 to
    /// 131072.
    pub buffer_image_granularity: u64,
    /// `nonCoherentAtomSize`: flush and invalidate ranges are multiples of it. A power of two, 1 to 256.
    pub non_coherent_atom_size: u64,
    /// `maxMemoryAllocationCount`: live memory objects at most.
    pub max_memory_allocation_count: u32,
    /// `maxMemoryAllocationSize` (Vulkan 1.1): bytes of one memory object at most.
    pub max_memory_allocation_size: u64,
    /// `maxBufferSize` (Vulkan 1.3).
    pub max_buffer_size: u64,
    /// `minMemoryMapAlignment`: of mapped pointers. A power of two, at least 64.
    pub min_memory_map_alignment: u64,
    /// `minStorageBufferOffsetAlignment`, for descriptors.
    pub min_storage_buffer_offset_alignment: u64,
    /// `minUniformBufferOffsetAlignment`, for descriptors.
    pub min_uniform_buffer_offset_alignment: u64,
    /// `minTexelBufferOffsetAlignment`, for buffer views.
    pub min_texel_buffer_offset_alignment: u64,
}

impl Default for DeviceLimits {
    /// The weakest limits that the specification allows (*Required Limits*).
    fn default() -> Self {
        Self {
            buffer_image_granularity: 131_072,
            non_coherent_atom_size: 256,
            max_memory_allocation_count: 4096,
            max_memory_allocation_size: 1 << 30,
            max_buffer_size: 1 << 30,
            min_memory_map_alignment: 64,
            min_storage_buffer_offset_alignment: 256,
            min_uniform_buffer_offset_alignment: 256,
            min_texel_buffer_offset_alignment: 256,
        }
    }
}

/// Enabled features of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceFeatures {
    /// `VK_KHR_dedicated_allocation` or Vulkan 1.1: requirements report which resources need a memory object of their
    /// own, and [`MemoryRequest::dedicated`](crate::device::MemoryRequest::dedicated) is allowed.
    pub dedicated_allocation: bool,
    /// `VK_EXT_memory_budget`: the device reports [budgets](crate::DeviceMemory::budget).
    pub memory_budget: bool,
    /// `VK_EXT_memory_priority` with its feature: priorities are allowed.
    pub memory_priority: bool,
    /// `bufferDeviceAddress`: memory may be allocated for buffers with addresses.
    pub buffer_device_address: bool,
    /// `VK_KHR_external_memory` or Vulkan 1.1: handle types may be named for export, and imports chained.
    pub external_memory: bool,
    /// `deviceCoherentMemory` of `VK_AMD_device_coherent_memory`: memory types with its properties may be used.
    pub device_coherent_memory: bool,
}

/// `VkPhysicalDeviceMemoryBudgetPropertiesEXT` of one heap, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeapBudget {
    /// What this process uses now, by the driver's estimate.
    pub usage: u64,
    /// What this process may use before it fails or slows down.
    pub budget: u64,
}
