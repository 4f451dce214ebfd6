//! An instance and a device for memory only.

use ash::vk;
use gpu_suballoc::AshDevice;
use gpu_suballoc::ash::AshOptions;

use super::error::DeviceMemoryError;
use crate::drivers::{PlainInstance, Selected};

/// A device that is destroyed on drop, after its memory was freed.
pub(super) struct OpenDevice<'s> {
    entry: &'s ash::Entry,
    instance: PlainInstance,
    physical: vk::PhysicalDevice,
    device: ash::Device,
    options: AshOptions,
    device_type: vk::PhysicalDeviceType,
}

fn failed(command: &'static str) -> impl Fn(vk::Result) -> DeviceMemoryError {
    move |result| DeviceMemoryError::Command { command, result }
}

impl<'s> OpenDevice<'s> {
    pub(super) fn new(selected: &'s Selected) -> Result<Self, DeviceMemoryError> {
        let entry = selected.entry();
        let instance = PlainInstance::new(entry, vk::API_VERSION_1_1);
        let instance = instance.map_err(failed("vkCreateInstance"))?;
        // SAFETY: the instance lives to the end of this function, and in what is returned.
        let devices = unsafe { instance.enumerate_physical_devices() };
        let physical = *devices
            .map_err(failed("vkEnumeratePhysicalDevices"))?
            .get(selected.info().device_index)
            .ok_or(DeviceMemoryError::DeviceGone)?;
        // SAFETY: the device is of the instance, here and below.
        let properties = unsafe { instance.get_physical_device_properties(physical) };
        // SAFETY: as above.
        let supported = unsafe { instance.enumerate_device_extension_properties(physical) };
        let budget = vk::EXT_MEMORY_BUDGET_NAME;
        let has_budget = supported
            .unwrap_or_default()
            .iter()
            .any(|there| there.extension_name_as_c_str() == Ok(budget));
        let names = [budget.as_ptr()];
        let names = names.get(..usize::from(has_budget)).unwrap_or_default();
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(0)
            .queue_priorities(&[1.0])];
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(names);
        // SAFETY: every device has a queue family 0, with a queue; the extension is supported.
        let device = unsafe { instance.create_device(physical, &info, None) };
        let device = device.map_err(failed("vkCreateDevice"))?;
        let mut options = AshOptions::new(vk::API_VERSION_1_1.min(properties.api_version));
        options.features.memory_budget = has_budget;
        Ok(Self {
            entry,
            instance,
            physical,
            device,
            options,
            device_type: properties.device_type,
        })
    }

    /// The device for an allocator. Must not be used after `self` is dropped.
    pub(super) fn memory(&self) -> AshDevice {
        // SAFETY: the handles belong together; `measure` frees all memory before it returns, and `self` outlives it; the features are enabled.
        unsafe {
            AshDevice::new(
                self.entry,
                &self.instance,
                self.physical,
                &self.device,
                self.options,
            )
        }
    }

    /// Whether its heaps are host memory: it is a processor or an integrated device.
    pub(super) fn is_host_memory(&self) -> bool {
        matches!(
            self.device_type,
            vk::PhysicalDeviceType::CPU | vk::PhysicalDeviceType::INTEGRATED_GPU
        )
    }
}

impl Drop for OpenDevice<'_> {
    fn drop(&mut self) {
        // SAFETY: created in `new` without callbacks; all its memory is freed, and no work runs on it.
        unsafe { self.device.destroy_device(None) };
    }
}
