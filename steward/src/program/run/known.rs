#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::process::Stdio;

use vk_report::report::Source;

use super::reports::Reports;
use crate::drivers::{self, DriverInfo};
use crate::os::HeldSignals;

fn is_described_by(driver: &DriverInfo, description: &str) -> bool {
    let behind = description.strip_prefix(&driver.device_name);
    behind.is_some_and(|behind| behind.starts_with(", driver "))
}

/// A program without a device gets all drivers, since its instance opened them. `select` is the loader's filter for the
/// program, `signals` are held for a program.
pub(super) fn name_drivers(reports: &mut Reports, select: Option<&OsStr>, signals: Option<&HeldSignals>) {
    let listed = list(select, signals);
    for report in reports.of_layer_mut() {
        if let Source::Program { devices, drivers, .. } = &mut report.source {
            let is_used = |driver: &&DriverInfo| {
                let mut described = devices.iter();
                devices.is_empty() || described.any(|device| is_described_by(driver, device))
            };
            let used = listed.iter().filter(is_used);
            *drivers = used.map(DriverInfo::title_with_version).collect();
            drivers.dedup();
        }
    }
}

fn list(select: Option<&OsStr>, signals: Option<&HeldSignals>) -> Vec<DriverInfo> {
    let listing = drivers::list_by(&|child| {
        // Layers show other devices, or none.
        child.stderr(Stdio::null()).env_remove("VK_INSTANCE_LAYERS").env("VK_LOADER_LAYERS_DISABLE", "~all~");
        if let Some(select) = select {
            child.env(super::SELECT, select);
        }
        match signals {
            Some(signals) => signals.start(child),
            None => child.spawn(),
        }
    });
    listing.map(|listing| listing.drivers).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_found_by_the_description_of_its_device() {
        let driver = DriverInfo {
            stem: "lvp_icd".to_owned(),
            driver_info: "Mesa 1".to_owned(),
            device_name: "llvmpipe (LLVM 15, 256 bits)".to_owned(),
            ..DriverInfo::default()
        };
        assert_eq!(driver.title_with_version(), "lvp_icd Mesa 1");
        let is_described = |description| is_described_by(&driver, description);
        assert!(is_described("llvmpipe (LLVM 15, 256 bits), driver 0.0.1 of vendor 0x1"));
        assert!(!is_described("llvmpipe (LLVM 15, 256 bits) 2, driver 0.0.1"));
    }
}
