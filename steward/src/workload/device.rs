use std::cell::Cell;
use std::ffi::CStr;
use std::ops::Deref;
use std::ptr;

use ash::vk;

use super::error::WorkloadError;
use super::instance::{Instance, address};
use super::phases::Phases;
use super::physical::Physical;

pub(super) struct Device<'d> {
    instance: &'d Instance<'d>,
    physical: &'d Physical,
    ash: ash::Device,
    queue: vk::Queue,
    command_buffers: Cell<u32>,
}

impl<'d> Device<'d> {
    pub(super) fn new(instance: &'d Instance<'d>, physical: &'d Physical) -> Result<Self, WorkloadError> {
        let queues =
            [vk::DeviceQueueCreateInfo::default().queue_family_index(physical.queue_family).queue_priorities(&[1.0])];
        let mut ycbcr = vk::PhysicalDeviceSamplerYcbcrConversionFeatures::default()
            .sampler_ycbcr_conversion(physical.chroma.is_some());
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).push_next(&mut ycbcr);
        let (commands, mut handle) = (instance.fp_v1_0(), vk::Device::null());
        let (out, none) = (&raw mut handle, ptr::null());
        // SAFETY: the physical device belongs to the instance, and has the one enabled feature; `info` is local.
        let created = unsafe { (commands.create_device)(physical.handle, &raw const info, none, out) };
        created.result().map_err(WorkloadError::of("vkCreateDevice"))?;

        let missing = Cell::new(false);
        let lookup = |name: &CStr| {
            // SAFETY: the device was created above and the name is NUL terminated.
            let found = unsafe { (commands.get_device_proc_addr)(handle, name.as_ptr()) };
            address(found, &missing)
        };
        let v1_0 = ash::DeviceFnV1_0::load(lookup);
        if missing.get() {
            return Err(WorkloadError::MissingCommand { level: "device" });
        }
        let v1_1 = ash::DeviceFnV1_1::load(lookup);
        let v1_2 = ash::DeviceFnV1_2::load(|_| ptr::null());
        let v1_3 = ash::DeviceFnV1_3::load(|_| ptr::null());
        let mut device = Self {
            instance,
            physical,
            ash: ash::Device::from_parts_1_3(handle, v1_0, v1_1, v1_2, v1_3),
            queue: vk::Queue::null(),
            command_buffers: Cell::new(0),
        };
        if missing.get() {
            return Err(WorkloadError::MissingCommand { level: "device" });
        }
        // SAFETY: the device was created with queue 0 of this family.
        device.queue = unsafe { device.get_device_queue(physical.queue_family, 0) };
        Ok(device)
    }

    pub(super) fn phases(&self) -> &'d Phases<'d> {
        self.instance.phases()
    }

    pub(super) fn instance(&self) -> &'d Instance<'d> {
        self.instance
    }

    pub(super) fn physical(&self) -> &'d Physical {
        self.physical
    }

    pub(super) fn queue(&self) -> vk::Queue {
        self.queue
    }

    pub(super) fn command_buffers(&self) -> &Cell<u32> {
        &self.command_buffers
    }
}

impl Deref for Device<'_> {
    type Target = ash::Device;
    fn deref(&self) -> &ash::Device {
        &self.ash
    }
}

impl Drop for Device<'_> {
    fn drop(&mut self) {
        self.phases().begin("shutdown");
        // SAFETY: every object of the device borrows it and is destroyed.
        unsafe { self.ash.destroy_device(None) };
    }
}
