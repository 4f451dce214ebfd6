//! Opens a driver in this process: through the loader, or its library directly.
//!
//! Vulkan-Loader documentation, *Driver interface to the Vulkan Loader*, *Loader Version Negotiation*: the program
//! calls the two functions of a driver's library in place of the loader, without debug messengers, surfaces and layers.
//! Handles are the driver's own.

use std::ffi::OsString;
use std::path::{Path, is_separator};
use std::{env, fmt};

use ash::vk;
use libloading::Library;

use super::error::DriverError;
use super::info::DriverInfo;
use super::manifest;
use super::reference::{is_reference, reference};
use super::select::Selected;
use vk_callbacks::check::Opened;
use vk_report::meter::{self, MeteredBytes};

/// The environment variable that names another Vulkan loader library than the system's.
pub const LOADER_VARIABLE: &str = "STEWARD_LOADER";

/// Why a driver cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The loader is gone.
    #[error(transparent)]
    Loader(#[from] DriverError),
    /// The driver has no manifest, or the manifest has changed.
    #[error("the driver has no manifest that names its library, so it can be measured with the loader alone")]
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
    #[error("the driver's library {library} lacks {function}, so it can be measured with the loader alone")]
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

/// The first version whose drivers accept instances of every version of Vulkan, and the last before devices are also
/// enumerated through other systems. A driver lowers it to its own version if that is older.
const VERSION: u32 = 5;

/// An open driver.
#[derive(Clone)]
pub struct OpenDriver {
    entry: ash::Entry,
    info: DriverInfo,
    opened: Opened,
    opening: MeteredBytes,
}

impl Selected {
    /// Opens the driver in this process, which [`narrow`](Self::narrow) has prepared. A library that is opened directly
    /// is never closed: threads of the driver may run in it.
    ///
    /// # Errors
    /// [`OpenError`].
    ///
    /// # Safety
    /// The library in the manifest may be run, and is a driver that follows the interface of drivers and loaders.
    pub unsafe fn open(&self) -> Result<OpenDriver, OpenError> {
        let info = self.info.clone();
        if is_reference(&info) {
            return reference().map_err(refused);
        }
        if self.is_direct {
            // SAFETY: the library may be run and is a driver.
            unsafe { directly(info) }
        } else {
            let entry = loader().map_err(|reason| DriverError::NoLoader { reason })?;
            Ok(OpenDriver::new(entry, info, Opened::ThroughLoader))
        }
    }
}

/// # Safety
/// The library in the manifest may be run, and is a driver that follows the interface of drivers and loaders.
unsafe fn directly(info: DriverInfo) -> Result<OpenDriver, OpenError> {
    let path = info.manifest.as_deref().ok_or(OpenError::NoManifest)?;
    let manifest = manifest::parse(path).map_err(|_| OpenError::NoManifest)?;
    let library = manifest.library_path;
    let before = meter::read();
    // SAFETY: the library may be run, its initialisers too.
    let opened = unsafe { Library::new(file_name(path, &library)) };
    let opening = before.zip(meter::read());
    let opening = opening.map(|(before, after)| after.since(&before).sum());
    let opened = opened.map_err(|error| OpenError::Library { library: library.clone(), reason: error.to_string() })?;
    let driver: &'static Library = Box::leak(Box::new(opened));
    let lacks = |function: &str| OpenError::NoFunction { library: library.clone(), function: function.to_owned() };

    type Negotiate = unsafe extern "system" fn(*mut u32) -> vk::Result;
    let name = "vk_icdNegotiateLoaderICDInterfaceVersion";
    // SAFETY: the interface defines the type of the function of this name.
    let negotiate = unsafe { driver.get::<Negotiate>(name) }.map_err(|_| lacks(name))?;
    let name = "vk_icdGetInstanceProcAddr";
    // SAFETY: the interface defines the type of the function of this name.
    let get = unsafe { driver.get::<vk::PFN_vkGetInstanceProcAddr>(name) }.map_err(|_| lacks(name))?;

    let mut version = VERSION;
    // SAFETY: the first call of the library. The driver lowers the version to its own.
    let result = unsafe { negotiate(&raw mut version) };
    if result != vk::Result::SUCCESS {
        return Err(refused(result));
    }
    let functions = ash::StaticFn { get_instance_proc_addr: *get };
    // SAFETY: the driver's function finds global commands as the loader's does; the library is never unloaded.
    let entry = unsafe { ash::Entry::from_static_fn(functions) };
    Ok(OpenDriver { opening: opening.unwrap_or_default(), ..OpenDriver::new(entry, info, Opened::Directly) })
}

fn refused(result: vk::Result) -> OpenError {
    OpenError::Refused { result: format!("{result:?}") }
}

/// The system searches for a bare name; other paths are relative to the manifest.
fn file_name(manifest: &Path, library: &str) -> OsString {
    let bare = !library.contains(is_separator);
    match manifest.parent() {
        Some(folder) if !bare => folder.join(library).into_os_string(),
        _ => library.into(),
    }
}

impl OpenDriver {
    pub(super) fn new(entry: ash::Entry, info: DriverInfo, opened: Opened) -> Self {
        Self { entry, info, opened, opening: MeteredBytes::default() }
    }

    /// The same driver, reached by this entry.
    #[must_use]
    pub fn with_entry(&self, entry: ash::Entry) -> Self {
        Self { entry, ..self.clone() }
    }

    /// Whether a loader is between the program and the driver.
    #[must_use]
    pub fn opened(&self) -> Opened {
        self.opened
    }

    /// Memory that the process allocated while the driver's library was opened directly. 0 without a meter in the
    /// process, and if the loader opened it.
    #[must_use]
    pub fn opening(&self) -> MeteredBytes {
        self.opening
    }

    /// The global functions. The library is open while this or a clone lives.
    #[must_use]
    pub fn entry(&self) -> &ash::Entry {
        &self.entry
    }

    /// Properties of the driver and its device.
    #[must_use]
    pub fn info(&self) -> &DriverInfo {
        &self.info
    }
}

impl fmt::Debug for OpenDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenDriver").field("info", &self.info).finish_non_exhaustive()
    }
}

pub(super) fn loader() -> Result<ash::Entry, String> {
    let named = env::var_os(LOADER_VARIABLE);
    let by = if named.is_some() {
        format!("; {LOADER_VARIABLE} names this library, unset it for the system's")
    } else {
        String::new()
    };
    let loaded = match named {
        // SAFETY: the user who names a library vouches for it.
        Some(path) => unsafe { ash::Entry::load_from(path) },
        // SAFETY: the loader's initialisers run as in every Vulkan program; nothing else has its name.
        None => unsafe { ash::Entry::load() },
    };
    loaded.map_err(|error| format!("{error}{by}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_named_as_the_loader_reads_them() {
        let manifest = Path::new("/usr/share/vulkan/icd.d/x.json");
        assert_eq!(file_name(manifest, "libx.so"), "libx.so");
        assert_eq!(file_name(manifest, "./libx.so"), "/usr/share/vulkan/icd.d/./libx.so");
        assert_eq!(file_name(manifest, "/opt/libx.so"), "/opt/libx.so");
    }

    #[test]
    fn what_is_no_driver_is_named_in_a_sentence() {
        let open = |info: DriverInfo| {
            // SAFETY: the libraries named below are not there, or are the C library.
            unsafe { directly(info) }.map(|_| ()).expect_err("no driver")
        };
        assert_eq!(open(DriverInfo::default()), OpenError::NoManifest);
        let folder = tempfile::tempdir().expect("a folder");
        let names = |library: &str| {
            let manifest = folder.path().join("x.json");
            let text = format!(r#"{{"file_format_version": "1.0.0", "ICD": {{"library_path": "{library}"}}}}"#);
            std::fs::write(&manifest, text).expect("a file");
            open(DriverInfo { manifest: Some(manifest), ..DriverInfo::default() })
        };
        let text = names("./nowhere.so").to_string();
        assert!(text.starts_with("the driver's library ./nowhere.so cannot be opened"), "{text}");
        if cfg!(all(target_os = "linux", target_env = "gnu")) {
            let text = names("libc.so.6").to_string();
            assert!(text.contains("libc.so.6 lacks vk_icdNegotiateLoaderICDInterfaceVersion"), "{text}");
        }
    }
}
