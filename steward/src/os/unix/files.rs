//! Files and pipes.

#![forbid(unsafe_code)]

use std::fs::{Metadata, Permissions};
use std::io::{self, PipeReader, Read as _};
pub(crate) use std::os::fd::AsFd as Stream;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use tempfile::TempDir;

/// Between the entries of the loader's lists.
pub(crate) const LIST_SEPARATOR: &str = ":";
pub(crate) const FALLBACK_FOLDER: &str = "/tmp";

/// Other users cannot read it.
pub(crate) fn private_folder(prefix: &str, parent: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(prefix).permissions(Permissions::from_mode(0o700)).tempdir_in(parent)
}

/// Every terminal takes escape sequences.
pub(crate) fn takes_escapes(_: &impl Stream) -> bool {
    true
}

/// Another one where a file is written anew.
pub(crate) fn identity(file: &Metadata) -> u64 {
    file.ino()
}

/// The same library under another name.
pub(crate) fn link(library: &Path, name: &Path) -> io::Result<()> {
    symlink(library, name)
}

/// Its reader does not wait.
pub(crate) fn pipe() -> io::Result<(PipeReader, io::PipeWriter)> {
    let (output, its_end) = io::pipe()?;
    rustix::io::ioctl_fionbio(&output, true)?;
    Ok((output, its_end))
}

/// Adds what the pipe has now, at most this many bytes.
pub(crate) fn read_available(output: &PipeReader, at_once: u64, bytes: &mut Vec<u8>) {
    // It ends with an error where the pipe has no more for now.
    let _ = { output }.take(at_once).read_to_end(bytes);
}
