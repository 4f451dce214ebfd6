use ash::vk;

use super::info::DriverInfo;
use super::instance::{DriverProperties, PlainInstance, text, version_parts, version_text};

pub(super) fn devices(entry: &ash::Entry) -> Result<Vec<DriverInfo>, vk::Result> {
    let instance = PlainInstance::new(entry, vk::API_VERSION_1_2)?;
    // SAFETY: the instance lives to the end of this function.
    let devices = unsafe { instance.enumerate_physical_devices() }?;
    let infos = devices.into_iter().enumerate();
    Ok(infos.filter_map(|(device_index, device)| describe(&instance, device, device_index)).collect())
}

/// `None` for a device of Vulkan 1.0, which the workload cannot use.
fn describe(instance: &ash::Instance, device: vk::PhysicalDevice, device_index: usize) -> Option<DriverInfo> {
    // SAFETY: the device belongs to the instance.
    let properties = unsafe { instance.get_physical_device_properties(device) };
    let version = properties.api_version;
    if version < vk::API_VERSION_1_1 {
        return None;
    }
    let mut driver = DriverProperties::default();
    if version >= vk::API_VERSION_1_2 {
        // SAFETY: the device belongs to the instance, and driver properties are part of its version.
        driver = unsafe { DriverProperties::of(instance, device) };
    }
    if driver.info.is_empty() {
        // Drivers may encode their version in any way; most use Vulkan's.
        driver.info = version_text(properties.driver_version);
    }
    Some(DriverInfo {
        device_index,
        driver_id: driver.id,
        driver_name: driver.name,
        driver_info: driver.info,
        device_name: text(properties.device_name_as_c_str()),
        api_version: version_parts(version),
        ..DriverInfo::default()
    })
}
