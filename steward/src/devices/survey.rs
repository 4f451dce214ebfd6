//! Queries the loader for all devices, and compares each with each.

use std::alloc::System;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::path::PathBuf;

use alloc_core::{FromGlobalAlloc, Scope, Scoped, TryVec};
use ash::vk;
use gpu_suballoc::DeviceGroup;
use gpu_suballoc::ash::physical_device_capabilities;
use gpu_suballoc::group::{CapabilityFlags, Edge, HandleTypes, LinkClass, MembershipCell};

use super::error::DevicesError;
use super::groups;
use super::nvml::Nvml;
use super::pci;
use super::report::{DevicesReport, EdgeRow, ShownDevice};
use super::surveyed_device::{Sources, SurveyedDevice};
use crate::drivers::{DriverProperties, PlainInstance, text, version_text};

static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

/// Extensions that matter between devices.
const WANTED: [&CStr; 9] = [
    vk::KHR_EXTERNAL_MEMORY_FD_NAME,
    vk::KHR_EXTERNAL_MEMORY_WIN32_NAME,
    vk::EXT_EXTERNAL_MEMORY_DMA_BUF_NAME,
    vk::EXT_EXTERNAL_MEMORY_HOST_NAME,
    vk::KHR_EXTERNAL_SEMAPHORE_FD_NAME,
    vk::KHR_EXTERNAL_SEMAPHORE_WIN32_NAME,
    vk::KHR_DRIVER_PROPERTIES_NAME,
    vk::EXT_PCI_BUS_INFO_NAME,
    vk::KHR_DEVICE_GROUP_NAME,
];

/// All devices that the loader shows, in one instance, as an application sees them.
///
/// # Errors
/// [`DevicesError::Vulkan`] without an instance, [`DevicesError::NoDevice`] without a device.
///
/// # Panics
/// Never.
pub fn survey(entry: &ash::Entry) -> Result<DevicesReport, DevicesError> {
    let instance = &PlainInstance::new(entry, vk::API_VERSION_1_3)?;
    // SAFETY: the instance lives to the end of this function.
    let physical = unsafe { instance.enumerate_physical_devices() }?;
    if physical.is_empty() {
        return Err(DevicesError::NoDevice);
    }
    let nvml = physical
        .iter()
        .any(|device| is_nvidias(instance, *device))
        .then(Nvml::open)
        .flatten();
    let sources = Sources {
        sys: PathBuf::from(pci::SYSTEM),
        nvml,
        link_sources: RefCell::new(BTreeMap::new()),
    };
    let mut devices = TryVec::new_in(Scoped::new(&SYSTEM, Scope::Device));
    let mut rows = Vec::new();
    for (index, device) in physical.iter().enumerate() {
        let (row, shown) = describe(instance, *device, index, &sources);
        rows.push(row);
        devices
            .try_push(shown)
            .map_err(|refused| DevicesError::Group(refused.error.into()))?;
    }
    let group = DeviceGroup::new(devices).map_err(|refused| DevicesError::Group(refused.error))?;
    let mut edges = Vec::new();
    let count = group.devices().len();
    for from in 0..count {
        for to in (0..count).filter(|to| *to != from) {
            let source = sources.link_sources.borrow().get(&(from, to)).copied();
            edges.extend(
                group
                    .edge_between(from, to)
                    .map(|edge| edge_row(from, to, edge, source)),
            );
        }
    }
    let groups = groups::rows(instance, group.devices())?;
    Ok(DevicesReport {
        format: 1,
        devices: rows,
        groups,
        edges,
    })
}

fn is_nvidias(instance: &ash::Instance, device: vk::PhysicalDevice) -> bool {
    // SAFETY: the device is of the instance.
    unsafe { instance.get_physical_device_properties(device) }.vendor_id == 0x10DE
}

fn describe<'s>(
    instance: &ash::Instance,
    device: vk::PhysicalDevice,
    index: usize,
    sources: &'s Sources,
) -> (ShownDevice, SurveyedDevice<'s>) {
    // SAFETY: the device is of the instance, here and below.
    let properties = unsafe { instance.get_physical_device_properties(device) };
    let version = properties.api_version.min(vk::API_VERSION_1_3);
    // SAFETY: as above.
    let supported =
        unsafe { instance.enumerate_device_extension_properties(device) }.unwrap_or_default();
    let has = |name: &CStr| {
        supported
            .iter()
            .any(|there| there.extension_name_as_c_str() == Ok(name))
    };
    let extensions: Vec<&CStr> = WANTED.into_iter().filter(|name| has(name)).collect();
    // SAFETY: the version is the lesser of both, the extensions are supported.
    let mut capabilities =
        unsafe { physical_device_capabilities(instance, device, version, &extensions) };
    let path = capabilities
        .pci
        .and_then(|address| pci::path_of(&sources.sys, address));
    capabilities.numa_node = path.as_deref().and_then(pci::numa_node);
    let mut driver = DriverProperties::default();
    if version >= vk::API_VERSION_1_2 || has(vk::KHR_DRIVER_PROPERTIES_NAME) {
        // SAFETY: the device is of the instance, and driver properties are part of its version or extensions.
        driver = unsafe { DriverProperties::of(instance, device) };
    }
    let row = ShownDevice {
        index,
        name: text(properties.device_name_as_c_str()),
        driver_name: driver.name,
        driver_id: driver.id,
        api_version: version_text(properties.api_version),
        device_uuid: capabilities.device_uuid.map(uuid),
        driver_uuid: capabilities.driver_uuid.map(uuid),
        device_luid: capabilities
            .device_luid
            .map(|luid| luid.iter().map(|byte| format!("{byte:02x}")).collect()),
        pci: capabilities.pci.map(|address| address.to_string()),
        numa_node: capabilities.numa_node,
        memory_import: handles(capabilities.buffer_import),
        memory_export: handles(capabilities.buffer_export),
        semaphore_import: handles(capabilities.semaphore_import),
        semaphore_export: handles(capabilities.semaphore_export),
        capabilities: capability_names(capabilities.flags),
    };
    (
        row,
        SurveyedDevice {
            index,
            physical: device,
            capabilities,
            path,
            membership: MembershipCell::new(),
            sources,
        },
    )
}

fn edge_row(from: usize, to: usize, edge: &Edge, source: Option<&'static str>) -> EdgeRow {
    EdgeRow {
        from,
        to,
        wait: edge.wait.to_string(),
        signal: edge.signal.to_string(),
        read: edge.read.to_string(),
        write: edge.write.to_string(),
        memory_handles: handles(edge.buffers),
        semaphore_handles: handles(edge.semaphores),
        link: edge.link.to_string(),
        link_told_by: source
            .or((edge.link != LinkClass::Unknown).then_some("Vulkan"))
            .unwrap_or_default()
            .to_owned(),
        copy_cost: edge.copy_cost,
        numa_distance: edge.numa_distance,
    }
}

/// As vulkaninfo prints it.
fn uuid(bytes: [u8; 16]) -> String {
    let mut text = String::new();
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn handles(set: HandleTypes) -> Vec<String> {
    let all = [
        (HandleTypes::OPAQUE_FD, "OPAQUE_FD"),
        (HandleTypes::OPAQUE_WIN32, "OPAQUE_WIN32"),
        (HandleTypes::DMA_BUF, "DMA_BUF"),
        (HandleTypes::SYNC_FD, "SYNC_FD"),
        (HandleTypes::HOST_ALLOCATION, "HOST_ALLOCATION"),
    ];
    names(&all, |handle| set.contains(handle))
}

fn capability_names(set: CapabilityFlags) -> Vec<String> {
    let all = [
        (CapabilityFlags::HOST_COHERENT, "host coherent"),
        (CapabilityFlags::DEVICE_ATOMICS, "device atomics"),
        (CapabilityFlags::TIMELINE_SEMAPHORE, "timeline semaphores"),
    ];
    names(&all, |flag| set.contains(flag))
}

/// The names of the flags that are set.
pub(super) fn names<F: Copy>(all: &[(F, &'static str)], is_set: impl Fn(F) -> bool) -> Vec<String> {
    let set = all.iter().filter(|(flag, _)| is_set(*flag));
    set.map(|(_, name)| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_uuid_is_written_as_vulkaninfo_writes_it() {
        let bytes = std::array::from_fn(|place| place as u8 * 17);
        assert_eq!(super::uuid(bytes), "00112233-4455-6677-8899-aabbccddeeff");
    }
}
