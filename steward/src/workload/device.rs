use std::cell::Cell;
use std::ops::Deref;

use ash::vk;

use super::error::WorkloadError;
use super::instance::Instance;
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
        // SAFETY: the physical device belongs to the instance, and has the one enabled feature.
        let created = unsafe { instance.create_device(physical.handle, &info, None) };
        let ash = created.map_err(WorkloadError::of("vkCreateDevice"))?;
        // SAFETY: the device was created with queue 0 of this family.
        let queue = unsafe { ash.get_device_queue(physical.queue_family, 0) };
        Ok(Self { instance, physical, ash, queue, command_buffers: Cell::new(0) })
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
