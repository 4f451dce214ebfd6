//! Opens files for a user who shares the machine with others. The rules stand here once:
//!
//! - A path is walked part by part, from one open folder to the next: nothing is exchanged between a look and its use.
//!   A link is followed only if it belongs to this user or to root, in any part of the path, whatever
//!   `fs.protected_symlinks` says.
//! - A file is whole or not there: it is written beside its name and renamed over it. What a killed writer leaves there
//!   is removed by the next one. A new file is for this user alone; a file of this user keeps its mode.
//! - Devices, pipes and the kernel's own links (`/dev/stdout`) are written in place; a pipe only if it is this user's
//!   and has a reader. No open waits.
//! - Settings are read only from a file that nobody but this user and root can change or replace.

#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

/// The rights of a new report or state: its user's alone.
pub const PRIVATE: u32 = 0o600;
/// The rights of a new file that all users may read, as far as the process's mask allows.
pub const SHARED: u32 = 0o644;
const MAX_PARTS: u32 = 1000;
const MAX_LINKS: u32 = 40;

/// Why a file is not opened, though it may exist; the source of an [`io::Error`] of the kind
/// [`PermissionDenied`](io::ErrorKind::PermissionDenied).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignFileError {
    /// A part of the path is a link of another user.
    #[error("{} is a link of another user, which is not followed", .0.display())]
    Link(PathBuf),
    /// The file is another user's, or one with several names in a folder that others can write to: what is added would
    /// be theirs.
    #[error("{} is another user's, or has a second name in a folder that others can write to", .0.display())]
    Owner(PathBuf),
    /// Another user could have written the settings.
    #[error("{} belongs to another user, or others can write to it", .0.display())]
    Changeable(PathBuf),
}

impl From<ForeignFileError> for io::Error {
    fn from(error: ForeignFileError) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, error)
    }
}

/// How a file was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// As a whole, under its name.
    File,
    /// In place, to a device, a pipe or what the process has open.
    InPlace,
}

/// Writes `bytes` to the file, whole or not at all; devices and pipes are written in place. A new file has the rights
/// `mode`, a file of this user keeps its own.
///
/// # Errors
/// Those of the operating system; [`ForeignFileError`]; [`NotConnected`](io::ErrorKind::NotConnected) if the file is a
/// pipe that no process reads.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<Written> {
    let place = FilePlace::find(path)?;
    if place.is_in_place() {
        place.open_in_place()?.write_all(bytes)?;
        return Ok(Written::InPlace);
    }
    place.replace(bytes, mode).map(|()| Written::File)
}

/// Checks whether [`write()`] could write the file now. Leaves nothing behind.
///
/// # Errors
/// As [`write()`]. A pipe without a reader is none.
pub fn check(path: &Path) -> io::Result<Written> {
    let place = FilePlace::find(path)?;
    if place.is_in_place() {
        place.admit_owner()?;
        return Ok(Written::InPlace);
    }
    // Without its lock another writer may remove it, and have its name.
    let (part, _locked) = place.create_part(PRIVATE)?;
    rustix::fs::unlinkat(&place.folder, &part, AtFlags::empty())?;
    Ok(Written::File)
}

/// Opens the file to add to its end.
///
/// # Errors
/// As [`write()`]; [`ForeignFileError`] also for a file of another user: this user's lines would be
/// theirs.
pub fn append(path: &Path) -> io::Result<File> {
    let place = FilePlace::find(path)?;
    if place.there.is_some() || place.is_kernels {
        return place.open_in_place();
    }
    let flags = OFlags::WRONLY | OFlags::APPEND;
    place.create(&place.name, flags, PRIVATE)
}

/// Opens a plain file to read it, through any link. A pipe or a device is not opened: a pipe would wait, and a device
/// may act on it.
///
/// # Errors
/// Those of the operating system; [`InvalidInput`](io::ErrorKind::InvalidInput) if it is no plain file.
pub fn open(path: &Path) -> io::Result<File> {
    open_plain(path, OpenOptions::new().read(true))
}

/// As [`open()`], to read the file and to change bytes of it. Look at what it is before: the path may lead to any file.
///
/// # Errors
/// As [`open()`].
pub(crate) fn open_to_change(path: &Path) -> io::Result<File> {
    open_plain(path, OpenOptions::new().read(true).write(true))
}

fn open_plain(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let flags = LOOK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    if !is(&rustix::fs::fstat(&file)?, FileType::RegularFile) {
        return Err(no_plain_file());
    }
    options.open(name_of(&file, path))
}

/// Opens a settings file. `None` if there is none.
///
/// # Errors
/// As [`open()`]. [`ForeignFileError::Changeable`] unless the file, and each folder on the way to it, belongs to this
/// user or to root, and no other user can write to it. A sticky folder may be on the way, and may not hold the file
/// itself.
pub fn open_settings(path: &Path) -> io::Result<Option<File>> {
    // What leads to the working folder counts as well.
    let path = std::env::current_dir()?.join(path);
    let file = FilePlace::walk(&path, true).and_then(|place| {
        place.there.ok_or(Errno::NOENT)?;
        place.open()
    });
    match file {
        Ok(file) => Ok(Some(file)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes the file, or the link.
///
/// # Errors
/// As [`write()`].
pub fn remove(path: &Path) -> io::Result<()> {
    FilePlace::find(path)?.remove()
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Creates the folder, and those above it that are missing.
///
/// # Errors
/// As [`write()`].
pub fn create_folders(path: &Path) -> io::Result<()> {
    let mut place = FilePlace::find(path);
    if place.as_ref().is_err_and(is_missing)
        && let Some(parent) = path.parent()
    {
        create_folders(parent)?;
        place = FilePlace::find(path);
    }
    let place = match place {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => return Ok(()),
        place => place?,
    };
    match rustix::fs::mkdirat(&place.folder, &place.name, Mode::from_raw_mode(0o777)) {
        Err(Errno::EXIST) => Ok(()),
        made => Ok(made?),
    }
}

/// Where a path leads: an open folder, and a name in it that is no link, unless it is one of the kernel's.
pub struct FilePlace {
    folder: OwnedFd,
    name: OsString,
    there: Option<Stat>,
    /// Other users can put files into the folder.
    is_shared: bool,
    /// Only links of the process file system, which lead where no path may lead.
    is_kernels: bool,
}

impl std::fmt::Debug for FilePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilePlace").field("name", &self.name).finish_non_exhaustive()
    }
}

impl FilePlace {
    /// Finds the place of a file, which need not exist.
    ///
    /// # Errors
    /// Those of the operating system, for a folder on the way; [`ForeignFileError::Link`];
    /// [`IsADirectory`](io::ErrorKind::IsADirectory).
    pub fn find(path: &Path) -> io::Result<Self> {
        Self::walk(path, false)
    }

    /// With `is_strict` the path must be as [`open_settings`] requires.
    fn walk(path: &Path, is_strict: bool) -> io::Result<Self> {
        let mut parts = Vec::new();
        push_parts(&mut parts, path);
        let start = if path.is_absolute() { "/" } else { "." };
        let mut folder = open_folder(CWD, OsStr::new(start), OFlags::NOFOLLOW)?;
        let (mut passed, mut links) = (PathBuf::from(start), 0);
        loop {
            let name = parts.pop().ok_or(io::ErrorKind::IsADirectory)?;
            let of_folder = rustix::fs::fstat(&folder)?;
            let is_last = parts.is_empty();
            if is_strict && !is_safe(&of_folder, !is_last) {
                return Err(ForeignFileError::Changeable(passed).into());
            }
            if name == ".." {
                folder = open_folder(&folder, &name, OFlags::NOFOLLOW)?;
                passed.push(name);
                continue;
            }
            let there = match look_at(&folder, &name) {
                Ok(there) => Some(there),
                Err(Errno::NOENT) if is_last => None,
                Err(error) => return Err(error.into()),
            };
            let is_link = there.as_ref().is_some_and(|(_, there)| is(there, FileType::Symlink));
            let is_kernels = is_link && is_of_kernel(&folder)?;
            match there {
                Some((link, there)) if is_link && !is_kernels => {
                    passed.push(&name);
                    if !is_own_or_roots(&there) {
                        return Err(ForeignFileError::Link(passed).into());
                    }
                    passed.pop();
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::LOOP.into());
                    }
                    let target = PathBuf::from(target_of(&link, &folder, &name)?);
                    if target.is_absolute() {
                        folder = open_folder(CWD, OsStr::new("/"), OFlags::NOFOLLOW)?;
                        passed = PathBuf::from("/");
                    }
                    push_parts(&mut parts, &target);
                }
                Some((_, there)) if is_last && is(&there, FileType::Directory) => {
                    return Err(io::ErrorKind::IsADirectory.into());
                }
                there if is_last => {
                    let there = there.filter(|_| !is_kernels).map(|(_, there)| there);
                    passed.push(&name);
                    if is_strict && there.as_ref().is_some_and(|there| !is_safe(there, false)) {
                        return Err(ForeignFileError::Changeable(passed).into());
                    }
                    return Ok(Self { name, there, is_shared: !is_safe(&of_folder, false), is_kernels, folder });
                }
                _ => {
                    // The kernel follows its own links only.
                    let flags = if is_kernels { OFlags::empty() } else { OFlags::NOFOLLOW };
                    folder = open_folder(&folder, &name, flags)?;
                    passed.push(name);
                }
            }
        }
    }

    /// Whether there is a file of any kind.
    #[must_use]
    pub const fn is_there(&self) -> bool {
        self.there.is_some() || self.is_kernels
    }

    /// Opens the plain file to read it. Does not wait.
    ///
    /// # Errors
    /// As [`open()`].
    pub fn open(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let is_plain = |stat: &Stat| is(stat, FileType::RegularFile);
        // A device may do something when it is opened.
        if self.there.as_ref().is_some_and(|there| !is_plain(there)) {
            return Err(no_plain_file());
        }
        let file = open_at(&self.folder, &self.name, flags)?;
        if is_plain(&rustix::fs::fstat(&file)?) { Ok(file) } else { Err(no_plain_file()) }
    }

    /// Creates the file, for this user alone, to be read and written.
    ///
    /// # Errors
    /// Those of the operating system; [`AlreadyExists`](io::ErrorKind::AlreadyExists).
    pub fn create_new(&self) -> io::Result<File> {
        self.create(&self.name, OFlags::RDWR, PRIVATE)
    }

    /// Removes the file, whatever has the name by now.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Whether the name still is that of `file`.
    #[must_use]
    pub fn is_of(&self, file: &File) -> bool {
        let named = rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        matches!((named, rustix::fs::fstat(file)), (Ok(named), Ok(file)) if (named.st_dev, named.st_ino) == (file.st_dev, file.st_ino))
    }

    fn is_in_place(&self) -> bool {
        let is_plain = |there: &Stat| is(there, FileType::RegularFile);
        self.is_kernels || self.there.as_ref().is_some_and(|there| !is_plain(there))
    }

    fn admit_owner(&self) -> io::Result<()> {
        let Some(there) = &self.there else {
            return Ok(());
        };
        let is_admitted = match FileType::from_raw_mode(there.st_mode) {
            // No user but root makes a device; a terminal is its user's.
            FileType::CharacterDevice | FileType::BlockDevice => true,
            FileType::RegularFile => is_own(there) && (there.st_nlink == 1 || !self.is_shared),
            _ => is_own_or_roots(there),
        };
        if is_admitted { Ok(()) } else { Err(ForeignFileError::Owner(PathBuf::from(&self.name)).into()) }
    }

    /// Does not wait for the reader of a pipe.
    fn open_in_place(&self) -> io::Result<File> {
        self.admit_owner()?;
        let link = if self.is_kernels { OFlags::empty() } else { OFlags::NOFOLLOW };
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | link;
        let file = match open_at(&self.folder, &self.name, flags) {
            Err(Errno::NXIO) => {
                let why = "no process reads this pipe: start its reader first";
                return Err(io::Error::new(io::ErrorKind::NotConnected, why));
            }
            opened => opened?,
        };
        let opened = Some(rustix::fs::fstat(&file)?).filter(|_| !self.is_kernels);
        let (folder, name) = (self.folder.try_clone()?, self.name.clone());
        // It may be another one by now.
        Self { folder, name, there: opened, ..*self }.admit_owner()?;
        // From here on its reader may take its time.
        rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
        Ok(file)
    }

    fn replace(&self, bytes: &[u8], mode: u32) -> io::Result<()> {
        let kept = self.there.as_ref().filter(|there| is_own(there));
        let (part, mut file) = self.create_part(if kept.is_some() { PRIVATE } else { mode })?;
        let written = file
            .write_all(bytes)
            .and_then(|()| {
                let kept = kept.map(|there| Mode::from_raw_mode(there.st_mode & 0o777));
                Ok(kept.map_or(Ok(()), |mode| rustix::fs::fchmod(&file, mode))?)
            })
            .and_then(|()| Ok(rustix::fs::renameat(&self.folder, &part, &self.folder, &self.name)?));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&self.folder, &part, AtFlags::empty());
        }
        written
    }

    /// The part is locked for as long as it is open. Other threads and processes may write beside the file too. Parts
    /// that no process has locked are of writers that were killed, and are removed.
    fn create_part(&self, mode: u32) -> io::Result<(OsString, File)> {
        let mut number = 0;
        loop {
            let part = self.part(number);
            match self.create(&part, OFlags::WRONLY, mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MAX_PARTS => {
                    if !self.remove_stale(&part) {
                        number += 1;
                    }
                }
                created => {
                    let created = created?;
                    // Another writer may have looked at it before it was locked. Where files cannot be locked, none is
                    // removed.
                    let is_taken = lock(&created) == Err(Errno::WOULDBLOCK);
                    if is_taken || rustix::fs::fstat(&created)?.st_nlink == 0 {
                        number += 1;
                        continue;
                    }
                    while number < MAX_PARTS && self.remove_stale(&self.part(number + 1)) {
                        number += 1;
                    }
                    return Ok((part, created));
                }
            }
        }
    }

    fn part(&self, number: u32) -> OsString {
        let end = format!(".{number}.steward-part");
        let name = [OsStr::new("."), &self.name, OsStr::new(&end)];
        name.into_iter().collect()
    }

    fn remove_stale(&self, part: &OsStr) -> bool {
        let removed = || {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
            let file = open_at(&self.folder, part, flags)?;
            let stat = rustix::fs::fstat(&file)?;
            if !is(&stat, FileType::RegularFile) || !is_own(&stat) {
                return Err(Errno::PERM);
            }
            lock(&file)?;
            // Its writer may have ended well meanwhile, and another one have the name.
            let named = rustix::fs::statat(&self.folder, part, AtFlags::SYMLINK_NOFOLLOW)?;
            if (named.st_dev, named.st_ino) != (stat.st_dev, stat.st_ino) {
                return Err(Errno::NOENT);
            }
            rustix::fs::unlinkat(&self.folder, part, AtFlags::empty())
        };
        removed().is_ok()
    }

    fn create(&self, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<File> {
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, name, flags, Mode::from_raw_mode(mode))?;
        Ok(file.into())
    }
}

fn lock(file: &File) -> Result<(), Errno> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)
}

fn no_plain_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file")
}

fn push_parts(stack: &mut Vec<OsString>, path: &Path) {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        _ => None,
    });
    stack.extend(parts.rev().map(OsStr::to_owned));
}

fn open_at(folder: &OwnedFd, name: &OsStr, flags: OFlags) -> Result<File, Errno> {
    let opened = rustix::fs::openat(folder, name, flags | OFlags::CLOEXEC, Mode::empty());
    opened.map(File::from)
}

fn open_folder(at: impl AsFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | LOOK | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// The link itself is opened where there is one, for no access.
fn look_at(folder: &OwnedFd, name: &OsStr) -> Result<(OwnedFd, Stat), Errno> {
    let file = rustix::fs::openat(folder, name, LOOK | LOOK_AT_LINK | OFlags::CLOEXEC, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    Ok((file, stat))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const LOOK: OFlags = OFlags::PATH;
#[cfg(any(target_os = "linux", target_os = "android"))]
const LOOK_AT_LINK: OFlags = OFlags::NOFOLLOW;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const LOOK: OFlags = OFlags::NONBLOCK;
/// `O_SYMLINK` of macOS.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const LOOK_AT_LINK: OFlags = OFlags::from_bits_retain(0x20_0000);

#[cfg(any(target_os = "linux", target_os = "android"))]
fn target_of(link: &OwnedFd, _: &OwnedFd, _: &OsStr) -> Result<OsString, Errno> {
    let target = rustix::fs::readlinkat(link, "", Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn target_of(_: &OwnedFd, folder: &OwnedFd, name: &OsStr) -> Result<OsString, Errno> {
    let target = rustix::fs::readlinkat(folder, name, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn name_of(file: &OwnedFd, _: &Path) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn name_of(_: &OwnedFd, path: &Path) -> PathBuf {
    path.to_owned()
}

/// Whether the folder's links are the kernel's, as those of open files.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_of_kernel(folder: &OwnedFd) -> Result<bool, Errno> {
    Ok(rustix::fs::fstatfs(folder)?.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
const fn is_of_kernel(_: &OwnedFd) -> Result<bool, Errno> {
    Ok(false)
}

fn is(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
}

fn is_own(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

fn is_own_or_roots(stat: &Stat) -> bool {
    stat.st_uid == 0 || is_own(stat)
}

/// The group with the number of the owner is the owner's own. In a sticky folder others can add files, and not exchange
/// those of this user.
fn is_safe(stat: &Stat, may_be_sticky: bool) -> bool {
    let is_open = stat.st_mode & 0o002 != 0 || stat.st_mode & 0o020 != 0 && stat.st_gid != stat.st_uid;
    let is_sticky = stat.st_mode & 0o1000 != 0;
    is_own_or_roots(stat) && (!is_open || may_be_sticky && is_sticky)
}

#[cfg(test)]
mod tests;
