use std::ffi::CStr;
use std::ops::Deref;

use ash::vk;

pub(crate) struct PlainInstance(ash::Instance);

impl PlainInstance {
    pub(crate) fn new(entry: &ash::Entry, api_version: u32) -> Result<Self, vk::Result> {
        let application = vk::ApplicationInfo::default().application_name(c"steward").api_version(api_version);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: no layers, no extensions; `info` outlives the call.
        unsafe { entry.create_instance(&info, None) }.map(Self)
    }
}

impl Deref for PlainInstance {
    type Target = ash::Instance;
    fn deref(&self) -> &ash::Instance {
        &self.0
    }
}

impl Drop for PlainInstance {
    fn drop(&mut self) {
        // SAFETY: created in `new` without callbacks. What its users create from it is destroyed before.
        unsafe { self.0.destroy_instance(None) };
    }
}

#[derive(Default)]
pub(crate) struct DriverProperties {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) info: String,
}

impl DriverProperties {
    /// # Safety
    /// `device` is one of the instance, and driver properties are part of its version or of its extensions.
    pub(crate) unsafe fn of(instance: &ash::Instance, device: vk::PhysicalDevice) -> Self {
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
        // SAFETY: a device of the instance, which has driver properties.
        unsafe { instance.get_physical_device_properties2(device, &mut all) };
        let id = match driver.driver_id.as_raw() {
            0 => String::new(),
            _ => format!("{:?}", driver.driver_id),
        };
        Self { id, name: text(driver.driver_name_as_c_str()), info: text(driver.driver_info_as_c_str()) }
    }
}

pub(crate) fn text<E>(name: Result<&CStr, E>) -> String {
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

pub(crate) fn version_parts(version: u32) -> (u32, u32, u32) {
    (vk::api_version_major(version), vk::api_version_minor(version), vk::api_version_patch(version))
}

pub(crate) fn version_text(version: u32) -> String {
    let (major, minor, patch) = version_parts(version);
    format!("{major}.{minor}.{patch}")
}
