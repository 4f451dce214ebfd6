//! The instance. It is destroyed on drop.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::ops::Deref;
use std::ptr;

use ash::vk;

use super::error::WorkloadError;
use super::messenger;
use super::phases::Phases;

/// 1.2 has `VkPhysicalDeviceDriverProperties` in core; devices of 1.1 work as well.
const API_VERSION: u32 = vk::API_VERSION_1_2;

const VALIDATION_LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// Owns the `VkInstance`.
pub(super) struct Instance<'w> {
    phases: &'w Phases<'w>,
    entry: &'w ash::Entry,
    ash: ash::Instance,
}

impl<'w> Instance<'w> {
    /// Creates the instance. With `messages` it has the validation layer with synchronization validation, which reports to `messages`.
    pub(super) fn new(
        phases: &'w Phases<'w>,
        entry: &'w ash::Entry,
        messages: Option<&messenger::Messages>,
    ) -> Result<Self, WorkloadError> {
        let application = vk::ApplicationInfo::default()
            .application_name(c"steward")
            .api_version(API_VERSION);
        let layers: [*const c_char; 1] = [VALIDATION_LAYER.as_ptr()];
        let extensions: [*const c_char; 2] = [
            vk::EXT_DEBUG_UTILS_NAME.as_ptr(),
            vk::EXT_VALIDATION_FEATURES_NAME.as_ptr(),
        ];
        // The layer looks for missing barriers only if this is enabled.
        let enabled = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut features =
            vk::ValidationFeaturesEXT::default().enabled_validation_features(&enabled);
        // The messenger in the chain covers vkCreateInstance and vkDestroyInstance.
        let mut early = messages.map(messenger::create_info);
        let mut info = vk::InstanceCreateInfo::default().application_info(&application);
        if let Some(early) = &mut early {
            info = info
                .enabled_layer_names(&layers)
                .enabled_extension_names(&extensions)
                .push_next(early)
                .push_next(&mut features);
        }
        let mut handle = vk::Instance::null();
        // SAFETY: `info` and everything it points to are locals that outlive the call; layer and extension names are NUL terminated.
        let created = unsafe {
            (entry.fp_v1_0().create_instance)(&raw const info, ptr::null(), &raw mut handle)
        };
        created
            .result()
            .map_err(WorkloadError::of("vkCreateInstance"))?;

        // Tables of our own: a call of a missing command in ash's aborts.
        let missing = Cell::new(false);
        let lookup = |name: &CStr| {
            // SAFETY: the instance was created above and the name is NUL terminated.
            let found =
                unsafe { (entry.static_fn().get_instance_proc_addr)(handle, name.as_ptr()) };
            address(found, &missing)
        };
        let v1_0 = ash::InstanceFnV1_0::load(lookup);
        if missing.get() {
            // vkDestroyInstance itself may be missing: a leaked instance is better than a call of a missing function.
            return Err(WorkloadError::MissingCommand { level: "instance" });
        }
        let v1_1 = ash::InstanceFnV1_1::load(lookup);
        let v1_3 = ash::InstanceFnV1_3::load(|_| ptr::null());
        let instance = Self {
            phases,
            entry,
            ash: ash::Instance::from_parts_1_3(handle, v1_0, v1_1, v1_3),
        };
        if missing.get() {
            Err(WorkloadError::MissingCommand { level: "instance" })
        } else {
            Ok(instance)
        }
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

/// The address for a function table. Sets `missing` for a missing command: a call of its table entry would abort.
pub(super) fn address(found: vk::PFN_vkVoidFunction, missing: &Cell<bool>) -> *const c_void {
    found.map_or_else(
        || {
            missing.set(true);
            ptr::null()
        },
        |command| command as *const c_void,
    )
}
