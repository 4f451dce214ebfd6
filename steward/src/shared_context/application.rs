//! The application creates and destroys the instance and the device.

use ash::vk::{self, Handle as _};
use vk_callbacks::{OwnerId, Owners};

use super::SharingError;
use super::brackets::Brackets;
use super::memory::Callbacks;
use crate::drivers::Selected;

pub(super) struct Application<'s> {
    pub(super) instance: ash::Instance,
    pub(super) physical: vk::PhysicalDevice,
    pub(super) device: vk::Device,
    pub(super) api_version: u32,
    destroy: vk::PFN_vkDestroyDevice,
    /// The device's callbacks.
    callbacks: vk::AllocationCallbacks<'s>,
    owner: OwnerId,
    brackets: &'s Brackets<'s>,
}

fn refused(command: &'static str) -> impl Fn(vk::Result) -> SharingError {
    move |result| SharingError::Command { command, result }
}

impl<'s> Application<'s> {
    /// Creates the instance without callbacks, since the workload measures instances, and the device with these.
    pub(super) fn new(
        selected: &'s Selected,
        callbacks: &Callbacks,
        brackets: &'s Brackets<'s>,
    ) -> Result<Self, SharingError> {
        let entry = selected.entry();
        let application = vk::ApplicationInfo::default()
            .application_name(c"steward")
            .api_version(vk::API_VERSION_1_1);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: a valid info; destroyed with the value, or below.
        let made = brackets.run("vkCreateInstance", Owners::default(), || unsafe {
            entry.create_instance(&info, None)
        });
        let instance = made.map_err(refused("vkCreateInstance"))?;
        let made = device_of(
            &instance,
            selected.info().device_index,
            brackets,
            &callbacks.lend(),
        );
        match made {
            Ok((physical, device, api_version, destroy)) => {
                brackets.created("VkDevice", device.as_raw(), Some(callbacks.owner()));
                let (owner, callbacks) = (callbacks.owner(), callbacks.lend());
                Ok(Self {
                    instance,
                    physical,
                    device,
                    api_version,
                    destroy,
                    callbacks,
                    owner,
                    brackets,
                })
            }
            Err(error) => {
                // SAFETY: made above; nothing of it is left.
                brackets.run("vkDestroyInstance", Owners::default(), || unsafe {
                    instance.destroy_instance(None)
                });
                Err(error)
            }
        }
    }
}

type CreatedFn = (vk::PhysicalDevice, vk::Device, u32, vk::PFN_vkDestroyDevice);

fn device_of(
    instance: &ash::Instance,
    index: usize,
    brackets: &Brackets<'_>,
    callbacks: &vk::AllocationCallbacks<'_>,
) -> Result<CreatedFn, SharingError> {
    let none = Owners::default;
    // SAFETY: a live instance, here and below.
    let all = brackets.run("vkEnumeratePhysicalDevices", none(), || unsafe {
        instance.enumerate_physical_devices()
    });
    let all = all.map_err(refused("vkEnumeratePhysicalDevices"))?;
    let physical = *all
        .get(index)
        .ok_or_else(|| refused("vkEnumeratePhysicalDevices")(vk::Result::INCOMPLETE))?;
    let (get, mut properties) = (
        instance.fp_v1_0().get_physical_device_properties,
        vk::PhysicalDeviceProperties::default(),
    );
    // SAFETY: of the instance.
    brackets.run("vkGetPhysicalDeviceProperties", none(), || unsafe {
        get(physical, &raw mut properties)
    });
    let version = properties.api_version.min(vk::API_VERSION_1_1);
    let mut families = Vec::new();
    brackets.run("vkGetPhysicalDeviceQueueFamilyProperties", none(), || {
        // SAFETY: as above.
        families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
    });
    let family = families
        .iter()
        .position(|family| family.queue_flags.contains(vk::QueueFlags::COMPUTE));
    let family = family
        .and_then(|family| u32::try_from(family).ok())
        .unwrap_or_default();
    let queues = [vk::DeviceQueueCreateInfo::default()
        .queue_family_index(family)
        .queue_priorities(&[1.0])];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
    let (create, mut device) = (instance.fp_v1_0().create_device, vk::Device::null());
    // SAFETY: a valid info; the callbacks outlive the device, which is destroyed with the value.
    let call = || unsafe { create(physical, &raw const info, callbacks, &raw mut device) };
    match brackets.run("vkCreateDevice", brackets.of_device(None), call) {
        vk::Result::SUCCESS => {}
        result => return Err(refused("vkCreateDevice")(result)),
    }
    let look_up = instance.fp_v1_0().get_device_proc_addr;
    // SAFETY: a device of the instance, and a C string.
    let call = || unsafe { look_up(device, c"vkDestroyDevice".as_ptr()) };
    let destroy = brackets.run("vkGetDeviceProcAddr", brackets.of_device(None), call);
    let destroy = destroy
        .ok_or_else(|| refused("vkGetDeviceProcAddr")(vk::Result::ERROR_INITIALIZATION_FAILED))?;
    // SAFETY: the function of this name has this type.
    let destroy = unsafe {
        std::mem::transmute::<unsafe extern "system" fn(), vk::PFN_vkDestroyDevice>(destroy)
    };
    Ok((physical, device, version, destroy))
}

impl Drop for Application<'_> {
    fn drop(&mut self) {
        let (brackets, device) = (self.brackets, self.device);
        // SAFETY: every context borrowed this value, and is gone; made with these callbacks.
        let call = || unsafe { (self.destroy)(device, &raw const self.callbacks) };
        brackets.run("vkDestroyDevice", brackets.of_device(None), call);
        brackets.destroyed(
            "VkDevice",
            device.as_raw(),
            Some(self.owner),
            "vkDestroyDevice",
        );
        // SAFETY: its only device went.
        brackets.run("vkDestroyInstance", Owners::default(), || unsafe {
            self.instance.destroy_instance(None)
        });
    }
}
