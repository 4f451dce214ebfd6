//! The system's tree of PCI devices: the link between two devices, and a device's NUMA node.
//!
//! ```text
//!   /sys/bus/pci/devices/0000:41:00.0 -> ../../../devices/pci0000:40/0000:40:01.1/0000:41:00.0
//!                                                         host bridge  root port     the device
//! ```

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

use gpu_suballoc::group::{LinkClass, PciAddress};

/// The root of Linux's device tree.
pub(super) const SYSTEM: &str = "/sys";

/// The device's path in the tree under `sys`; `None` on other systems, and where it is hidden, as in some containers.
pub(super) fn path_of(sys: &Path, address: PciAddress) -> Option<PathBuf> {
    fs::canonicalize(sys.join("bus/pci/devices").join(address.to_string())).ok()
}

/// The link between devices of these paths, by their nearest common ancestor. `None` if a path has no host bridge.
#[must_use]
pub fn link_between(one: &Path, other: &Path) -> Option<LinkClass> {
    let parts = |path: &Path| -> Vec<String> {
        let names = path.iter().map(|part| part.to_string_lossy().into_owned());
        names.skip_while(|name| !is_host_bridge(name)).collect()
    };
    let (one, other) = (parts(one), parts(other));
    let (first, second) = (one.first()?, other.first()?);
    if one == other {
        return Some(LinkClass::SameDevice);
    }
    Some(if first == second {
        LinkClass::PcieSameRoot
    } else {
        LinkClass::PcieCrossRoot
    })
}

/// `pci0000:40`.
fn is_host_bridge(name: &str) -> bool {
    name.strip_prefix("pci").is_some_and(|rest| {
        let mut parts = rest.split(':');
        let hex = |part: Option<&str>| {
            part.is_some_and(|part| {
                !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
        };
        hex(parts.next()) && hex(parts.next()) && parts.next().is_none()
    })
}

/// The NUMA node of the device at this path; the system has -1 for an unknown one.
#[must_use]
pub fn numa_node(device: &Path) -> Option<u16> {
    fs::read_to_string(device.join("numa_node"))
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// The distance between two NUMA nodes, by the system's table (ACPI's SLIT): 0 for the node itself, at most 15.
#[must_use]
pub fn numa_distance(sys: &Path, from: u16, to: u16) -> Option<u8> {
    let row =
        fs::read_to_string(sys.join(format!("devices/system/node/node{from}/distance"))).ok()?;
    let online = fs::read_to_string(sys.join("devices/system/node/online")).ok()?;
    // The row has a column for each online node, not for each number.
    let column = nodes(online.trim())?.iter().position(|node| *node == to)?;
    let distance = row.split_whitespace().nth(column)?.parse::<u32>().ok()?;
    // In the table a node is 10 away from itself.
    Some((distance.saturating_sub(10) / 2).min(15) as u8)
}

/// `0-1,4` as numbers.
fn nodes(online: &str) -> Option<Vec<u16>> {
    let mut all = Vec::new();
    for part in online.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<u16>().ok()?..=last.parse::<u16>().ok()?);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(one: &str, other: &str) -> Option<LinkClass> {
        link_between(Path::new(one), Path::new(other))
    }

    #[test]
    fn the_nearest_thing_above_both_decides() {
        let (a, b) = (
            "/sys/devices/pci0000:40/0000:40:01.1/0000:41:00.0",
            "/sys/devices/pci0000:40/0000:40:03.1/0000:44:00.0",
        );
        let c = "/sys/devices/pci0000:c0/0000:c0:01.1/0000:c1:00.0";
        assert_eq!(
            [link(a, b), link(a, c), link(a, a)],
            [
                Some(LinkClass::PcieSameRoot),
                Some(LinkClass::PcieCrossRoot),
                Some(LinkClass::SameDevice)
            ]
        );
        // The number of the machine's controller stands before it on some systems.
        let d = "/sys/devices/LNXSYSTM:00/ACPI0004:00/pci10de:00/10de:00:00.0";
        assert_eq!(link(d, c), Some(LinkClass::PcieCrossRoot));
        assert_eq!(
            [link("/sys/devices/virtual/x", a), link("", "")],
            [None, None]
        );
    }

    #[test]
    fn i28_nodes_and_distances_are_the_systems() {
        let sys = tempfile::tempdir().expect("a folder");
        let node = sys.path().join("devices/system/node");
        for (number, distances) in [(0, "10 21 32"), (1, "21 10 32"), (4, "255 41 10")] {
            fs::create_dir_all(node.join(format!("node{number}"))).expect("a folder");
            fs::write(node.join(format!("node{number}/distance")), distances).expect("a file");
        }
        fs::write(node.join("online"), "0-1,4\n").expect("a file");
        let cost = |from, to| numa_distance(sys.path(), from, to);
        assert_eq!(
            [cost(0, 0), cost(0, 1), cost(0, 4), cost(4, 0), cost(4, 1)],
            [Some(0), Some(5), Some(11), Some(15), Some(15)]
        );
        assert_eq!([cost(0, 2), cost(2, 0)], [None, None]);
        let device = sys.path().join("device");
        fs::create_dir_all(&device).expect("a folder");
        fs::write(device.join("numa_node"), "-1\n").expect("a file");
        assert_eq!(numa_node(&device), None);
        fs::write(device.join("numa_node"), "0\n").expect("a file");
        assert_eq!(numa_node(&device), Some(0));
    }
}
