use std::ffi::CStr;

use ash::vk;
use gpu_suballoc::memory_type::{MAX_MEMORY_TYPES, MemoryType, MemoryTypeError, choose_memory_type};
use gpu_suballoc::{MemoryPreference, PropertyFlags};

use super::error::WorkloadError;
use super::instance::Instance;

/// Three planes are the most common layout of video.
pub(super) const YCBCR_FORMAT: vk::Format = vk::Format::G8_B8_R8_3PLANE_420_UNORM;

pub(super) struct Physical {
    pub(super) handle: vk::PhysicalDevice,
    pub(super) device_name: String,
    pub(super) queue_family: u32,
    /// `None` if the device supports no conversion.
    pub(super) chroma: Option<vk::ChromaLocation>,
    types: ([MemoryType; MAX_MEMORY_TYPES], usize),
}

impl Physical {
    pub(super) fn find(instance: &Instance<'_>, wanted: usize) -> Result<Self, WorkloadError> {
        let handle = nth_device(instance, wanted)?;
        let queue_family = queue_family(instance, handle)?;
        // SAFETY: the device belongs to the instance.
        let memory = unsafe { instance.get_physical_device_memory_properties(handle) };
        let types = memory.memory_types.map(|each| MemoryType {
            properties: PropertyFlags::from_raw(each.property_flags.as_raw()),
            heap_index: each.heap_index,
        });
        let types = (types, memory.memory_type_count as usize);
        // SAFETY: the device belongs to the instance.
        let properties = unsafe { instance.get_physical_device_properties(handle) };
        let name = properties.device_name_as_c_str().map(CStr::to_string_lossy);
        let device_name = name.map_or_else(|_| String::new(), |name| name.into_owned());
        Ok(Self { handle, device_name, queue_family, chroma: chroma(instance, handle), types })
    }

    pub(super) fn memory_types(&self) -> &[MemoryType] {
        self.types.0.get(..self.types.1).unwrap_or(&self.types.0)
    }

    pub(super) fn memory_type(
        &self,
        memory_type_bits: u32,
        preference: MemoryPreference,
    ) -> Result<u32, MemoryTypeError> {
        choose_memory_type(self.memory_types(), memory_type_bits, preference)
    }
}

fn nth_device(instance: &Instance<'_>, wanted: usize) -> Result<vk::PhysicalDevice, WorkloadError> {
    // SAFETY: the instance lives.
    let devices =
        unsafe { instance.enumerate_physical_devices() }.map_err(WorkloadError::of("vkEnumeratePhysicalDevices"))?;
    let present = devices.len();
    let found = devices.get(wanted).copied();
    found.ok_or(WorkloadError::DeviceGone { wanted, present })
}

fn queue_family(instance: &Instance<'_>, device: vk::PhysicalDevice) -> Result<u32, WorkloadError> {
    // SAFETY: the device belongs to the instance.
    let families = unsafe { instance.get_physical_device_queue_family_properties(device) };
    let both = vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE;
    let mut numbered = (0u32..).zip(&families);
    numbered
        .find(|(_, family)| family.queue_flags.contains(both))
        .map(|(index, _)| index)
        .ok_or(WorkloadError::NoQueueFamily)
}

fn chroma(instance: &Instance<'_>, device: vk::PhysicalDevice) -> Option<vk::ChromaLocation> {
    let mut ycbcr = vk::PhysicalDeviceSamplerYcbcrConversionFeatures::default();
    let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut ycbcr);
    // SAFETY: the device belongs to the instance; the answer has one structure in its chain.
    unsafe { instance.get_physical_device_features2(device, &mut features) };
    // SAFETY: the device belongs to the instance.
    let format = unsafe { instance.get_physical_device_format_properties(device, YCBCR_FORMAT) };
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
