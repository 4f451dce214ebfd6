//! Opens a driver that another process selected: through the loader, or its library directly.
//!
//! Vulkan-Loader documentation, *Driver interface to the Vulkan Loader*, *Loader Version Negotiation*: a driver's library has
//! `vk_icdNegotiateLoaderICDInterfaceVersion` and `vk_icdGetInstanceProcAddr`. The program calls them in place of the loader, without debug
//! messengers, surfaces and layers. Handles are the driver's own.

use std::ffi::OsString;
use std::path::Path;

use ash::vk;
use libloading::Library;
use serde::{Deserialize, Serialize};

use super::info::DriverInfo;
use super::manifest;
use super::reference::{is_reference, reference};
use super::select::{self, Selected};
use vk_callbacks::check::Opened;
use vk_report::meter;

/// Why a driver cannot be opened again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ReopenError {
    /// The loader is gone.
    #[error("{reason}")]
    Loader {
        /// Its error.
        reason: String,
    },
    /// The driver has no manifest, or the manifest has changed.
    #[error(
        "the driver has no manifest that names its library, so it can be measured with the loader alone"
    )]
    NoManifest,
    /// The library that the manifest names cannot be opened.
    #[error("the driver's library {library} cannot be opened ({reason}): install the driver again")]
    Library {
        /// The path in the manifest.
        library: String,
        /// The error of the operating system.
        reason: String,
    },
    /// The library lacks a function that a loader needs.
    #[error(
        "the driver's library {library} lacks {function}, so it can be measured with the loader alone"
    )]
    NoFunction {
        /// The path in the manifest.
        library: String,
        /// The missing function.
        function: String,
    },
    /// The driver refuses the version of the interface.
    #[error(
        "the driver refuses version {VERSION} of the loader's interface ({result}), so it can be measured with the loader alone"
    )]
    Refused {
        /// Its result.
        result: String,
    },
}

/// The offered version of the interface: the first whose drivers accept instances of every version of Vulkan, and the last before devices
/// are also enumerated through other systems. A driver lowers it to its own version if that is older.
const VERSION: u32 = 5;

/// Opens the driver through the loader. The environment must select the driver, see
/// [`child_environment`](super::child_environment).
///
/// # Errors
/// [`ReopenError::Loader`].
pub fn through_loader(info: DriverInfo) -> Result<Selected, ReopenError> {
    let entry = select::open().map_err(|error| ReopenError::Loader {
        reason: error.to_string(),
    })?;
    Ok(Selected::new(entry, info, Opened::ThroughLoader))
}

/// Opens the driver's library without the loader. It is never unloaded: threads of the driver may run in it.
///
/// # Errors
/// Any other [`ReopenError`].
///
/// # Safety
/// The library in the manifest may be run, and is a driver that follows the interface of drivers and loaders. The loader trusts manifests in
/// the same way.
pub unsafe fn directly(info: DriverInfo) -> Result<Selected, ReopenError> {
    if is_reference(&info) {
        return reference().map_err(refused);
    }
    let path = info.manifest.as_deref().ok_or(ReopenError::NoManifest)?;
    let manifest = manifest::parse(path).map_err(|_| ReopenError::NoManifest)?;
    let library = manifest.library_path;
    let before = meter::read();
    // SAFETY: the caller vouches for its initialisers.
    let opened = unsafe { Library::new(file_name(path, &library)) };
    let opening = before.zip(meter::read());
    let opening = opening.map(|(before, after)| after.since(&before).sum());
    let opened = opened.map_err(|error| ReopenError::Library {
        library: library.clone(),
        reason: error.to_string(),
    })?;
    let driver: &'static Library = Box::leak(Box::new(opened));
    let lacks = |function: &str| ReopenError::NoFunction {
        library: library.clone(),
        function: function.to_owned(),
    };

    type Negotiate = unsafe extern "system" fn(*mut u32) -> vk::Result;
    let name = "vk_icdNegotiateLoaderICDInterfaceVersion";
    // SAFETY: the interface defines the type of the function of this name.
    let negotiate = unsafe { driver.get::<Negotiate>(name) }.map_err(|_| lacks(name))?;
    let name = "vk_icdGetInstanceProcAddr";
    // SAFETY: as above.
    let get =
        unsafe { driver.get::<vk::PFN_vkGetInstanceProcAddr>(name) }.map_err(|_| lacks(name))?;

    let mut version = VERSION;
    // SAFETY: the first call of the library. The driver lowers the version to its own.
    let result = unsafe { negotiate(&raw mut version) };
    if result != vk::Result::SUCCESS {
        return Err(refused(result));
    }
    let functions = ash::StaticFn {
        get_instance_proc_addr: *get,
    };
    // SAFETY: the driver's function finds global commands as the loader's does; the library is never unloaded.
    let entry = unsafe { ash::Entry::from_static_fn(functions) };
    let selected = Selected::new(entry, info, Opened::Directly);
    Ok(selected.opened_with(opening.unwrap_or_default()))
}

fn refused(result: vk::Result) -> ReopenError {
    ReopenError::Refused {
        result: format!("{result:?}"),
    }
}

/// The path of a manifest's library, as the loader resolves it: the system searches for a bare name; other paths are relative to the
/// manifest.
fn file_name(manifest: &Path, library: &str) -> OsString {
    let bare = !library.contains('/');
    match manifest.parent() {
        Some(folder) if !bare => folder.join(library).into_os_string(),
        _ => library.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_named_as_the_loader_reads_them() {
        let manifest = Path::new("/usr/share/vulkan/icd.d/x.json");
        assert_eq!(file_name(manifest, "libx.so"), "libx.so");
        assert_eq!(
            file_name(manifest, "./libx.so"),
            "/usr/share/vulkan/icd.d/./libx.so"
        );
        assert_eq!(file_name(manifest, "/opt/libx.so"), "/opt/libx.so");
    }

    #[test]
    fn what_is_no_driver_is_named_in_a_sentence() {
        let open = |info: DriverInfo| {
            // SAFETY: the libraries named below are not there, or are the C library.
            unsafe { directly(info) }
                .map(|_| ())
                .expect_err("no driver")
        };
        assert_eq!(open(DriverInfo::default()), ReopenError::NoManifest);
        let folder = tempfile::tempdir().expect("a folder");
        let names = |library: &str| {
            let manifest = folder.path().join("x.json");
            let text = format!(
                r#"{{"file_format_version": "1.0.0", "ICD": {{"library_path": "{library}"}}}}"#
            );
            std::fs::write(&manifest, text).expect("a file");
            open(DriverInfo {
                manifest: Some(manifest),
                ..DriverInfo::default()
            })
        };
        let text = names("./nowhere.so").to_string();
        assert!(
            text.starts_with("the driver's library ./nowhere.so cannot be opened"),
            "{text}"
        );
        if cfg!(all(target_os = "linux", target_env = "gnu")) {
            let text = names("libc.so.6").to_string();
            assert!(
                text.contains("libc.so.6 lacks vk_icdNegotiateLoaderICDInterfaceVersion"),
                "{text}"
            );
        }
    }
}
