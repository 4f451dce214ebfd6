//! Asks the loader for the devices it shows, with the environment as it is.

use std::ffi::CStr;

use ash::vk;

use super::info::DriverInfo;

/// The devices of one new instance, in the loader's order, without index and manifest; or what Vulkan answered.
pub(super) fn devices(entry: &ash::Entry) -> Result<Vec<DriverInfo>, vk::Result> {
    let application = vk::ApplicationInfo::default()
        .application_name(c"steward")
        .api_version(vk::API_VERSION_1_2);
    let info = vk::InstanceCreateInfo::default().application_info(&application);
    // SAFETY: no layers, no extensions; `info` outlives the call.
    let instance = ProbeEnded(unsafe { entry.create_instance(&info, None) }?);
    // SAFETY: the instance lives to the end of this function.
    let devices = unsafe { instance.0.enumerate_physical_devices() }?;
    let infos = devices.into_iter().enumerate();
    Ok(infos
        .filter_map(|(device_index, device)| describe(&instance.0, device, device_index))
        .collect())
}

/// Ends the instance on every path.
struct ProbeEnded(ash::Instance);

impl Drop for ProbeEnded {
    fn drop(&mut self) {
        // SAFETY: made in `devices`, without callbacks; nothing was made from it.
        unsafe { self.0.destroy_instance(None) };
    }
}

/// `None` for a device of Vulkan 1.0, which the workload cannot use.
fn describe(
    instance: &ash::Instance,
    device: vk::PhysicalDevice,
    device_index: usize,
) -> Option<DriverInfo> {
    // SAFETY: the device belongs to the instance.
    let properties = unsafe { instance.get_physical_device_properties(device) };
    let version = properties.api_version;
    if version < vk::API_VERSION_1_1 {
        return None;
    }
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    if version >= vk::API_VERSION_1_2 {
        let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
        // SAFETY: the device belongs to the instance, and driver properties are part of its version.
        unsafe { instance.get_physical_device_properties2(device, &mut all) };
    }
    let text = |name: Result<&CStr, _>| {
        name.map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let (driver_name, driver_info) = (
        text(driver.driver_name_as_c_str()),
        text(driver.driver_info_as_c_str()),
    );
    let (own, major, minor, patch) = (
        properties.driver_version,
        vk::api_version_major,
        vk::api_version_minor,
        vk::api_version_patch,
    );
    // A driver may pack its version as it likes; most do it as Vulkan does.
    let number = format!("{}.{}.{}", major(own), minor(own), patch(own));
    Some(DriverInfo {
        device_index,
        driver_id: if driver.driver_id.as_raw() == 0 {
            String::new()
        } else {
            format!("{:?}", driver.driver_id)
        },
        driver_name,
        driver_info: if driver_info.is_empty() {
            number
        } else {
            driver_info
        },
        device_name: properties
            .device_name_as_c_str()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        api_version: (major(version), minor(version), patch(version)),
        ..DriverInfo::default()
    })
}
