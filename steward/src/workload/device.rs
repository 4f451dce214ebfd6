//! The device, its one queue and its function tables. It is destroyed on drop.

use std::cell::Cell;
use std::ffi::CStr;

use ash::vk::{self, Handle as _};

use super::answer::Answer;
use super::caller::Caller;
use super::error::WorkloadError;
use super::instance::{Instance, address};
use super::physical::Physical;
use vk_accounts::CreatedObject;
use vk_accounts::ObjectKind;

/// Owns the `VkDevice`.
pub(super) struct Device<'d> {
    caller: &'d Caller<'d>,
    instance: &'d Instance<'d>,
    physical: &'d Physical,
    handle: vk::Device,
    allocator: *const vk::AllocationCallbacks<'d>,
    queue: vk::Queue,
    v1_0: ash::DeviceFnV1_0,
    v1_1: ash::DeviceFnV1_1,
}

impl<'d> Device<'d> {
    pub(super) fn new(
        instance: &'d Instance<'d>,
        physical: &'d Physical,
    ) -> Result<Self, WorkloadError> {
        let caller = instance.caller();
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(physical.queue_family)
            .queue_priorities(&[1.0])];
        let mut ycbcr = vk::PhysicalDeviceSamplerYcbcrConversionFeatures::default()
            .sampler_ycbcr_conversion(physical.chroma.is_some());
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .push_next(&mut ycbcr);
        let (create, allocator) = (
            instance.v1_0().create_device,
            caller.callbacks(ObjectKind::Device),
        );
        let mut handle = vk::Device::null();
        let out = &raw mut handle;
        caller.check("vkCreateDevice", ObjectKind::Device, || {
            // SAFETY: the physical device belongs to the instance; `info` and its chain are locals; the device has the one enabled feature;
            // the callbacks are NULL or live as long as the hooks.
            unsafe { create(physical.handle, &raw const info, allocator, out) }
        })?;
        caller.created(&created_object(instance, handle, allocator));

        let get_proc = instance.v1_0().get_device_proc_addr;
        let missing = Cell::new(false);
        let lookup = |name: &CStr| {
            let found = caller.call("vkGetDeviceProcAddr", ObjectKind::Device, || {
                // SAFETY: the device was created above and the name is NUL terminated.
                unsafe { get_proc(handle, name.as_ptr()) }
            });
            address(found, &missing)
        };
        let v1_0 = ash::DeviceFnV1_0::load(lookup);
        if missing.get() {
            // vkDestroyDevice itself may be missing: a leaked device is better than a call of a missing function.
            return Err(WorkloadError::MissingCommand { level: "device" });
        }
        let v1_1 = ash::DeviceFnV1_1::load(lookup);
        let mut device = Self {
            caller,
            instance,
            physical,
            handle,
            allocator,
            queue: vk::Queue::null(),
            v1_0,
            v1_1,
        };
        if missing.get() {
            return Err(WorkloadError::MissingCommand { level: "device" });
        }
        let out = &raw mut device.queue;
        caller.call("vkGetDeviceQueue", ObjectKind::Queue, || {
            // SAFETY: the device was created with queue 0 of this family.
            unsafe { (device.v1_0.get_device_queue)(handle, physical.queue_family, 0, out) }
        });
        caller.count(ObjectKind::Queue, 1);
        Ok(device)
    }

    pub(super) fn caller(&self) -> &'d Caller<'d> {
        self.caller
    }

    /// As [`Caller::call`], for a command of the device, from its function table.
    pub(super) fn call<R: Answer>(
        &self,
        command: &'static str,
        kind: ObjectKind,
        call: impl FnOnce(&ash::DeviceFnV1_0, vk::Device) -> R,
    ) -> R {
        self.caller
            .call(command, kind, || call(&self.v1_0, self.handle))
    }

    /// As [`Caller::check`], likewise.
    pub(super) fn check(
        &self,
        command: &'static str,
        kind: ObjectKind,
        call: impl FnOnce(&ash::DeviceFnV1_0, vk::Device) -> vk::Result,
    ) -> Result<(), WorkloadError> {
        self.caller
            .check(command, kind, || call(&self.v1_0, self.handle))
    }

    pub(super) fn physical(&self) -> &'d Physical {
        self.physical
    }

    pub(super) fn handle(&self) -> vk::Device {
        self.handle
    }

    pub(super) fn queue(&self) -> vk::Queue {
        self.queue
    }

    pub(super) fn v1_0(&self) -> &ash::DeviceFnV1_0 {
        &self.v1_0
    }

    pub(super) fn v1_1(&self) -> &ash::DeviceFnV1_1 {
        &self.v1_1
    }
}

impl Drop for Device<'_> {
    fn drop(&mut self) {
        self.caller.phase("shutdown");
        self.caller.end(
            "vkDestroyDevice",
            &[created_object(self.instance, self.handle, self.allocator)],
            || {
                // SAFETY: every object of the device borrows it and is destroyed; the callbacks are those of its creation.
                unsafe { (self.v1_0.destroy_device)(self.handle, self.allocator) }
            },
        );
    }
}

fn created_object<'a>(
    instance: &Instance<'_>,
    handle: vk::Device,
    allocator: *const vk::AllocationCallbacks<'a>,
) -> CreatedObject<'a> {
    CreatedObject {
        kind: ObjectKind::Device,
        handle: handle.as_raw(),
        parent: instance.handle().as_raw(),
        allocator,
    }
}
