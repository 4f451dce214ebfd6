//! The listing of all drivers, and the choice of one.

use std::path::Path;

use super::environment;
use super::error::{DriverError, Refusal};
use super::info::DriverInfo;
use super::manifest::{self, IcdManifest};
use super::names;
use super::probe;

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
    let entry = open()?;
    let found = manifest::find_all();
    let saved = environment::save();
    let mut listing = Listing { drivers: Vec::new(), refused: Vec::new() };
    if found.is_empty() {
        listing.add(&entry, None);
    }
    for manifest in &found {
        // SAFETY: as the caller promises; so, too, for the threads that the drivers before this one may have left.
        unsafe { environment::narrow_to(Some(&manifest.path)) };
        listing.add(&entry, Some(manifest));
    }
    // SAFETY: as the caller promises.
    unsafe { environment::restore(&saved) };
    Ok(listing)
}

/// Chooses the driver that `name` means ([`is_called`](super::is_called)), or the first one without a name, and makes the loader see it
/// alone from here on. The last choice holds: make one a process, or use each before the next is made.
///
/// # Errors
///
/// [`DriverError`]: no loader, no driver, or none of that name.
///
/// # Safety
///
/// As for [`list`]; the environment is written once more at the end.
pub unsafe fn select(name: Option<&str>) -> Result<Selected, DriverError> {
    // SAFETY: as the caller promises.
    let listing = unsafe { list() }?;
    let chosen = match name {
        None => listing.drivers.first(),
        Some(name) => names::find(&listing.drivers, name),
    };
    let info = match (chosen.cloned(), name) {
        (Some(info), _) => info,
        (None, Some(name)) if !listing.drivers.is_empty() => {
            return Err(DriverError::UnknownName { name: name.into(), known: listing.drivers });
        }
        (None, _) => return Err(DriverError::NoDriver { refused: listing.refused }),
    };
    // SAFETY: as the caller promises.
    unsafe { environment::narrow_to(info.manifest.as_deref()) };
    Ok(Selected::new(open()?, info))
}

/// What there is to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Devices that can be used, by index.
    pub drivers: Vec<DriverInfo>,
    /// Drivers that showed none, with the reason.
    pub refused: Vec<Refusal>,
}

impl Listing {
    fn add(&mut self, entry: &ash::Entry, manifest: Option<&IcdManifest>) {
        let path = manifest.map(|manifest| manifest.path.clone());
        let refusal = |reason| Refusal { manifest: path.clone(), reason };
        match probe::devices(entry) {
            Err(result) => self.refused.push(refusal(format!("{result:?}"))),
            Ok(devices) if devices.is_empty() => self.refused.push(refusal("no device of Vulkan 1.1 or later".into())),
            Ok(devices) => {
                for device in devices {
                    let stem = manifest.map(|manifest| manifest.stem.clone()).unwrap_or_default();
                    self.drivers.push(DriverInfo { index: self.drivers.len(), manifest: path.clone(), stem, ..device });
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
}

impl Selected {
    pub(super) fn new(entry: ash::Entry, info: DriverInfo) -> Self {
        Self { entry, info }
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
        f.debug_struct("Selected").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Names another Vulkan loader library than the system's, or one that is not there.
pub const LOADER_VARIABLE: &str = "STEWARD_LOADER";

pub(super) fn open() -> Result<ash::Entry, DriverError> {
    let loaded = match std::env::var_os(LOADER_VARIABLE) {
        // SAFETY: opening the loader runs its initialisers, which is what a Vulkan program asks for; who names a library vouches for it.
        Some(path) => unsafe { ash::Entry::load_from(path) },
        // SAFETY: as above; nothing else has the loader's name.
        None => unsafe { ash::Entry::load() },
    };
    loaded.map_err(|error| DriverError::NoLoader { reason: error.to_string() })
}
