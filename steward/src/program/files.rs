//! Files that are there whole, or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::ProgramError;

/// Finds out, before the work is done, whether [`write_whole`] can write `file`. Leaves nothing behind.
pub(super) fn check(file: &Path) -> Result<(), ProgramError> {
    if fs::metadata(file).is_ok_and(|there| there.is_dir()) {
        return Err(unwritable(file, io::ErrorKind::IsADirectory.into()));
    }
    // A pipe would wait for its reader here.
    if in_place(file) {
        return Ok(());
    }
    let tried = beside(file)
        .and_then(|(_, beside)| File::create_new(&beside).and_then(|_| fs::remove_file(&beside)));
    tried.map_err(|reason| unwritable(file, reason))
}

/// As [`write_whole`], and says on the error output that it did.
pub(super) fn write_and_say(file: &Path, bytes: &[u8]) -> Result<(), ProgramError> {
    write_whole(file, bytes)?;
    // Of a pipe or a terminal whoever reads it knows.
    if !in_place(file) {
        let _ = writeln!(io::stderr(), "wrote {}", file.display());
    }
    Ok(())
}

/// Writes a file under another name first, so that a full disk leaves what was there before. What is no file, such as a pipe or
/// the terminal, is added to as it is.
pub(super) fn write_whole(file: &Path, bytes: &[u8]) -> Result<(), ProgramError> {
    let written = if in_place(file) {
        add(file, bytes)
    } else {
        write_and_rename(file, bytes)
    };
    written.map_err(|reason| unwritable(file, reason))
}

fn in_place(file: &Path) -> bool {
    // `/dev/stdout` may lead to a file that the report goes to; `/dev/shm` is a folder of ordinary files.
    file.starts_with("/dev") && !file.starts_with("/dev/shm")
        || fs::metadata(file).is_ok_and(|there| !there.is_file())
}

fn add(file: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().append(true).open(file)?.write_all(bytes)
}

fn write_and_rename(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let (file, beside) = beside(file)?;
    let written = File::create_new(&beside)
        .and_then(|mut to| to.write_all(bytes).and_then(|()| to.sync_all()))
        .and_then(|()| fs::rename(&beside, &file));
    if written.is_err() {
        // There may be none.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Where the file really is, and a name beside it that nobody else uses.
fn beside(file: &Path) -> io::Result<(PathBuf, PathBuf)> {
    // What a link points at is replaced, not the link.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let name = file.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let beside = file.with_file_name(format!(".{}.{}", name.display(), std::process::id()));
    Ok((file, beside))
}

pub(super) fn unwritable(file: &Path, reason: io::Error) -> ProgramError {
    ProgramError::Unwritable {
        file: file.display().to_string(),
        reason,
    }
}
