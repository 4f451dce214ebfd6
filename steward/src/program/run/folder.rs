#![forbid(unsafe_code)]

use std::{fs, io};

use super::place;
use crate::program::layer::Library;
use crate::program::own_folder::{OwnFolder, REPORTS, RUN};

pub(super) fn new(layer: &Library) -> io::Result<OwnFolder> {
    let folder = OwnFolder::new(RUN)?;
    fs::create_dir(folder.path().join(REPORTS))?;
    layer.write(folder.path())?;
    place::write_manifest(folder.path(), &layer.file(folder.path()))?;
    Ok(folder)
}
