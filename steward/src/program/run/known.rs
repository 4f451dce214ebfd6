//! What is known of the drivers that a program used: the bundled expectations about them, or those of `--expect`.

#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsStr;
use std::io::Seek as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::Deserialize;
use vk_report::report::Source;

use super::reports::{ProcessData, Reports};
use crate::signals::{HeldSignals, end_with_parent, unnamed_file, wait_briefly};

/// How long the drivers may take to describe themselves.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// A device, as `steward drivers --json` lists it.
#[derive(Deserialize)]
struct Listed {
    driver: String,
    file: String,
    version: String,
    device: String,
}

impl Listed {
    /// The driver's name and version, as expectations name them.
    fn title(&self) -> String {
        let names = [&self.driver, &self.file, &self.device];
        let name = names.into_iter().find(|name| !name.is_empty());
        format!("{} {}", name.map_or("", String::as_str), self.version)
    }

    /// Whether the layer's description is of this device.
    fn is_described_by(&self, description: &str) -> bool {
        let behind = description.strip_prefix(&self.device);
        behind.is_some_and(|behind| behind.starts_with(", driver "))
    }
}

/// Notes in each report the drivers of its devices; of a program without a device all drivers, since its instance opened them. `select` is the
/// loader's filter for the program.
///
/// Another process asks the drivers: one that crashes must not take the report with it. `signals` are held for a program.
pub(super) fn name_drivers(
    reports: &mut Reports,
    select: Option<&OsStr>,
    signals: Option<&HeldSignals>,
) {
    let listed = list(select, signals);
    for process in &mut reports.processes {
        if let Some(ProcessData::Layer(report)) = &mut process.data
            && let Source::Program {
                devices, drivers, ..
            } = &mut report.source
        {
            let is_used = |driver: &&Listed| {
                devices.is_empty() || devices.iter().any(|device| driver.is_described_by(device))
            };
            *drivers = listed.iter().filter(is_used).map(Listed::title).collect();
            drivers.dedup();
        }
    }
}

/// The installed drivers; none if they cannot be listed.
fn list(select: Option<&OsStr>, signals: Option<&HeldSignals>) -> Vec<Listed> {
    let listed = || {
        let mut file = unnamed_file().ok()?;
        let mut command = Command::new(env::current_exe().ok()?);
        command
            .args(["drivers", "--json", "-"])
            .stdin(Stdio::null())
            .stdout(file.try_clone().ok()?)
            .stderr(Stdio::null())
            // Layers show other devices, or none.
            .env_remove("VK_INSTANCE_LAYERS")
            .env("VK_LOADER_LAYERS_DISABLE", "~all~");
        if let Some(select) = select {
            command.env(super::SELECT, select);
        }
        end_with_parent(&mut command);
        let mut child = match signals {
            Some(signals) => signals.start(&mut command).ok()?,
            None => command.spawn().ok()?,
        };
        wait_briefly(&mut child, TIME_LIMIT).ok()??;
        file.rewind().ok()?;
        serde_json::from_reader(file).ok()
    };
    listed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_found_by_the_description_of_its_device() {
        let listed = Listed {
            driver: String::new(),
            file: "lvp_icd".to_owned(),
            version: "Mesa 1".to_owned(),
            device: "llvmpipe (LLVM 15, 256 bits)".to_owned(),
        };
        assert_eq!(listed.title(), "lvp_icd Mesa 1");
        assert!(listed.is_described_by("llvmpipe (LLVM 15, 256 bits), driver 0.0.1 of vendor 0x1"));
        assert!(!listed.is_described_by("llvmpipe (LLVM 15, 256 bits) 2, driver 0.0.1"));
    }
}
