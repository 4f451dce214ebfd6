//! The one file that names ash: a `VkDevice` of C by its functions.

use std::ffi::{c_char, c_void};
use std::mem::transmute;

pub use ash::vk::ImageCreateInfo;
use ash::vk::{self, Handle as _};
use gpu_suballoc::AshDevice;
use gpu_suballoc::ash::AshOptions;
use gpu_suballoc::device::{ExternalHandleTypes, ImageInfo, ImageTiling, QueueFamilies};
use vk_callbacks::raw::RawCallbacks;

use crate::gpu::StewardGpuDevice;
use crate::gpu_refusal::GpuRefusal;

/// `PFN_vkVoidFunction`.
pub type StewardVoidFn = unsafe extern "system" fn();
/// `PFN_vkGetInstanceProcAddr`.
pub type StewardGetInstanceProcAddrFn =
    unsafe extern "system" fn(instance: *mut c_void, name: *const c_char) -> Option<StewardVoidFn>;

/// `VK_ERROR_INITIALIZATION_FAILED`: a command of Vulkan 1.0 is missing.
pub(crate) const INITIALIZATION_FAILED: i32 = -3;

/// Allocates nothing.
///
/// # Errors
/// A NULL function or handle, a feature that the header does not have, a missing command of Vulkan 1.0.
///
/// # Safety
/// As [`AshDevice::new`], for the handles in the struct.
pub(crate) unsafe fn load(of: &StewardGpuDevice) -> Result<AshDevice, GpuRefusal> {
    let get = of.get_instance_proc_addr.ok_or(GpuRefusal::Mistake("get_instance_proc_addr of the device is NULL"))?;
    if of.instance.is_null() || of.physical_device.is_null() || of.device.is_null() {
        return Err(GpuRefusal::Mistake("instance, physical_device or device is NULL"));
    }
    if of.features & !FEATURES != 0 {
        return Err(GpuRefusal::Mistake("features has a bit that is none of STEWARD_GPU_*"));
    }
    // SAFETY: the same function: an instance is an address, and a name a C string.
    let get = unsafe { transmute::<StewardGetInstanceProcAddrFn, vk::PFN_vkGetInstanceProcAddr>(get) };
    let instance = vk::Instance::from_raw(of.instance.expose_provenance() as u64);
    let device = vk::Device::from_raw(of.device.expose_provenance() as u64);
    let physical = vk::PhysicalDevice::from_raw(of.physical_device.expose_provenance() as u64);
    // Ash's tables replace missing commands by functions that end the process.
    for name in AshDevice::INSTANCE_COMMANDS {
        // SAFETY: the caller's live instance.
        if unsafe { get(instance, name.as_ptr()) }.is_none() {
            return Err(GpuRefusal::NoCommand(name));
        }
    }
    let name = c"vkGetDeviceProcAddr";
    // SAFETY: the caller's live instance.
    let of_device = unsafe { get(instance, name.as_ptr()) };
    let of_device = of_device.ok_or(GpuRefusal::NoCommand(name))?;
    // SAFETY: the function of this name has this type.
    let of_device = unsafe { transmute::<StewardVoidFn, vk::PFN_vkGetDeviceProcAddr>(of_device) };
    for name in AshDevice::DEVICE_COMMANDS {
        // SAFETY: the caller's live device.
        if unsafe { of_device(device, name.as_ptr()) }.is_none() {
            return Err(GpuRefusal::NoCommand(name));
        }
    }
    let functions = ash::StaticFn { get_instance_proc_addr: get };
    // SAFETY: the caller's function is a loader's or a driver's.
    let entry = unsafe { ash::Entry::from_static_fn(functions) };
    // SAFETY: the caller's live instance.
    let instance = unsafe { ash::Instance::load(entry.static_fn(), instance) };
    // SAFETY: the caller's live device, of that instance.
    let device = unsafe { ash::Device::load(instance.fp_v1_0(), device) };
    // SAFETY: NULL or a live struct.
    let options = unsafe { options(of) };
    // SAFETY: the commands were loaded for these handles, which outlive the allocator.
    Ok(unsafe { AshDevice::new(&entry, &instance, physical, &device, options) })
}

const FEATURES: u32 = 63;

/// # Safety
/// The callbacks are NULL or a live struct.
unsafe fn options(of: &StewardGpuDevice) -> AshOptions {
    let has = |bit: u32| of.features & bit != 0;
    let mut options = AshOptions::new(of.api_version);
    let features = &mut options.features;
    features.dedicated_allocation |= has(1);
    features.external_memory |= has(2);
    features.memory_budget |= has(4);
    features.memory_priority |= has(8);
    features.buffer_device_address |= has(16);
    features.device_coherent_memory |= has(32);
    // SAFETY: NULL or a live struct.
    let callbacks = unsafe { of.callbacks.as_ref() };
    options.callbacks = callbacks.map(RawCallbacks::as_ash).copied();
    options
}

/// # Errors
/// A sentence, for NULL and for what [`ImageInfo`] has no place for.
///
/// # Safety
/// NULL or a live struct whose queue families can be read.
pub(crate) unsafe fn image_info(raw: *const ImageCreateInfo<'_>) -> Result<ImageInfo, &'static str> {
    // SAFETY: NULL or a live struct.
    let raw = unsafe { raw.as_ref() }.ok_or("there is no VkImageCreateInfo")?;
    if !raw.p_next.is_null() {
        return Err("the VkImageCreateInfo has a pNext: create the image yourself, and allocate for dedicated_image");
    }
    let tiling = match raw.tiling {
        vk::ImageTiling::OPTIMAL => ImageTiling::Optimal,
        vk::ImageTiling::LINEAR => ImageTiling::Linear,
        _ => {
            return Err(
                "the tiling is neither optimal nor linear: create the image yourself, and allocate for dedicated_image",
            );
        }
    };
    let family_count = match raw.sharing_mode {
        vk::SharingMode::EXCLUSIVE => 0,
        vk::SharingMode::CONCURRENT => raw.queue_family_index_count as usize,
        _ => return Err("the sharingMode is neither exclusive nor concurrent"),
    };
    if family_count != 0 && raw.p_queue_family_indices.is_null() {
        return Err("pQueueFamilyIndices is NULL");
    }
    let mut families = 0u64;
    for index in 0..family_count {
        // SAFETY: the struct has so many queue families.
        let family = unsafe { raw.p_queue_family_indices.wrapping_add(index).read() };
        families |= 1u64.checked_shl(family).ok_or("a queue family above 63: create the image yourself")?;
    }
    Ok(ImageInfo {
        flags: raw.flags.as_raw(),
        image_type: raw.image_type.as_raw() as u32,
        format: raw.format.as_raw() as u32,
        extent: [raw.extent.width, raw.extent.height, raw.extent.depth],
        mip_levels: raw.mip_levels,
        array_layers: raw.array_layers,
        samples: raw.samples.as_raw(),
        tiling,
        usage: raw.usage.into(),
        initial_layout: raw.initial_layout.as_raw() as u32,
        sharing: QueueFamilies::concurrent(families),
        external: ExternalHandleTypes::NONE,
    })
}
