use core::ffi::{CStr, c_char};

use ash::vk;

use crate::edge::{commands, list};
use crate::exec::MAX_SETS;
use crate::images::{FORMATS, WORD, YCBCR, texel};
use crate::limits::limits;
use crate::output_chains::{more_features, more_properties};

/// An unassigned vendor: `VkVendorId` begins above PCI's numbers.
pub(crate) const VENDOR: u32 = 0x1_FFFF;
const NAME: &CStr = c"Steward reference device";
/// Bytes of the one heap, and of the largest allocation.
pub(crate) const HEAP: u64 = 1 << 30;
const API_VERSION: u32 = vk::API_VERSION_1_1;

fn put<const N: usize>(to: &mut [c_char; N], name: &CStr) {
    for (place, byte) in to.iter_mut().take(N - 1).zip(name.to_bytes_with_nul()) {
        *place = byte.cast_signed() as c_char;
    }
}

fn properties() -> vk::PhysicalDeviceProperties {
    let mut all = vk::PhysicalDeviceProperties {
        api_version: API_VERSION,
        driver_version: vk::make_api_version(0, 0, 1, 0),
        vendor_id: VENDOR,
        device_id: 1,
        device_type: vk::PhysicalDeviceType::CPU,
        limits: limits(),
        ..Default::default()
    };
    put(&mut all.device_name, NAME);
    all
}

fn features() -> vk::PhysicalDeviceFeatures {
    vk::PhysicalDeviceFeatures { robust_buffer_access: vk::TRUE, ..Default::default() }
}

fn memory_properties() -> vk::PhysicalDeviceMemoryProperties {
    use vk::MemoryPropertyFlags as Flags;
    let mut all =
        vk::PhysicalDeviceMemoryProperties { memory_type_count: 1, memory_heap_count: 1, ..Default::default() };
    all.memory_types[0].property_flags =
        Flags::DEVICE_LOCAL | Flags::HOST_VISIBLE | Flags::HOST_COHERENT | Flags::HOST_CACHED;
    all.memory_heaps[0] = vk::MemoryHeap { size: HEAP, flags: vk::MemoryHeapFlags::DEVICE_LOCAL };
    all
}

fn queue_family() -> vk::QueueFamilyProperties {
    vk::QueueFamilyProperties {
        queue_flags: vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE | vk::QueueFlags::TRANSFER,
        queue_count: 1,
        timestamp_valid_bits: 0,
        min_image_transfer_granularity: vk::Extent3D { width: 1, height: 1, depth: 1 },
    }
}

fn format_properties(format: vk::Format) -> vk::FormatProperties {
    use vk::FormatFeatureFlags as Features;
    let copies = Features::TRANSFER_SRC | Features::TRANSFER_DST;
    let (image, buffer) = match format {
        WORD => (copies | Features::SAMPLED_IMAGE | Features::COLOR_ATTACHMENT, Features::UNIFORM_TEXEL_BUFFER),
        YCBCR => (Features::MIDPOINT_CHROMA_SAMPLES, Features::empty()),
        format if texel(format).is_some() => (copies, Features::empty()),
        _ => Default::default(),
    };
    vk::FormatProperties { linear_tiling_features: image, optimal_tiling_features: image, buffer_features: buffer }
}

fn image_format(
    format: vk::Format,
    kind: vk::ImageType,
    usage: vk::ImageUsageFlags,
    flags: vk::ImageCreateFlags,
) -> Result<vk::ImageFormatProperties, vk::Result> {
    use vk::ImageUsageFlags as Usage;
    let copies = Usage::TRANSFER_SRC | Usage::TRANSFER_DST;
    let possible = if format == WORD { copies | Usage::SAMPLED | Usage::COLOR_ATTACHMENT } else { copies };
    let known = FORMATS.iter().any(|(known, _)| *known == format);
    if !known || !possible.contains(usage) || !flags.is_empty() {
        return Err(vk::Result::ERROR_FORMAT_NOT_SUPPORTED);
    }
    let limits = limits();
    let (flat, deep) = (limits.max_image_dimension2_d, limits.max_image_dimension3_d);
    let (width, height, depth) = match kind {
        vk::ImageType::TYPE_1D => (flat, 1, 1),
        vk::ImageType::TYPE_2D => (flat, flat, 1),
        _ => (deep, deep, deep),
    };
    Ok(vk::ImageFormatProperties {
        max_extent: vk::Extent3D { width, height, depth },
        max_mip_levels: 1,
        max_array_layers: if depth > 1 { 1 } else { limits.max_image_array_layers },
        sample_counts: vk::SampleCountFlags::TYPE_1,
        max_resource_size: HEAP,
    })
}

const EXTENSION: (&CStr, u32) =
    (vk::EXT_PIPELINE_CREATION_CACHE_CONTROL_NAME, vk::EXT_PIPELINE_CREATION_CACHE_CONTROL_SPEC_VERSION);

commands! {
    fn enumerate_instance_version(out: *mut u32 as write _) -> vk::Result {
        *out = API_VERSION;
        vk::Result::SUCCESS
    }
    fn enumerate_instance_extension_properties(_layer: *const c_char, count: *mut u32 as write _, _out: *mut vk::ExtensionProperties) -> vk::Result {
        *count = 0;
        vk::Result::SUCCESS
    }
    fn enumerate_instance_layer_properties(count: *mut u32 as write _, _out: *mut vk::LayerProperties) -> vk::Result {
        *count = 0;
        vk::Result::SUCCESS
    }
    fn enumerate_device_extension_properties(_device: vk::PhysicalDevice, _layer: *const c_char, count: *mut u32 as write _, out: *mut vk::ExtensionProperties) -> vk::Result {
        let mut one = vk::ExtensionProperties { spec_version: EXTENSION.1, ..Default::default() };
        put(&mut one.extension_name, EXTENSION.0);
        // SAFETY: valid usage: room for `count` values, or NULL.
        unsafe { list(&[one], count, out) }
    }
    fn enumerate_device_layer_properties(_device: vk::PhysicalDevice, count: *mut u32 as write _, _out: *mut vk::LayerProperties) -> vk::Result {
        *count = 0;
        vk::Result::SUCCESS
    }
    fn get_physical_device_properties(_device: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceProperties as write _) {
        *out = properties();
    }
    fn get_physical_device_properties2(_device: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceProperties2<'_> as write _) {
        out.properties = properties();
        // SAFETY: valid usage: a chain of outputs.
        unsafe { more_properties(out.p_next) }
    }
    fn get_physical_device_features(_device: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceFeatures as write _) {
        *out = features();
    }
    fn get_physical_device_features2(_device: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceFeatures2<'_> as write _) {
        out.features = features();
        // SAFETY: valid usage: a chain of outputs.
        unsafe { more_features(out.p_next) }
    }
    fn get_physical_device_memory_properties(_device: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceMemoryProperties as write _) {
        *out = memory_properties();
    }
    fn get_physical_device_memory_properties2(_device: vk::PhysicalDevice, out: *mut vk::PhysicalDeviceMemoryProperties2<'_> as write _) {
        out.memory_properties = memory_properties();
    }
    fn get_physical_device_queue_family_properties(_device: vk::PhysicalDevice, count: *mut u32 as write _, out: *mut vk::QueueFamilyProperties) {
        // SAFETY: valid usage: room for `count` values, or NULL.
        let _ = unsafe { list(&[queue_family()], count, out) };
    }
    fn get_physical_device_queue_family_properties2(_device: vk::PhysicalDevice, count: *mut u32 as write _, out: *mut vk::QueueFamilyProperties2<'_>) {
        // SAFETY: valid usage: room for `count` values, or NULL.
        if let (1.., Some(first)) = (*count, unsafe { out.as_mut() }) {
            first.queue_family_properties = queue_family();
        }
        *count = if out.is_null() { 1 } else { (*count).min(1) };
    }
    fn get_physical_device_format_properties(_device: vk::PhysicalDevice, format: vk::Format, out: *mut vk::FormatProperties as write _) {
        *out = format_properties(format);
    }
    fn get_physical_device_format_properties2(_device: vk::PhysicalDevice, format: vk::Format, out: *mut vk::FormatProperties2<'_> as write _) {
        out.format_properties = format_properties(format);
    }
    fn get_physical_device_image_format_properties(_device: vk::PhysicalDevice, format: vk::Format, kind: vk::ImageType, _tiling: vk::ImageTiling, usage: vk::ImageUsageFlags, flags: vk::ImageCreateFlags, out: *mut vk::ImageFormatProperties as write _) -> vk::Result {
        crate::edge::answer(image_format(format, kind, usage, flags).map(|found| *out = found))
    }
    fn get_physical_device_image_format_properties2(_device: vk::PhysicalDevice, info: *const vk::PhysicalDeviceImageFormatInfo2<'_> as read _, out: *mut vk::ImageFormatProperties2<'_> as write _) -> vk::Result {
        let found = image_format(info.format, info.ty, info.usage, info.flags);
        crate::edge::answer(found.map(|found| out.image_format_properties = found))
    }
    fn get_physical_device_sparse_image_format_properties(_device: vk::PhysicalDevice, _format: vk::Format, _kind: vk::ImageType, _samples: vk::SampleCountFlags, _usage: vk::ImageUsageFlags, _tiling: vk::ImageTiling, count: *mut u32 as write _, _out: *mut vk::SparseImageFormatProperties) {
        *count = 0;
    }
    fn get_physical_device_sparse_image_format_properties2(_device: vk::PhysicalDevice, _info: *const vk::PhysicalDeviceSparseImageFormatInfo2<'_>, count: *mut u32 as write _, _out: *mut vk::SparseImageFormatProperties2<'_>) {
        *count = 0;
    }
    fn get_physical_device_external_buffer_properties(_device: vk::PhysicalDevice, _info: *const vk::PhysicalDeviceExternalBufferInfo<'_>, out: *mut vk::ExternalBufferProperties<'_> as write _) {
        out.external_memory_properties = Default::default();
    }
    fn get_physical_device_external_fence_properties(_device: vk::PhysicalDevice, _info: *const vk::PhysicalDeviceExternalFenceInfo<'_>, out: *mut vk::ExternalFenceProperties<'_> as write _) {
        out.external_fence_features = Default::default();
    }
    fn get_physical_device_external_semaphore_properties(_device: vk::PhysicalDevice, _info: *const vk::PhysicalDeviceExternalSemaphoreInfo<'_>, out: *mut vk::ExternalSemaphoreProperties<'_> as write _) {
        out.external_semaphore_features = Default::default();
    }
}

const _: () = assert!(MAX_SETS == 4, "maxBoundDescriptorSets");
