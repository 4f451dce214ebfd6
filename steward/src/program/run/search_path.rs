//! Where Vulkan's loader finds explicit layers.
//!
//! The loader of 2023 orders layers as it finds their manifests, and takes the last manifest of a name; later ones take
//! the order of `VK_INSTANCE_LAYERS`, and the first manifest. So where there are other layers, or an installed copy of
//! this one, the run's folder is the first and the last of the list: its layer ends up next to the driver, and is the
//! one that is loaded.

#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::drivers;
use crate::os::files::LIST_SEPARATOR;
use crate::os::{self, manifests, variable};
use crate::program::layer::LAYER;

/// `set` is what the variable has now.
pub(super) fn with_folder(name: &str, set: &OsStr, folder: &Path) -> OsString {
    let mut paths = vec![folder.to_owned()];
    paths.extend(os::paths(set));
    if has_other_layers() {
        if name == "VK_ADD_LAYER_PATH" {
            // The loader drops the second of two equal paths, so these come before the last one.
            paths.extend(manifests::explicit_layers(&variable));
        }
        // Another spelling, for the same reason.
        paths.push(folder.join("."));
    }
    let paths: Vec<_> = paths.iter().map(|path| path.as_os_str()).collect();
    paths.join(OsStr::new(LIST_SEPARATOR))
}

fn has_other_layers() -> bool {
    let is_set = |name| variable(name).is_some();
    is_set("VK_INSTANCE_LAYERS") || is_set("VK_LOADER_LAYERS_ENABLE") || installed_manifests().next().is_some()
}

/// The manifests of a layer of this name that the loader finds beside the run's own.
pub(super) fn installed_manifests() -> impl Iterator<Item = PathBuf> {
    let layers = drivers::layers().into_iter();
    let named = layers.filter(|layer| layer.name == LAYER);
    named.map(|layer| layer.manifest)
}
