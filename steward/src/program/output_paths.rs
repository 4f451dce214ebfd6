//! Checks the files of a command line: each may be named once, so that no result overwrites another one or an input.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

use super::{ProgramError, files};
use crate::cli::NamedFile;

pub(super) fn check(all: &[NamedFile]) -> Result<(), ProgramError> {
    for (at, one) in all.iter().enumerate() {
        if let Some(other) = all.iter().take(at).find(|other| clash(one, other)) {
            let [first, second] = [other.by, one.by].map(str::to_owned);
            return Err(ProgramError::SameFile { first, second, file: one.file.display().to_string() });
        }
        if is_standard(one) && matches!(one.by, "--record" | "--write-expect" | "--text") {
            return Err(ProgramError::NoFile { by: one.by.to_owned() });
        }
    }
    let read = all.iter().filter(|one| !one.is_written && is_standard(one));
    if read.count() > 1 {
        return Err(ProgramError::ReadTwice);
    }
    all.iter().filter(|one| one.is_written && !is_standard(one)).try_for_each(|one| files::check(&one.file))
}

fn is_standard(named: &NamedFile) -> bool {
    named.file == Path::new("-")
}

fn clash(one: &NamedFile, other: &NamedFile) -> bool {
    match (one.is_written, other.is_written) {
        (false, false) => false,
        (true, true) if one.file == other.file => one.file != Path::new("/dev/null"),
        // The standard input and output are different streams.
        _ if is_standard(one) || is_standard(other) => false,
        _ => {
            matches!((place(&one.file), place(&other.file)), (Some(one), Some(other)) if one == other)
        }
    }
}

/// The path is real also before the file exists; a terminal and a pipe have none.
fn place(file: &Path) -> Option<PathBuf> {
    match fs::canonicalize(file) {
        Ok(there) => there.is_file().then_some(there),
        Err(_) => {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            Some(fs::canonicalize(folder).ok()?.join(file.file_name()?))
        }
    }
}
