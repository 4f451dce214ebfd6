//! Files where the operating system has other rights and links than Unix: nothing is promised there.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a file to add to its end.
///
/// # Errors
/// Those of the operating system.
pub fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Opens a file to read and change it.
///
/// # Errors
/// Those of the operating system.
pub fn open_to_change(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Opens a file to read it.
///
/// # Errors
/// Those of the operating system.
pub fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}
