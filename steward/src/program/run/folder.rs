//! The folder of a run: the layer's manifest, reports and state files.

#![forbid(unsafe_code)]

use std::path::Path;
use std::{fs, io, process};

use super::place;
use crate::program::layer::Library;
use crate::program::own_folder::{OwnFolder, REPORTS, RUN, has_living_state, names_folder};
use crate::program::processes::{mapped, processes};

pub(super) fn new(layer: &Library) -> io::Result<OwnFolder> {
    let folder = OwnFolder::new(RUN)?;
    fs::create_dir(folder.path().join(REPORTS))?;
    layer.write(folder.path())?;
    place::write_manifest(folder.path(), &layer.file(folder.path()))?;
    Ok(folder)
}

/// A process counts if it was started with the folder in its environment, or has a state file in it.
pub(super) fn processes_of(folder: &Path) -> Vec<u32> {
    let has_state = has_living_state(folder);
    let maps_state = |process| {
        has_state
            && mapped(process)
                .iter()
                .any(|file| file.path.starts_with(folder))
    };
    let others = processes().filter(|process| *process != process::id());
    others
        .filter(|process| names_folder(*process, folder).unwrap_or(false) || maps_state(*process))
        .collect()
}
