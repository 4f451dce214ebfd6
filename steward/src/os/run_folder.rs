//! The names in a folder of this program, and whether a state file in it is that of a living process.

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use super::own_folder::is_locked;

/// The name of a run's folder begins with it.
pub(crate) const RUN: &str = "steward-run-";
/// In it.
pub(crate) const REPORTS: &str = "reports";
/// The name of a workload's state file, and the end of those of a run.
pub(crate) const STATE: &str = "state";

pub(crate) fn has_living_state(folder: &Path) -> bool {
    let files = [folder.to_owned(), folder.join(REPORTS)];
    let files = files.iter().filter_map(|folder| fs::read_dir(folder).ok());
    let mut files = files.flatten().flatten().map(|entry| entry.path());
    let state = Some(OsStr::new(STATE));
    files.any(|file| [file.extension(), file.file_name()].contains(&state) && is_locked(&file))
}
