//! Whose a folder of this program is: its process has ended where nobody has the folder's note open, and no living
//! process has a state file in the folder.

#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process;

use vk_report::state_file;

use super::processes::is_running;
use crate::os::run_folder::{REPORTS, STATE, has_living_state};

/// Its process has it open, for itself alone. Without it a folder is not looked at.
const NOTE: &str = "run";

/// Holds a new folder for this process.
pub(crate) fn hold(folder: &Path) -> io::Result<File> {
    let mut note = OpenOptions::new();
    note.write(true).create_new(true).share_mode(0);
    note.open(folder.join(NOTE))
}

pub(crate) fn remove_if_stale(folder: &Path) {
    let note = OpenOptions::new().write(true).share_mode(0).open(folder.join(NOTE));
    if let Ok(note) = note
        && !has_living_state(folder)
    {
        // No folder with an open file is removed. What cannot be removed is tried again by the next process.
        drop(note);
        let _ = fs::remove_dir_all(folder);
    }
}

/// Whether the state file's process lives.
pub(crate) fn is_locked(file: &Path) -> bool {
    process_of(file).is_some_and(is_running)
}

fn process_of(state: &Path) -> Option<u32> {
    state_file::read(state).ok()?.process.try_into().ok()
}

/// State files in the folder of a run.
pub(super) fn states(folder: &Path) -> impl Iterator<Item = (u32, PathBuf)> + use<> {
    let entries = fs::read_dir(folder.join(REPORTS)).into_iter().flatten();
    let files = entries.flatten().map(|entry| entry.path());
    let states = files.filter(|file| file.extension().is_some_and(|it| it == STATE));
    states.filter_map(|file| Some((process_of(&file)?, file)))
}

/// A process counts if it has a state file in the folder: another one's environment is not read.
pub(crate) fn processes_of(folder: &Path) -> Vec<u32> {
    let others = states(folder).map(|(process, _)| process);
    others.filter(|process| *process != process::id() && is_running(*process)).collect()
}
