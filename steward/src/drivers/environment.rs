//! The one place that changes the environment: it tells the Vulkan loader which driver to open.
//!
//! Vulkan-Loader documentation, *Driver interface to the Vulkan Loader*: `VK_DRIVER_FILES` and its older name
//! `VK_ICD_FILENAMES` replace the search for manifests; both are set, so that any loader obeys.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The older name first: what is set last does not matter, every loader takes the newer one where it knows it.
const DRIVERS: [&str; 2] = ["VK_ICD_FILENAMES", "VK_DRIVER_FILES"];
const ADDED_DRIVERS: &str = "VK_ADD_DRIVER_FILES";
const LAYERS: &str = "VK_LOADER_LAYERS_DISABLE";
/// Layers that nobody asked for would be counted as the driver.
const IMPLICIT: &str = "~implicit~";

/// What to set for a child process that is to see the driver with this manifest alone.
///
/// Remove `VK_ADD_DRIVER_FILES` as well. Implicit layers are switched off, because what they allocate would be taken for the
/// driver's, unless `VK_LOADER_LAYERS_DISABLE` already says otherwise.
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

/// Variables as they were, to be put back.
pub(super) struct Saved([(&'static str, Option<OsString>); 4]);

/// Remembers what [`narrow_to`] will change.
pub(super) fn save() -> Saved {
    let [older, newer] = DRIVERS;
    Saved([older, newer, ADDED_DRIVERS, LAYERS].map(|name| (name, env::var_os(name))))
}

/// Instances made from here on see the driver with this manifest alone; `None` leaves the loader its own choice of drivers.
///
/// # Safety
///
/// No other thread reads or writes the environment meanwhile.
pub(super) unsafe fn narrow_to(manifest: Option<&Path>) {
    if let Some(manifest) = manifest {
        for (name, value) in child_environment(manifest) {
            // SAFETY: as the caller promises.
            unsafe { put(name, Some(&value)) };
        }
        // SAFETY: as the caller promises.
        unsafe { put(ADDED_DRIVERS, None) };
    }
}

/// # Safety
///
/// As for [`narrow_to`].
pub(super) unsafe fn restore(saved: &Saved) {
    for (name, value) in &saved.0 {
        // SAFETY: as the caller promises.
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
