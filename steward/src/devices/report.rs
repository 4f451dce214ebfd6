//! The result as data: the JSON of `steward devices`.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// All devices of one instance, and every edge between them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DevicesReport {
    /// The format's version: 1.
    pub format: u32,
    /// In the loader's order.
    pub devices: Vec<ShownDevice>,
    /// `vkEnumeratePhysicalDeviceGroups`.
    pub groups: Vec<GroupRow>,
    /// Every ordered pair of different devices, row by row.
    pub edges: Vec<EdgeRow>,
}

/// One physical device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownDevice {
    /// Its number, from 0.
    pub index: usize,
    /// `deviceName`.
    pub name: String,
    /// `driverName`; empty if the driver has none.
    pub driver_name: String,
    /// `driverID` without the prefix; empty if the driver has none.
    pub driver_id: String,
    /// Major, minor, patch of the version of Vulkan.
    pub api_version: String,
    /// `deviceUUID` as vulkaninfo prints it; `null` below Vulkan 1.1.
    pub device_uuid: Option<String>,
    /// `driverUUID`, likewise.
    pub driver_uuid: Option<String>,
    /// `deviceLUID`; `null` if not valid.
    pub device_luid: Option<String>,
    /// Its PCI address; `null` if it is on no bus.
    pub pci: Option<String>,
    /// The nearest NUMA node; `null` if unknown.
    pub numa_node: Option<u16>,
    /// Handle types for memory import.
    pub memory_import: Vec<String>,
    /// Handle types for memory export.
    pub memory_export: Vec<String>,
    /// Handle types for semaphore import.
    pub semaphore_import: Vec<String>,
    /// Handle types for semaphore export.
    pub semaphore_export: Vec<String>,
    /// Its capabilities, named as in `gpu_suballoc::group::CapabilityFlags`.
    pub capabilities: Vec<String>,
}

impl ShownDevice {
    /// What the device reports, each with its name.
    pub(super) fn facts(&self) -> [(&'static str, String); 10] {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
        let list = |names: &[String]| or(names, "none");
        let node = self.numa_node.map(|node| node.to_string());
        [
            ("device UUID", or_none(&self.device_uuid)),
            ("driver UUID", or_none(&self.driver_uuid)),
            ("LUID", or_none(&self.device_luid)),
            ("PCI", or_none(&self.pci)),
            ("NUMA node", node.unwrap_or_else(|| "unknown".to_owned())),
            ("memory in", list(&self.memory_import)),
            ("memory out", list(&self.memory_export)),
            ("semaphores in", list(&self.semaphore_import)),
            ("semaphores out", list(&self.semaphore_export)),
            ("can", list(&self.capabilities)),
        ]
    }
}

/// The names as a list; `none` where there are none.
pub(super) fn or(names: &[String], none: &str) -> String {
    match names {
        [] => none.to_owned(),
        names => names.join(", "),
    }
}

/// Devices that one `VkDevice` can be created from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRow {
    /// Numbers of its devices.
    pub devices: Vec<usize>,
    /// Memory can be allocated on some of them only.
    pub subset_allocation: bool,
    /// `vkGetDeviceGroupPeerMemoryFeatures` of each heap and pair; empty for a group of one. `null` if no device could be created.
    pub peer_memory: Option<Vec<PeerMemoryRow>>,
}

/// How one device of a group can access another's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerMemoryRow {
    /// The heap.
    pub heap: u32,
    /// The accessing device: its number in the report.
    pub local: usize,
    /// The device with the memory.
    pub remote: usize,
    /// `COPY_SRC`, `COPY_DST`, `GENERIC_SRC`, `GENERIC_DST`.
    pub features: Vec<String>,
}

/// How one device uses another's resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeRow {
    /// The using device.
    pub from: usize,
    /// The device with the resources.
    pub to: usize,
    /// `native`, `import`, `copy` or `none`, as all modes: waiting on a semaphore.
    pub wait: String,
    /// Signalling a semaphore.
    pub signal: String,
    /// Reading memory.
    pub read: String,
    /// Writing memory.
    pub write: String,
    /// Handle types for memory.
    pub memory_handles: Vec<String>,
    /// Handle types for semaphores.
    pub semaphore_handles: Vec<String>,
    /// Their link; `unknown` without a source.
    pub link: String,
    /// The source of the link: `Vulkan`, `PCI path`, `NVML`; empty without one.
    pub link_told_by: String,
    /// 0 to 15; `null` if unknown.
    pub copy_cost: Option<u8>,
    /// Between their NUMA nodes, 0 to 15; `null` if unknown.
    pub numa_distance: Option<u8>,
}
