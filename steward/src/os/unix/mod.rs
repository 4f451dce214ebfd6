//! Unix: signals, modes of files, and what Linux shows in `/proc`.

/// What the program lacks on this system, below the help of `run`.
pub(crate) const NOT_HERE: &str = "";

pub(crate) const MORE_MEMORY: &str = "free memory or raise the limit (ulimit)";

pub(crate) mod ended;
pub(crate) mod executable;
pub(crate) mod files;
mod group_probe;
pub(crate) mod layer_place;
pub(crate) mod loaded_files;
pub(crate) mod manifests;
pub(crate) mod own_folder;
pub(crate) mod processes;
pub(crate) mod signals;

pub(crate) use signals::kill;
