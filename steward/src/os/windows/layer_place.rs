//! Where the layer is installed, for a user.

#![forbid(unsafe_code)]

use std::io;
use std::path::{Path, PathBuf};

use super::registry;
use crate::os::variable;

pub(crate) const LIBRARY: &str = "VkLayer_steward_memory.dll";
/// The manifest below a data folder.
pub(crate) const MANIFEST: &str = r"steward\VkLayer_steward_memory.json";
/// The variables of [`data_folder`].
pub(crate) const DATA_VARIABLES: &str = "LOCALAPPDATA";
const KEY: &str = "ExplicitLayers";

pub(crate) fn data_folder() -> Option<PathBuf> {
    let folder = variable(DATA_VARIABLES)?;
    Some(folder.into())
}

/// File systems have no such option.
pub(crate) const fn is_mounted_noexec(_: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Whether a manifest may have the character in a path.
pub(crate) fn is_nameable(one: char) -> bool {
    one != '"' && !one.is_control()
}

/// Lists the manifest for the loader. Returns what was written.
pub(crate) fn enlist(manifest: &Path) -> io::Result<Option<String>> {
    registry::enlist(KEY, manifest).map_err(|error| of_entry(manifest, &error))?;
    Ok(Some(entry(manifest)))
}

/// Undoes [`enlist`]. Returns what was removed.
pub(crate) fn strike(manifest: &Path) -> io::Result<Option<String>> {
    let was_there = registry::strike(KEY, manifest).map_err(|error| of_entry(manifest, &error))?;
    Ok(was_there.then(|| entry(manifest)))
}

fn of_entry(manifest: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", entry(manifest)))
}

fn entry(manifest: &Path) -> String {
    let manifest = manifest.display();
    format!(r"the value {manifest} of HKEY_CURRENT_USER\SOFTWARE\Khronos\Vulkan\{KEY}")
}
