//! The environment of a child process in which the Vulkan loader opens one driver.
//!
//! Vulkan-Loader documentation, *Driver interface to the Vulkan Loader*: `VK_DRIVER_FILES` and its older name
//! `VK_ICD_FILENAMES` replace the search for manifests; both are set, for older loaders.

#![forbid(unsafe_code)]

use std::env;
use std::path::Path;
use std::process::Command;

const DRIVERS: [&str; 2] = ["VK_ICD_FILENAMES", "VK_DRIVER_FILES"];
const ADDED_DRIVERS: &str = "VK_ADD_DRIVER_FILES";
const LAYERS: &str = "VK_LOADER_LAYERS_DISABLE";
const IMPLICIT: &str = "~implicit~";

/// Implicit layers are switched off, because their memory would be counted as the driver's, unless
/// `VK_LOADER_LAYERS_DISABLE` is already set.
pub(super) fn narrow(child: &mut Command, manifest: &Path) {
    for name in DRIVERS {
        child.env(name, manifest);
    }
    child.env_remove(ADDED_DRIVERS);
    if env::var_os(LAYERS).is_none() {
        child.env(LAYERS, IMPLICIT);
    }
}
