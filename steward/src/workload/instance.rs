use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::ops::Deref;
use std::ptr;

use ash::vk;

use super::error::WorkloadError;
use super::phases::Phases;

/// 1.2 has `VkPhysicalDeviceDriverProperties` in core; devices of 1.1 work as well.
const API_VERSION: u32 = vk::API_VERSION_1_2;

pub(super) struct Instance<'w> {
    phases: &'w Phases<'w>,
    entry: &'w ash::Entry,
    ash: ash::Instance,
}

impl<'w> Instance<'w> {
    pub(super) fn new(phases: &'w Phases<'w>, entry: &'w ash::Entry) -> Result<Self, WorkloadError> {
        let application = vk::ApplicationInfo::default().application_name(c"steward").api_version(API_VERSION);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        let mut handle = vk::Instance::null();
        // SAFETY: `info` and everything it points to are locals that outlive the call.
        let created = unsafe { (entry.fp_v1_0().create_instance)(&raw const info, ptr::null(), &raw mut handle) };
        created.result().map_err(WorkloadError::of("vkCreateInstance"))?;

        // Tables of our own: a call of a missing command in ash's aborts.
        let missing = Cell::new(false);
        let lookup = |name: &CStr| {
            // SAFETY: the instance was created above and the name is NUL terminated.
            let found = unsafe { (entry.static_fn().get_instance_proc_addr)(handle, name.as_ptr()) };
            address(found, &missing)
        };
        let v1_0 = ash::InstanceFnV1_0::load(lookup);
        if missing.get() {
            // A leaked instance is better than a call of a missing function.
            return Err(WorkloadError::MissingCommand { level: "instance" });
        }
        let v1_1 = ash::InstanceFnV1_1::load(lookup);
        let v1_3 = ash::InstanceFnV1_3::load(|_| ptr::null());
        let instance = Self { phases, entry, ash: ash::Instance::from_parts_1_3(handle, v1_0, v1_1, v1_3) };
        if missing.get() { Err(WorkloadError::MissingCommand { level: "instance" }) } else { Ok(instance) }
    }

    pub(super) fn phases(&self) -> &'w Phases<'w> {
        self.phases
    }

    pub(super) fn entry(&self) -> &'w ash::Entry {
        self.entry
    }
}

impl Deref for Instance<'_> {
    type Target = ash::Instance;
    fn deref(&self) -> &ash::Instance {
        &self.ash
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        self.phases.begin("shutdown");
        // SAFETY: every object of the instance borrows it and is destroyed.
        unsafe { self.ash.destroy_instance(None) };
    }
}

/// Sets `missing` for a missing command: a call of its table entry would abort.
pub(super) fn address(found: vk::PFN_vkVoidFunction, missing: &Cell<bool>) -> *const c_void {
    found.map_or_else(
        || {
            missing.set(true);
            ptr::null()
        },
        |command| command as *const c_void,
    )
}
