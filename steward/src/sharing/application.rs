//! The application: an instance and a device, which are its own to make and to destroy.

use ash::vk;
use vk_callbacks::RawCallbacks;

use super::SharingError;
use crate::drivers::Selected;

pub(super) struct Application<'s> {
    pub(super) instance: ash::Instance,
    pub(super) physical: vk::PhysicalDevice,
    pub(super) device: ash::Device,
    pub(super) api_version: u32,
    _entry: &'s ash::Entry,
}

fn refused(command: &'static str) -> impl Fn(vk::Result) -> SharingError {
    move |result| SharingError::Command { command, result }
}

impl<'s> Application<'s> {
    pub(super) fn new(selected: &'s Selected) -> Result<Self, SharingError> {
        let entry = selected.entry();
        let application = vk::ApplicationInfo::default().application_name(c"steward").api_version(vk::API_VERSION_1_1);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: a valid info; destroyed with the value, or below.
        let instance = unsafe { entry.create_instance(&info, None) }.map_err(refused("vkCreateInstance"))?;
        match device_of(&instance, selected.info().device_index) {
            Ok((physical, device, api_version)) => Ok(Self { instance, physical, device, api_version, _entry: entry }),
            Err(error) => {
                // SAFETY: made above; nothing of it is left.
                unsafe { instance.destroy_instance(None) };
                Err(error)
            }
        }
    }

    /// Callbacks as ash has them.
    pub(super) fn lend(&self, callbacks: &RawCallbacks) -> vk::AllocationCallbacks<'static> {
        let vk::AllocationCallbacks {
            p_user_data,
            pfn_allocation,
            pfn_reallocation,
            pfn_free,
            pfn_internal_allocation,
            pfn_internal_free,
            ..
        } = *callbacks.as_ash();
        vk::AllocationCallbacks {
            p_user_data,
            pfn_allocation,
            pfn_reallocation,
            pfn_free,
            pfn_internal_allocation,
            pfn_internal_free,
            ..Default::default()
        }
    }
}

fn device_of(instance: &ash::Instance, index: usize) -> Result<(vk::PhysicalDevice, ash::Device, u32), SharingError> {
    // SAFETY: a live instance.
    let all = unsafe { instance.enumerate_physical_devices() }.map_err(refused("vkEnumeratePhysicalDevices"))?;
    let physical = *all.get(index).ok_or_else(|| refused("vkEnumeratePhysicalDevices")(vk::Result::INCOMPLETE))?;
    // SAFETY: of the instance, here and below.
    let version = unsafe { instance.get_physical_device_properties(physical) }.api_version.min(vk::API_VERSION_1_1);
    // SAFETY: as above.
    let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    let family = families.iter().position(|family| family.queue_flags.contains(vk::QueueFlags::COMPUTE));
    let family = family.and_then(|family| u32::try_from(family).ok()).unwrap_or_default();
    let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
    // SAFETY: a valid info; destroyed with the value.
    let device = unsafe { instance.create_device(physical, &info, None) }.map_err(refused("vkCreateDevice"))?;
    Ok((physical, device, version))
}

impl Drop for Application<'_> {
    fn drop(&mut self) {
        // SAFETY: every context borrowed this value, and is gone.
        unsafe { self.device.destroy_device(None) };
        // SAFETY: its only device went.
        unsafe { self.instance.destroy_instance(None) };
    }
}
