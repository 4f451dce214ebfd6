//! Where the layer is installed, for a user.

#![forbid(unsafe_code)]

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;

use crate::os::variable;

pub(crate) const LIBRARY: &str = "libVkLayer_steward_memory.so";
/// The manifest below a data folder, where the loader finds explicit layers.
pub(crate) const MANIFEST: &str = "vulkan/explicit_layer.d/VkLayer_steward_memory.json";
/// The variables of [`data_folder`].
pub(crate) const DATA_VARIABLES: &str = "HOME or XDG_DATA_HOME";

pub(crate) fn data_folder() -> Option<PathBuf> {
    let absolute = variable("XDG_DATA_HOME").map(PathBuf::from);
    absolute
        .filter(|folder| folder.is_absolute())
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/share")))
}

/// The loader would leave the layer out without a word.
pub(crate) fn is_mounted_noexec(folder: &Path) -> io::Result<bool> {
    let mount = rustix::fs::statvfs(folder)?;
    Ok(mount.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

/// Whether a manifest may have the character in a path. Loaders of 2023 keep the backslash of what JSON escapes.
pub(crate) fn is_nameable(one: char) -> bool {
    one != '"' && one != '\\' && !one.is_control()
}

/// The loader reads all of the folder: nothing lists the manifest.
pub(crate) fn enlist(_: &Path) -> io::Result<Option<String>> {
    Ok(None)
}

/// As [`enlist`].
pub(crate) fn strike(_: &Path) -> io::Result<Option<String>> {
    Ok(None)
}
