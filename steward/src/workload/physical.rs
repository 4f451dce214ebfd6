//! The physical device: its name, queue family and memory.

use std::ffi::CStr;

use ash::vk;
use gpu_suballoc::device::{DeviceLimits, HeapFlags, MAX_MEMORY_HEAPS, MemoryHeap};
use gpu_suballoc::memory_type::{
    MAX_MEMORY_TYPES, MemoryType, MemoryTypeError, choose_memory_type,
};
use gpu_suballoc::{MemoryPreference, PropertyFlags};

use super::error::WorkloadError;
use super::instance::Instance;
use vk_accounts::ObjectKind;

/// A driver has a few devices, a device a few queue families; more are ignored.
const MAX_DEVICES: usize = 32;

/// The format of the sampler conversion, on devices that support one: three planes are the most common layout of video.
pub(super) const YCBCR_FORMAT: vk::Format = vk::Format::G8_B8_R8_3PLANE_420_UNORM;

/// The properties of a physical device that the workload needs.
pub(super) struct Physical {
    pub(super) handle: vk::PhysicalDevice,
    pub(super) device_name: String,
    pub(super) queue_family: u32,
    /// The position of chroma samples in [`YCBCR_FORMAT`]; `None` if the device supports no conversion.
    pub(super) chroma: Option<vk::ChromaLocation>,
    pub(super) limits: DeviceLimits,
    types: ([MemoryType; MAX_MEMORY_TYPES], usize),
    heaps: ([MemoryHeap; MAX_MEMORY_HEAPS], usize),
}

impl Physical {
    /// Queries device number `wanted` of its driver.
    pub(super) fn find(instance: &Instance<'_>, wanted: usize) -> Result<Self, WorkloadError> {
        let handle = nth_device(instance, wanted)?;
        let queue_family = queue_family(instance, handle)?;
        let mut memory = vk::PhysicalDeviceMemoryProperties::default();
        let out = &raw mut memory;
        query(instance, "vkGetPhysicalDeviceMemoryProperties", || {
            // SAFETY: the device belongs to the instance; `out` is a local.
            unsafe { (instance.v1_0().get_physical_device_memory_properties)(handle, out) }
        });
        let types = memory.memory_types.map(|each| MemoryType {
            properties: PropertyFlags::from_raw(each.property_flags.as_raw()),
            heap_index: each.heap_index,
        });
        let heaps = memory
            .memory_heaps
            .map(|each| MemoryHeap::new(each.size, HeapFlags::from_raw(each.flags.as_raw())));
        let (types, heaps) = (
            (types, memory.memory_type_count as usize),
            (heaps, memory.memory_heap_count as usize),
        );
        let (device_name, limits) = name_and_limits(instance, handle);
        Ok(Self {
            handle,
            device_name,
            queue_family,
            chroma: chroma(instance, handle),
            limits,
            types,
            heaps,
        })
    }

    /// The memory types, by index.
    pub(super) fn memory_types(&self) -> &[MemoryType] {
        self.types.0.get(..self.types.1).unwrap_or(&self.types.0)
    }

    /// The heaps, by index.
    pub(super) fn heaps(&self) -> &[MemoryHeap] {
        self.heaps.0.get(..self.heaps.1).unwrap_or(&self.heaps.0)
    }

    /// The memory type for a resource that accepts `memory_type_bits`.
    pub(super) fn memory_type(
        &self,
        memory_type_bits: u32,
        preference: MemoryPreference,
    ) -> Result<u32, MemoryTypeError> {
        choose_memory_type(self.memory_types(), memory_type_bits, preference)
    }
}

fn query(instance: &Instance<'_>, command: &'static str, call: impl FnOnce()) {
    instance
        .caller()
        .call(command, ObjectKind::PhysicalDevice, call);
}

fn nth_device(instance: &Instance<'_>, wanted: usize) -> Result<vk::PhysicalDevice, WorkloadError> {
    let mut devices = [vk::PhysicalDevice::null(); MAX_DEVICES];
    let mut present = MAX_DEVICES as u32;
    let (count, out) = (&raw mut present, devices.as_mut_ptr());
    let result = instance
        .caller()
        .call("vkEnumeratePhysicalDevices", ObjectKind::Instance, || {
            // SAFETY: the instance lives and `out` has room for as many handles as `count` says.
            unsafe { (instance.v1_0().enumerate_physical_devices)(instance.handle(), count, out) }
        });
    if !matches!(result, vk::Result::SUCCESS | vk::Result::INCOMPLETE) {
        return Err(WorkloadError::Command {
            command: "vkEnumeratePhysicalDevices",
            result,
        });
    }
    instance.caller().count(ObjectKind::PhysicalDevice, present);
    let present = present as usize;
    let found = devices
        .get(..present)
        .unwrap_or_default()
        .get(wanted)
        .copied();
    found.ok_or(WorkloadError::DeviceGone { wanted, present })
}

fn queue_family(instance: &Instance<'_>, device: vk::PhysicalDevice) -> Result<u32, WorkloadError> {
    let mut families = [vk::QueueFamilyProperties::default(); MAX_DEVICES];
    let mut present = MAX_DEVICES as u32;
    let (count, out) = (&raw mut present, families.as_mut_ptr());
    query(instance, "vkGetPhysicalDeviceQueueFamilyProperties", || {
        // SAFETY: the device belongs to the instance and `out` has room for as many entries as `count` says.
        unsafe { (instance.v1_0().get_physical_device_queue_family_properties)(device, count, out) }
    });
    let both = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
    let mut numbered = (0u32..).zip(families.iter().take(present as usize));
    numbered
        .find(|(_, family)| family.queue_flags.contains(both))
        .map(|(index, _)| index)
        .ok_or(WorkloadError::NoQueueFamily)
}

fn name_and_limits(instance: &Instance<'_>, device: vk::PhysicalDevice) -> (String, DeviceLimits) {
    let mut largest = vk::PhysicalDeviceMaintenance3Properties::default();
    let mut answer = vk::PhysicalDeviceProperties2::default().push_next(&mut largest);
    let out = &raw mut answer;
    query(instance, "vkGetPhysicalDeviceProperties2", || {
        // SAFETY: the device belongs to the instance; the answer and the one structure in its chain are locals.
        unsafe { (instance.v1_1().get_physical_device_properties2)(device, out) }
    });
    let properties = answer.properties;
    let name = properties.device_name_as_c_str().map(CStr::to_string_lossy);
    let limits = DeviceLimits {
        buffer_image_granularity: properties.limits.buffer_image_granularity,
        non_coherent_atom_size: properties.limits.non_coherent_atom_size,
        max_memory_allocation_count: properties.limits.max_memory_allocation_count,
        max_memory_allocation_size: largest.max_memory_allocation_size,
        // Only Vulkan 1.3 reports it; the workload has no large buffers.
        max_buffer_size: u64::MAX,
        min_memory_map_alignment: properties.limits.min_memory_map_alignment as u64,
        min_storage_buffer_offset_alignment: properties.limits.min_storage_buffer_offset_alignment,
        min_uniform_buffer_offset_alignment: properties.limits.min_uniform_buffer_offset_alignment,
        min_texel_buffer_offset_alignment: properties.limits.min_texel_buffer_offset_alignment,
        optimal_buffer_copy_offset_alignment: properties
            .limits
            .optimal_buffer_copy_offset_alignment,
    };
    (
        name.map_or_else(|_| String::new(), |name| name.into_owned()),
        limits,
    )
}

fn chroma(instance: &Instance<'_>, device: vk::PhysicalDevice) -> Option<vk::ChromaLocation> {
    let mut ycbcr = vk::PhysicalDeviceSamplerYcbcrConversionFeatures::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut ycbcr);
    let out = &raw mut features;
    query(instance, "vkGetPhysicalDeviceFeatures2", || {
        // SAFETY: the device belongs to the instance; the answer and the one structure in its chain are locals.
        unsafe { (instance.v1_1().get_physical_device_features2)(device, out) }
    });
    let mut format = vk::FormatProperties::default();
    let out = &raw mut format;
    query(instance, "vkGetPhysicalDeviceFormatProperties", || {
        // SAFETY: the device belongs to the instance; the answer is a local.
        unsafe {
            (instance.v1_0().get_physical_device_format_properties)(device, YCBCR_FORMAT, out)
        }
    });
    let possible = format.optimal_tiling_features | format.linear_tiling_features;
    if ycbcr.sampler_ycbcr_conversion == vk::FALSE {
        None
    } else if possible.contains(vk::FormatFeatureFlags::MIDPOINT_CHROMA_SAMPLES) {
        Some(vk::ChromaLocation::MIDPOINT)
    } else if possible.contains(vk::FormatFeatureFlags::COSITED_CHROMA_SAMPLES) {
        Some(vk::ChromaLocation::COSITED_EVEN)
    } else {
        None
    }
}
