//! Where Vulkan's loader finds explicit layers.
//!
//! The loader of 2023 orders layers as it finds their manifests, and takes the last manifest of a name; later ones take the order of
//! `VK_INSTANCE_LAYERS`, and the first manifest. So where there are other layers, or an installed copy of this one, the run's folder is the
//! first and the last of the list: its layer ends up next to the driver, and is the one that is loaded.

#![forbid(unsafe_code)]

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use crate::os::files::LIST_SEPARATOR;
use crate::os::manifests;
use crate::program::layer::LAYER;

const MAX_MANIFEST: u64 = 1 << 20;

/// `set` is what the variable has now.
pub(super) fn with_folder(variable: &str, set: &OsStr, folder: &Path) -> OsString {
    let mut paths = vec![folder.to_owned()];
    paths.extend(split(set));
    if has_other_layers() {
        if variable == "VK_ADD_LAYER_PATH" {
            // The loader drops the second of two equal paths, so these come before the last one.
            paths.extend(manifests::explicit_layers());
        }
        // Another spelling, for the same reason.
        paths.push(folder.join("."));
    }
    let paths: Vec<_> = paths.iter().map(|path| path.as_os_str()).collect();
    paths.join(OsStr::new(LIST_SEPARATOR))
}

fn has_other_layers() -> bool {
    let is_set = |name| set(name).is_some();
    is_set("VK_INSTANCE_LAYERS")
        || is_set("VK_LOADER_LAYERS_ENABLE")
        || installed_manifests().next().is_some()
}

/// The manifests of a layer of this name that the loader finds beside the run's own.
pub(super) fn installed_manifests() -> impl Iterator<Item = PathBuf> {
    let named = ["VK_LAYER_PATH", "VK_ADD_LAYER_PATH"]
        .into_iter()
        .flat_map(|name| split(&set(name).unwrap_or_default()));
    let folders = named
        .chain(manifests::explicit_layers())
        .chain(manifests::implicit_layers());
    let files = folders.flat_map(|path| match fs::read_dir(&path) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        // The loader takes single manifests, too.
        Err(_) => vec![path],
    });
    files.filter(|file| file.extension() == Some(OsStr::new("json")) && names_the_layer(file))
}

fn names_the_layer(manifest: &Path) -> bool {
    // No pipe, for which a reader would wait.
    let is_read =
        fs::metadata(manifest).is_ok_and(|file| file.is_file() && file.len() < MAX_MANIFEST);
    let text = is_read
        .then(|| fs::read(manifest).ok())
        .flatten()
        .unwrap_or_default();
    let name = format!("\"{LAYER}\"");
    text.windows(name.len()).any(|part| part == name.as_bytes())
}

fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

fn split(paths: &OsStr) -> Vec<PathBuf> {
    let paths = env::split_paths(paths);
    paths.filter(|path| !path.as_os_str().is_empty()).collect()
}
