//! Opens files on Windows. A file's rights are those of its folder, and who else could change or replace it is not
//! looked at.

#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::windows::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The rights of a new report or state: those of its folder.
pub const PRIVATE: u32 = 0o600;
/// The rights of a new file that all users may read: those of its folder.
pub const SHARED: u32 = 0o644;
const MAX_PARTS: u32 = 1000;
const PART: &str = ".steward-part";
/// A part is renamed as soon as it is closed: by then its writer was killed.
const LEFT_AFTER: Duration = Duration::from_secs(60);
/// Of the parts that this process has made.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// How a file was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// As a whole, under its name.
    File,
    /// In place, to a device or a pipe.
    InPlace,
}

/// Writes `bytes` to the file, whole or not at all; devices and pipes are written in place. The rights are those of the
/// folder, whatever `_mode` says.
///
/// # Errors
/// Those of the operating system.
pub fn write(path: &Path, bytes: &[u8], _mode: u32) -> io::Result<Written> {
    if is_in_place(path) {
        open_in_place(path)?.write_all(bytes)?;
        return Ok(Written::InPlace);
    }
    let (part, mut file) = create_part(path)?;
    let written = file.write_all(bytes);
    drop(file);
    if let Err(error) = written.and_then(|()| fs::rename(&part, path)) {
        let _ = fs::remove_file(&part);
        return Err(error);
    }
    Ok(Written::File)
}

/// Checks whether [`write()`] could write the file now. Leaves nothing behind.
///
/// # Errors
/// As [`write()`].
pub fn check(path: &Path) -> io::Result<Written> {
    if is_in_place(path) {
        return Ok(Written::InPlace);
    }
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let (part, file) = create_part(path)?;
    drop(file);
    fs::remove_file(part)?;
    Ok(Written::File)
}

/// Opens the file to add to its end.
///
/// # Errors
/// Those of the operating system.
pub fn append(path: &Path) -> io::Result<File> {
    if is_in_place(path) {
        return open_in_place(path);
    }
    OpenOptions::new().append(true).create(true).open(path)
}

/// Opens a plain file to read it.
///
/// # Errors
/// Those of the operating system; [`InvalidInput`](io::ErrorKind::InvalidInput) if it is no plain file.
pub fn open(path: &Path) -> io::Result<File> {
    open_plain(path, OpenOptions::new().read(true))
}

/// As [`open()`], to read the file and to change bytes of it.
///
/// # Errors
/// As [`open()`].
pub(crate) fn open_to_change(path: &Path) -> io::Result<File> {
    open_plain(path, OpenOptions::new().read(true).write(true))
}

/// Opens a settings file.
///
/// # Errors
/// As [`open()`].
pub fn open_settings(path: &Path) -> io::Result<Option<File>> {
    match open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates the folder, and those above it that are missing.
///
/// # Errors
/// Those of the operating system.
pub fn create_folders(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Removes the file.
///
/// # Errors
/// Those of the operating system.
pub fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

fn open_plain(path: &Path, options: &OpenOptions) -> io::Result<File> {
    if is_in_place(path) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file"));
    }
    options.open(path)
}

fn open_in_place(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

fn is_in_place(path: &Path) -> bool {
    let name = path.as_os_str();
    name.as_encoded_bytes().starts_with(br"\\.\")
        || ["NUL", "CON", "CONOUT$"].iter().any(|device| name.eq_ignore_ascii_case(device))
}

/// Nobody else has its name, nor can open, rename or remove it while it is open.
fn create_part(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    remove_left(path, name);
    let mut attempts = 0;
    loop {
        let part = part_of(path, name, NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut options = OpenOptions::new();
        let created = options.write(true).create_new(true).share_mode(0);
        match created.open(&part) {
            // An earlier process had this one's number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempts < MAX_PARTS => {
                attempts += 1;
            }
            created => return Ok((part, created?)),
        }
    }
}

fn part_of(path: &Path, name: &OsStr, number: u32) -> PathBuf {
    let end = format!(".{}-{number}{PART}", process::id());
    path.with_file_name(beginning_with_dot(name, &end))
}

fn remove_left(path: &Path, name: &OsStr) {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter();
    let begin = beginning_with_dot(name, ".");
    for entry in entries.flatten().flatten() {
        let part = entry.file_name();
        let part = part.as_encoded_bytes();
        let changed = || entry.metadata().and_then(|file| file.modified()).ok();
        if part.starts_with(begin.as_encoded_bytes())
            && part.ends_with(PART.as_bytes())
            && changed().is_some_and(|at| at.elapsed().is_ok_and(|age| age > LEFT_AFTER))
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn beginning_with_dot(name: &OsStr, end: &str) -> OsString {
    let parts = [OsStr::new("."), name, OsStr::new(end)];
    parts.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;
    use std::process;
    use std::time::SystemTime;

    use tempfile::TempDir;

    use super::{LEFT_AFTER, PRIVATE, Written, append, check, create_part, open, open_settings, remove, write};

    fn names(folder: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(folder.path()).expect("a folder");
        let name = |entry: fs::DirEntry| entry.file_name().display().to_string();
        entries.map(|entry| name(entry.expect("an entry"))).collect()
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("report");
        for text in ["first, and longer", "second"] {
            assert_eq!(check(&name).expect("it can be written"), Written::File);
            let written = write(&name, text.as_bytes(), PRIVATE).expect("a folder");
            assert_eq!(written, Written::File);
            assert_eq!(fs::read_to_string(&name).expect("a file"), text);
        }
        assert_eq!(names(&folder), ["report"]);
        write(folder.path(), b"text", PRIVATE).expect_err("a folder has the name");
        check(folder.path()).expect_err("a folder has the name");
        remove(&name).expect("a file");
        assert_eq!(names(&folder), [""; 0]);
    }

    #[test]
    fn a_part_is_its_writers_alone_and_one_that_was_left_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("report");
        let own = format!(".report.{}-", process::id());
        // One writer has just closed its part, another one still writes.
        let (closed, _) = create_part(&name).expect("a folder");
        let (open, living) = create_part(&name).expect("a folder");
        for part in [&closed, &open] {
            let part = part.file_name().and_then(|it| it.to_str()).expect("text");
            assert!(part.starts_with(&own) && part.ends_with(".steward-part"), "{part}");
        }
        let left = folder.path().join(".report.1-2.steward-part");
        let file = File::create(&left).expect("a file of a writer that was killed");
        let long_ago = SystemTime::now() - 2 * LEFT_AFTER;
        file.set_modified(long_ago).expect("a time");
        drop(file);
        write(&name, b"text", PRIVATE).expect("a third part");
        assert!(closed.is_file() && open.is_file(), "{:?}", names(&folder));
        assert!(!left.exists(), "{:?}", names(&folder));
        drop(living);
        fs::rename(&closed, &name).expect("nobody has taken it");
        fs::rename(&open, &name).expect("nobody has taken it");
        assert_eq!(names(&folder), ["report"]);
    }

    #[test]
    fn a_device_is_written_in_place_and_is_no_file_to_read() {
        let nul = Path::new("nul");
        assert_eq!(write(nul, b"text", PRIVATE).expect("a device"), Written::InPlace);
        append(nul).expect("a device");
        open(nul).expect_err("it is no file");
    }

    #[test]
    fn settings_that_are_not_there_are_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = folder.path().join("settings");
        assert!(open_settings(&name).expect("no file").is_none());
        assert!(open_settings(&name.join("below")).expect("no folder").is_none());
        fs::write(&name, "text").expect("a file");
        assert!(open_settings(&name).expect("a file").is_some());
    }
}
