//! Windows: events of the console, exit codes that are exceptions, the registry, and processes as a snapshot shows
//! them.

/// What the program lacks on this system, below the help of `run`.
pub(crate) const NOT_HERE: &str = "
Instead of a signal's number the exit code of an exception is passed on, such as 0xC0000005.
Callback coverage (--meter): not on Windows. Programs that fork: not on Windows. Set-uid: not on Windows.";

pub(crate) const MORE_MEMORY: &str = "free memory or enlarge the paging file";

pub(crate) mod ended;
pub(crate) mod executable;
pub(crate) mod files;
pub(crate) mod layer_place;
pub(crate) mod loaded_files;
pub(crate) mod manifests;
pub(crate) mod own_folder;
pub(crate) mod processes;
mod registry;
pub(crate) mod signals;
mod text;

pub(crate) use processes::kill;
