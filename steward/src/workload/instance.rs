//! The instance and its function tables. It is destroyed on drop.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use ash::vk::{self, Handle as _};

use super::caller::Caller;
use super::error::WorkloadError;
use super::messenger;
use vk_accounts::CreatedObject;
use vk_accounts::ObjectKind;

/// 1.2 has `VkPhysicalDeviceDriverProperties` in core; devices of 1.1 work as well.
const API_VERSION: u32 = vk::API_VERSION_1_2;

const VALIDATION_LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// Owns the `VkInstance`.
pub(super) struct Instance<'h> {
    caller: &'h Caller<'h>,
    handle: vk::Instance,
    allocator: *const vk::AllocationCallbacks<'h>,
    get_proc: vk::PFN_vkGetInstanceProcAddr,
    v1_0: ash::InstanceFnV1_0,
    v1_1: ash::InstanceFnV1_1,
}

impl<'h> Instance<'h> {
    /// Creates the instance. With `messages` it has the validation layer with synchronization validation, which reports to `messages`.
    pub(super) fn new(
        caller: &'h Caller<'h>,
        entry: &ash::Entry,
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

        let (create, allocator) = (
            entry.fp_v1_0().create_instance,
            caller.callbacks(ObjectKind::Instance),
        );
        let mut handle = vk::Instance::null();
        let out = &raw mut handle;
        caller.check("vkCreateInstance", ObjectKind::Instance, || {
            // SAFETY: `info` and everything it points to are locals that outlive the call; layer and extension names are NUL
            // terminated; the callbacks are NULL or live as long as the hooks.
            unsafe { create(&raw const info, allocator, out) }
        })?;
        caller.created(&CreatedObject {
            kind: ObjectKind::Instance,
            handle: handle.as_raw(),
            parent: 0,
            allocator,
        });

        let get_proc = entry.static_fn().get_instance_proc_addr;
        let missing = Cell::new(false);
        let lookup = |name: &CStr| {
            let found = caller.call("vkGetInstanceProcAddr", ObjectKind::Instance, || {
                // SAFETY: the instance was created above and the name is NUL terminated.
                unsafe { get_proc(handle, name.as_ptr()) }
            });
            address(found, &missing)
        };
        let v1_0 = ash::InstanceFnV1_0::load(lookup);
        if missing.get() {
            // vkDestroyInstance itself may be missing: a leaked instance is better than a call of a missing function.
            return Err(WorkloadError::MissingCommand { level: "instance" });
        }
        let v1_1 = ash::InstanceFnV1_1::load(lookup);
        let instance = Self {
            caller,
            handle,
            allocator,
            get_proc,
            v1_0,
            v1_1,
        };
        if missing.get() {
            Err(WorkloadError::MissingCommand { level: "instance" })
        } else {
            Ok(instance)
        }
    }

    pub(super) fn caller(&self) -> &'h Caller<'h> {
        self.caller
    }

    pub(super) fn handle(&self) -> vk::Instance {
        self.handle
    }

    pub(super) fn v1_0(&self) -> &ash::InstanceFnV1_0 {
        &self.v1_0
    }

    pub(super) fn v1_1(&self) -> &ash::InstanceFnV1_1 {
        &self.v1_1
    }

    /// A command of an extension; `None` if the instance lacks it.
    pub(super) fn extension_command(&self, name: &CStr) -> vk::PFN_vkVoidFunction {
        self.caller
            .call("vkGetInstanceProcAddr", ObjectKind::Instance, || {
                // SAFETY: the instance lives while `self` does and the name is NUL terminated.
                unsafe { (self.get_proc)(self.handle, name.as_ptr()) }
            })
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        self.caller.phase("shutdown");
        let made = CreatedObject {
            kind: ObjectKind::Instance,
            handle: self.handle.as_raw(),
            parent: 0,
            allocator: self.allocator,
        };
        self.caller.end("vkDestroyInstance", &[made], || {
            // SAFETY: every object of the instance borrows it and is destroyed; the callbacks are those of its creation.
            unsafe { (self.v1_0.destroy_instance)(self.handle, self.allocator) }
        });
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
