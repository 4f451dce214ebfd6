//! Files that are there whole, or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::ProgramError;

/// Writes `value` as JSON.
pub(super) fn write_json(file: &Path, value: &impl Serialize) -> Result<(), ProgramError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| unwritable(file, error.into()))?;
    write_whole(file, (text + "\n").as_bytes())
}

/// Writes a file under another name first, so that a full disk leaves what was there before. What is no file, such as a pipe or
/// the terminal, is added to as it is.
pub(super) fn write_whole(file: &Path, bytes: &[u8]) -> Result<(), ProgramError> {
    // `/dev/stdout` may lead to a file that the report goes to.
    let in_place = file.starts_with("/dev") || fs::metadata(file).is_ok_and(|there| !there.is_file());
    let written = if in_place { add(file, bytes) } else { write_and_rename(file, bytes) };
    written.map_err(|reason| unwritable(file, reason))
}

fn add(file: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().append(true).open(file)?.write_all(bytes)
}

fn write_and_rename(file: &Path, bytes: &[u8]) -> io::Result<()> {
    // What a link points at is replaced, not the link.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let name = file.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let beside: PathBuf = file.with_file_name(format!(".{}.{}", name.display(), std::process::id()));
    let written = File::create_new(&beside)
        .and_then(|mut to| to.write_all(bytes).and_then(|()| to.sync_all()))
        .and_then(|()| fs::rename(&beside, &file));
    if written.is_err() {
        // There may be none.
        let _ = fs::remove_file(&beside);
    }
    written
}

pub(super) fn unwritable(file: &Path, reason: io::Error) -> ProgramError {
    ProgramError::Unwritable { file: file.display().to_string(), reason }
}
