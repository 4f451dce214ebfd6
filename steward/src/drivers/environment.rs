//! Changes the environment, so that the Vulkan loader opens one driver. Only this file changes it.
//!
//! Vulkan-Loader documentation, *Driver interface to the Vulkan Loader*: `VK_DRIVER_FILES` and its older name
//! `VK_ICD_FILENAMES` replace the search for manifests; both are set, for older loaders.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The older name first. A loader that knows the newer one uses it.
const DRIVERS: [&str; 2] = ["VK_ICD_FILENAMES", "VK_DRIVER_FILES"];
const ADDED_DRIVERS: &str = "VK_ADD_DRIVER_FILES";
const LAYERS: &str = "VK_LOADER_LAYERS_DISABLE";
/// Implicit layers would be counted as the driver.
const IMPLICIT: &str = "~implicit~";

/// The environment of a child process that sees only the driver with this manifest.
///
/// Remove `VK_ADD_DRIVER_FILES` as well. Implicit layers are switched off, because their memory would be counted as the driver's, unless
/// `VK_LOADER_LAYERS_DISABLE` is already set.
#[must_use]
pub fn child_environment(manifest: &Path) -> Vec<(&'static str, OsString)> {
    let mut all: Vec<_> = DRIVERS
        .into_iter()
        .map(|name| (name, manifest.as_os_str().to_owned()))
        .collect();
    if env::var_os(LAYERS).is_none() {
        all.push((LAYERS, IMPLICIT.into()));
    }
    all
}

/// Saved variables.
pub(super) struct Saved([(&'static str, Option<OsString>); 4]);

/// Saves the variables that [`narrow_to`] changes.
pub(super) fn save() -> Saved {
    let [older, newer] = DRIVERS;
    Saved([older, newer, ADDED_DRIVERS, LAYERS].map(|name| (name, env::var_os(name))))
}

/// From now on new instances see only the driver with this manifest. `None` changes nothing.
///
/// # Safety
///
/// No other thread may read or write the environment during the call.
pub(super) unsafe fn narrow_to(manifest: Option<&Path>) {
    if let Some(manifest) = manifest {
        for (name, value) in child_environment(manifest) {
            // SAFETY: the caller's promise.
            unsafe { put(name, Some(&value)) };
        }
        // SAFETY: the caller's promise.
        unsafe { put(ADDED_DRIVERS, None) };
    }
}

/// # Safety
///
/// As for [`narrow_to`].
pub(super) unsafe fn restore(saved: &Saved) {
    for (name, value) in &saved.0 {
        // SAFETY: the caller's promise.
        unsafe { put(name, value.as_deref()) };
    }
}

/// # Safety
///
/// As for [`narrow_to`].
unsafe fn put(name: &str, value: Option<&OsStr>) {
    match value {
        // SAFETY: `set_var` asks that no other thread reads or writes the environment; the caller promises it.
        Some(value) => unsafe { env::set_var(name, value) },
        // SAFETY: as above.
        None => unsafe { env::remove_var(name) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_sees_one_driver_under_both_names() {
        let set = child_environment(Path::new("/a/b_icd.json"));
        for name in DRIVERS {
            assert!(
                set.iter()
                    .any(|(set, value)| *set == name && value == "/a/b_icd.json")
            );
        }
    }
}
