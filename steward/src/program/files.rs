//! Writes files completely or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::ProgramError;

/// Checks whether [`write_whole`] can write `file`, without leaving a file behind. Call it before long work.
pub(super) fn check(file: &Path) -> Result<(), ProgramError> {
    if fs::metadata(file).is_ok_and(|there| there.is_dir()) {
        return Err(unwritable(file, io::ErrorKind::IsADirectory.into()));
    }
    // Opening a pipe would wait for its reader.
    if in_place(file) {
        return Ok(());
    }
    let tried = beside(file)
        .and_then(|(_, beside)| File::create_new(&beside).and_then(|_| fs::remove_file(&beside)));
    tried.map_err(|reason| unwritable(file, reason))
}

/// As [`write_whole`], and reports the file on the error output.
pub(super) fn write_and_say(file: &Path, bytes: &[u8]) -> Result<(), ProgramError> {
    write_whole(file, bytes)?;
    // The reader of a pipe or a terminal needs no message.
    if !in_place(file) {
        let _ = writeln!(io::stderr(), "wrote {}", file.display());
    }
    Ok(())
}

/// Writes a file under another name first, so that a full disk keeps the old content. Pipes and terminals are written directly.
pub(super) fn write_whole(file: &Path, bytes: &[u8]) -> Result<(), ProgramError> {
    let written = if in_place(file) {
        add(file, bytes)
    } else {
        write_and_rename(file, bytes)
    };
    written.map_err(|reason| unwritable(file, reason))
}

fn in_place(file: &Path) -> bool {
    // `/dev/stdout` may be a file with the report; `/dev/shm` is a folder of ordinary files.
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
        // The file may not exist.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// The real path of the file, and an unused name beside it.
fn beside(file: &Path) -> io::Result<(PathBuf, PathBuf)> {
    // The target of a link is replaced, not the link.
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
