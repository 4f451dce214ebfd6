//! Folders of this program for temporary files. The folder of a process that was killed is removed by a later one.
//!
//! A folder is removed only where its process has provably ended: it is this user's alone, its note names this boot and PID namespace, no
//! process has it locked (its own does, until it ends), and no process that may have been started with it is alive.

#![forbid(unsafe_code)]

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{env, process};

use tempfile::TempDir;

use super::lock;
use super::processes::{processes, started, text_of};
use super::run::place;
use crate::workload_child::STATE;

/// The names of the folders begin with these.
pub(crate) const RUN: &str = "steward-run-";
pub(crate) const DRIVE: &str = "steward-drive-";
pub(crate) const METER: &str = "steward-meter-";
const PREFIXES: [&str; 3] = [RUN, DRIVE, METER];
/// Written when the folder is locked: without it a folder is not looked at.
const NOTE: &str = "run";
const INACCURACY: Duration = Duration::from_secs(2);

pub(super) const REPORTS: &str = "reports";

/// Hold the signals as long as this folder: one that ends this process would leave the folder.
pub(crate) struct OwnFolder {
    folder: TempDir,
    /// Locked while this process needs the folder.
    _held: File,
}

impl OwnFolder {
    /// Other users cannot read the folder. Those of processes that were killed are removed.
    pub(crate) fn new(prefix: &str) -> io::Result<Self> {
        let (temporary, fallback) = (env::temp_dir(), Path::new(place::FALLBACK));
        remove_stale(&temporary);
        remove_stale(fallback);
        Self::new_in(prefix, &temporary).or_else(|error| {
            // One that is full, is not there or may not be written to.
            Self::new_in(prefix, fallback).map_err(|_| error)
        })
    }

    fn new_in(prefix: &str, parent: &Path) -> io::Result<Self> {
        let folder = place::new_folder(prefix, parent)?;
        let held = open_folder(folder.path())?;
        lock::lock(&held)?;
        fs::write(folder.path().join(NOTE), namespace())?;
        Ok(Self {
            folder,
            _held: held,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

pub(super) fn has_living_state(folder: &Path) -> bool {
    let files = [folder.to_owned(), folder.join(REPORTS)];
    let files = files.iter().filter_map(|folder| fs::read_dir(folder).ok());
    let mut files = files.flatten().flatten().map(|entry| entry.path());
    let state = Some(OsStr::new(STATE));
    files.any(|file| [file.extension(), file.file_name()].contains(&state) && is_locked(&file))
}

/// The layer has the state file of a living process locked.
pub(super) fn is_locked(file: &Path) -> bool {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(file);
    file.is_ok_and(|file| lock::try_lock(&file).is_err())
}

fn remove_stale(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_named = |prefix: &str| name.as_bytes().starts_with(prefix.as_bytes());
        if PREFIXES.into_iter().any(is_named)
            && let Some(_held) = stale(&entry.path())
        {
            // Locked, so that no other process removes it as well. What cannot be removed is tried again by the next one.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the folder's lock if its process has ended.
fn stale(folder: &Path) -> Option<File> {
    let held = open_folder(folder).ok()?;
    let metadata = held.metadata().ok()?;
    let user = lock::user();
    let is_ours = metadata.uid() == user && metadata.mode() & 0o077 == 0;
    if !is_ours || lock::try_lock(&held).is_err() {
        return None;
    }
    let is_same_place = fs::read(folder.join(NOTE)).ok()? == namespace();
    let is_used = has_living_state(folder)
        || processes().any(|process| may_use(process, folder, &metadata, user));
    (is_same_place && !is_used).then_some(held)
}

fn may_use(process: u32, folder: &Path, metadata: &Metadata, user: u32) -> bool {
    if process == process::id() {
        return false;
    }
    names_folder(process, folder).unwrap_or_else(|| {
        // Its environment cannot be read: it counts if it is this user's, and began after the folder.
        let is_ours = users(process).is_none_or(|users| users.contains(&user));
        let is_earlier = started(process)
            .zip(metadata.modified().ok())
            .is_some_and(|(started, made): (SystemTime, _)| started + INACCURACY < made);
        is_ours && !is_earlier
    })
}

pub(super) fn names_folder(process: u32, folder: &Path) -> Option<bool> {
    let file = PathBuf::from(format!("/proc/{process}/environ"));
    let mut environment = Vec::new();
    match File::open(file).and_then(|mut file| file.read_to_end(&mut environment)) {
        Ok(_) => {
            // Its name is drawn, and the path to it may be relative.
            let folder = folder.file_name().unwrap_or_default().as_bytes();
            let mut places = environment.windows(folder.len());
            Some(places.any(|place| place == folder))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(false),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Some(false),
        Err(_) => None,
    }
}

fn users(process: u32) -> Option<Vec<u32>> {
    let status = text_of(process, "status");
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users
        .split_whitespace()
        .map(|user| user.parse().ok())
        .collect()
}

fn namespace() -> Vec<u8> {
    let boot = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    [&boot, namespace.as_os_str().as_bytes()].concat()
}

fn open_folder(folder: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
        .open(folder)
}
