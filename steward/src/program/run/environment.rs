//! Sets the program's environment for loader and layer. `VK_DRIVER_FILES` and `VK_ICD_FILENAMES` are never set: if they
//! are, some programs open drivers without the loader and have no layers.

#![forbid(unsafe_code)]

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use super::search_path;
use crate::cli::RunArgs;
use crate::os::files::LIST_SEPARATOR;
use crate::program::layer::LAYER;
pub(super) use crate::program::own_folder::REPORTS;

pub(super) fn set(command: &mut Command, folder: &Path, no_check: bool) {
    for name in ["VK_ADD_LAYER_PATH", "VK_LAYER_PATH"] {
        let set = env::var_os(name).unwrap_or_default();
        // If the second is set, the loader searches nowhere else.
        if name == "VK_ADD_LAYER_PATH" || !set.is_empty() {
            command.env(name, search_path::with_folder(name, &set, folder));
        }
    }
    // The last one is next to the driver.
    let layers = env::var_os("VK_INSTANCE_LAYERS").unwrap_or_default();
    let others = env::split_paths(&layers).map(OsString::from);
    let others = others.filter(|name| !name.is_empty() && name != LAYER);
    let layers: Vec<_> = others.chain([LAYER.into()]).collect();
    command.env("VK_INSTANCE_LAYERS", layers.join(OsStr::new(LIST_SEPARATOR)));
    let reports = folder.join(REPORTS);
    // The text is made of the JSON: what the user's variable or settings file says of it would be another one.
    command.env("VK_STEWARD_MEMORY_TEXT", "none");
    command.env("VK_STEWARD_MEMORY_JSON", reports.join("%p-%t.json"));
    command.env("VK_STEWARD_MEMORY_STATE", reports.join("%p-%t.state"));
    if no_check {
        command.env("VK_STEWARD_MEMORY_CHECK", "false");
    }
}

pub(super) fn set_stacks(command: &mut Command, options: &RunArgs) {
    if options.stacks {
        command.env("VK_STEWARD_MEMORY_STACKS", "true");
    }
    if let Some(frame) = &options.frame {
        command.env("VK_STEWARD_MEMORY_FRAME", frame);
    }
}
