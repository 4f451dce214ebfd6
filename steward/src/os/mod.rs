//! The operating system: what the program asks of it that the standard library has not, in a folder for each kind.
//!
//! ```text
//!   signals      what ends programs, held while a child runs       own_folder   whether a folder's process has ended
//!   ended        how a process ended                               manifests    where the loader finds drivers and layers
//!   processes    other processes, and their state files            layer_place  where the layer is installed
//!   executable   what keeps the layer out of a program             loaded_files libraries of this process
//!   run_folder   names in a folder, and living state files         files        pipes, rights and links
//!                                                                  helper       children of this program's own, on any system
//! ```

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

mod helper;
mod loaded_files;
pub(crate) mod run_folder;

#[cfg_attr(unix, path = "unix/mod.rs")]
#[cfg_attr(windows, path = "windows/mod.rs")]
mod system;

pub(crate) use helper::{ChildKind, HelperError, wait_briefly};
pub(crate) use loaded_files::{LoadedFiles, VulkanPart};
pub(crate) use system::ended::{ended_by, exit_code, is_abort, is_from_outside, signal_name};
pub(crate) use system::signals::{HeldSignals, end_by, run_as_helper, start_bound, survive_file_limit};
pub(crate) use system::{MORE_MEMORY, NOT_HERE, kill};
pub(crate) use system::{executable, files, layer_place, manifests, own_folder, processes};

/// The variable's value, unless it is empty.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// The entries of a list such as `PATH`, without empty ones.
pub(crate) fn paths(list: &OsStr) -> Vec<PathBuf> {
    let paths = env::split_paths(list);
    paths.filter(|path| !path.as_os_str().is_empty()).collect()
}
