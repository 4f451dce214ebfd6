//! The listing of all drivers, and the choice of one.

use std::path::Path;

use super::environment;
use super::error::{DriverError, LoaderRefusal};
use super::info::DriverInfo;
use super::manifest::{self, IcdManifest};
use super::names;
use super::probe;
use super::reference::{REFERENCE, reference};
use vk_accounts::meter::MeteredBytes;
use vk_callbacks::check::Opened;

/// Lists the devices of every driver, manifest by manifest. The environment is afterwards as it was before.
///
/// Each driver's library is opened, an instance made and ended. Without a manifest in the usual places the loader is asked once,
/// with its own choice of drivers.
///
/// # Errors
///
/// [`DriverError::NoLoader`] only: a driver that fails is in [`Listing::refused`], and there may be none at all.
///
/// # Safety
///
/// No other thread of the process reads or writes the environment meanwhile. Call it early, from the only thread.
///
/// Nor does a thread that a driver or a layer of the loader started. They are entered one after the other, and between two the
/// environment is written: whatever threads they keep after their instance was destroyed must not read the environment there.
/// Vulkan promises nothing of the kind, so the caller vouches for the drivers and layers that are installed.
pub unsafe fn list() -> Result<Listing, DriverError> {
    // SAFETY: as the caller promises.
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
        // SAFETY: as the caller promises; so, too, for the threads that the drivers before this one may have left.
        unsafe { environment::narrow_to(Some(&manifest.path)) };
        listing.add(&entry, Some(manifest));
    }
    // SAFETY: as the caller promises.
    unsafe { environment::restore(&saved) };
    Ok(listing)
}

/// Chooses the driver that `name` means ([`is_called`](super::is_called)), or the first one without a name, and makes the loader see it
/// alone from here on. `reference` is the program's own, which needs no loader. A name with a `/` in it is the path of a manifest, whether the loader would find it or not. The last choice holds: make one a process, or use each before the next is made.
///
/// # Errors
///
/// [`DriverError`]: no loader, no driver, none of that name, or no manifest at that path.
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
        // SAFETY: as the caller promises.
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
            return Err(DriverError::UnknownName {
                name: name.into(),
                known: listing.drivers,
            });
        }
        (None, _) => return Err(listing.no_driver()),
    };
    // SAFETY: as the caller promises.
    unsafe { environment::narrow_to(info.manifest.as_deref()) };
    Ok(Selected::new(open()?, info, Opened::ThroughLoader))
}

/// The manifest at a path, which stays right when the loader opens it in another folder.
fn manifest_at(path: &str) -> Result<IcdManifest, DriverError> {
    let no_manifest = |reason| DriverError::NoManifest {
        path: path.to_owned(),
        reason,
    };
    let file = std::path::absolute(path).map_err(|error| no_manifest(error.to_string()))?;
    manifest::parse(&file).map_err(no_manifest)
}

/// What there is to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Devices that can be used, by index.
    pub drivers: Vec<DriverInfo>,
    /// Drivers that showed none, with the reason.
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

/// A driver that was chosen, with the loader opened and narrowed to it.
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

    /// Whether a loader is between the program and the driver.
    #[must_use]
    pub fn opened(&self) -> Opened {
        self.opened
    }

    /// With what the process allocated while the driver's library was opened.
    pub(super) fn opened_with(mut self, opening: MeteredBytes) -> Self {
        self.opening = opening;
        self
    }

    /// What the process allocated while the driver's library was opened [directly](super::directly): 0 without a meter of the heap in the
    /// process, and where the loader opens it.
    #[must_use]
    pub fn opening(&self) -> MeteredBytes {
        self.opening
    }

    /// The loader's first functions; the library stays open while this, or a clone of it, lives.
    #[must_use]
    pub fn entry(&self) -> &ash::Entry {
        &self.entry
    }

    /// What the driver and its device say of themselves.
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

/// Names another Vulkan loader library than the system's, or one that is not there.
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
        // SAFETY: opening the loader runs its initialisers, which is what a Vulkan program asks for; who names a library vouches for it.
        Some(path) => unsafe { ash::Entry::load_from(path) },
        // SAFETY: as above; nothing else has the loader's name.
        None => unsafe { ash::Entry::load() },
    };
    loaded.map_err(|error| DriverError::NoLoader {
        reason: format!("{error}{by}"),
    })
}
