//! Lists all drivers, and selects one.

use std::path::Path;

use super::environment;
use super::error::{DriverError, LoaderRefusal};
use super::info::DriverInfo;
use super::manifest::{self, IcdManifest};
use super::names;
use super::probe;
use super::reference::{REFERENCE, reference};
use vk_callbacks::check::Opened;
use vk_report::meter::MeteredBytes;

/// Lists the devices of every driver, manifest by manifest. The environment is restored afterwards.
///
/// Each driver is opened for an instance, which is destroyed. If no manifest is found, the loader chooses drivers itself, once.
///
/// # Errors
///
/// [`DriverError::NoLoader`] only. A driver that fails is in [`Listing::refused`]; the list may be empty.
///
/// # Safety
///
/// No other thread of the process may read or write the environment during the call. Call it early, from the only thread.
///
/// This includes threads of drivers and layers. Drivers are opened one after the other, and the environment is written in between: threads
/// that survive their instance must not read it. Vulkan does not guarantee this, so the caller vouches for the installed drivers and layers.
pub unsafe fn list() -> Result<Listing, DriverError> {
    // SAFETY: the caller's promise.
    unsafe { list_of(&manifest::find_all()) }
}

/// Lists the devices of these drivers.
///
/// # Safety
/// As for [`list`].
unsafe fn list_of(found: &[IcdManifest]) -> Result<Listing, DriverError> {
    let entry = open()?;
    let saved = environment::save();
    let mut listing = Listing {
        drivers: Vec::new(),
        refused: Vec::new(),
    };
    if found.is_empty() {
        listing.add(&entry, None);
    }
    for manifest in found {
        // SAFETY: the caller's promise, which includes threads of the drivers before this one.
        unsafe { environment::narrow_to(Some(&manifest.path)) };
        listing.add(&entry, Some(manifest));
    }
    // SAFETY: the caller's promise.
    unsafe { environment::restore(&saved) };
    Ok(listing)
}

/// Selects the driver that `name` means ([`is_called`](super::is_called)), or the first one without a name. From now on the loader sees only
/// this driver. `reference` is the program's own driver, which needs no loader. A name with a `/` is the path of a manifest, even of one that
/// the loader would not find. Only the last selection is valid.
///
/// # Errors
///
/// [`DriverError`]: no loader, no driver, no driver of that name, or no manifest at that path.
///
/// # Safety
///
/// As for [`list`]; the environment is written once more at the end.
pub unsafe fn select(name: Option<&str>) -> Result<Selected, DriverError> {
    if name.is_some_and(|name| name.trim().eq_ignore_ascii_case(REFERENCE)) {
        return reference().map_err(|result| DriverError::NoReference {
            result: format!("{result:?}"),
        });
    }
    let path = name
        .filter(|name| name.contains('/'))
        .map(manifest_at)
        .transpose()?;
    let listing = match &path {
        // SAFETY: the caller's promise.
        Some(manifest) => unsafe { list_of(std::slice::from_ref(manifest)) },
        // SAFETY: as above.
        None => unsafe { list() },
    }?;
    let chosen = match name {
        Some(name) if path.is_none() => names::find(&listing.drivers, name),
        _ => listing.drivers.first(),
    };
    let info = match (chosen.cloned(), name) {
        (Some(info), _) => info,
        (None, Some(name)) if !listing.drivers.is_empty() => {
            let names = |refused: &&LoaderRefusal| names::is_manifest_of(&refused.title(), name);
            if let Some(refused) = listing.refused.iter().find(names) {
                return Err(DriverError::Deviceless {
                    name: name.into(),
                    refused: refused.clone(),
                    known: listing.drivers,
                });
            }
            return Err(DriverError::UnknownName {
                name: name.into(),
                known: listing.drivers,
            });
        }
        (None, _) => return Err(listing.no_driver()),
    };
    // SAFETY: the caller's promise.
    unsafe { environment::narrow_to(info.manifest.as_deref()) };
    Ok(Selected::new(open()?, info, Opened::ThroughLoader))
}

/// The manifest at a path, with an absolute path: the loader may open it from another folder.
fn manifest_at(path: &str) -> Result<IcdManifest, DriverError> {
    let no_manifest = |reason| DriverError::NoManifest {
        path: path.to_owned(),
        reason,
    };
    let file = std::path::absolute(path).map_err(|error| no_manifest(error.to_string()))?;
    manifest::parse(&file).map_err(no_manifest)
}

/// The available drivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Usable devices, by index.
    pub drivers: Vec<DriverInfo>,
    /// Drivers without a usable device, with the reason.
    pub refused: Vec<LoaderRefusal>,
}

impl Listing {
    /// The error of a listing without a driver.
    pub(crate) fn no_driver(self) -> DriverError {
        DriverError::NoDriver {
            refused: self.refused,
            narrowed: manifest::narrowed_by(),
        }
    }

    fn add(&mut self, entry: &ash::Entry, manifest: Option<&IcdManifest>) {
        let path = manifest.map(|manifest| manifest.path.clone());
        let refusal = |reason| LoaderRefusal {
            manifest: path.clone(),
            reason,
        };
        match probe::devices(entry) {
            Err(result) => self.refused.push(refusal(format!("{result:?}"))),
            Ok(devices) if devices.is_empty() => self
                .refused
                .push(refusal("no device of Vulkan 1.1 or later".into())),
            Ok(devices) => {
                for device in devices {
                    let stem = manifest
                        .map(|manifest| manifest.stem.clone())
                        .unwrap_or_default();
                    self.drivers.push(DriverInfo {
                        index: self.drivers.len(),
                        manifest: path.clone(),
                        stem,
                        ..device
                    });
                }
            }
        }
    }
}

/// A selected driver.
#[derive(Clone)]
pub struct Selected {
    entry: ash::Entry,
    info: DriverInfo,
    opened: Opened,
    opening: MeteredBytes,
}

impl Selected {
    pub(super) fn new(entry: ash::Entry, info: DriverInfo, opened: Opened) -> Self {
        Self {
            entry,
            info,
            opened,
            opening: MeteredBytes::default(),
        }
    }

    /// The same driver, reached by this entry.
    #[must_use]
    pub fn with_entry(&self, entry: ash::Entry) -> Self {
        Self {
            entry,
            ..self.clone()
        }
    }

    /// Whether a loader is between the program and the driver.
    #[must_use]
    pub fn opened(&self) -> Opened {
        self.opened
    }

    /// Sets the memory that the process allocated while the driver's library was opened.
    pub(super) fn opened_with(mut self, opening: MeteredBytes) -> Self {
        self.opening = opening;
        self
    }

    /// Memory that the process allocated while the driver's library was opened [directly](super::directly). 0 without a meter in the process,
    /// and if the loader opened it.
    #[must_use]
    pub fn opening(&self) -> MeteredBytes {
        self.opening
    }

    /// The global functions. The library is open while this or a clone lives.
    #[must_use]
    pub fn entry(&self) -> &ash::Entry {
        &self.entry
    }

    /// The driver's name and version.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} {}", self.info.title(), self.info.driver_info)
    }

    /// Properties of the driver and its device.
    #[must_use]
    pub fn info(&self) -> &DriverInfo {
        &self.info
    }

    /// The driver's manifest, for a child process that is to see the same driver ([`child_environment`](super::child_environment)).
    #[must_use]
    pub fn manifest(&self) -> Option<&Path> {
        self.info.manifest.as_deref()
    }
}

impl std::fmt::Debug for Selected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Selected")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

/// The environment variable that names another Vulkan loader library than the system's.
pub const LOADER_VARIABLE: &str = "STEWARD_LOADER";

/// The loader's library.
pub(crate) fn open() -> Result<ash::Entry, DriverError> {
    let named = std::env::var_os(LOADER_VARIABLE);
    let by = if named.is_some() {
        format!("; {LOADER_VARIABLE} names this library, unset it for the system's")
    } else {
        String::new()
    };
    let loaded = match named {
        // SAFETY: opening the loader runs its initialisers, as in every Vulkan program; the user who names a library vouches for it.
        Some(path) => unsafe { ash::Entry::load_from(path) },
        // SAFETY: as above; nothing else has the loader's name.
        None => unsafe { ash::Entry::load() },
    };
    loaded.map_err(|error| DriverError::NoLoader {
        reason: format!("{error}{by}"),
    })
}
