//! Whose a folder of this program is.
//!
//! Its process has provably ended where the folder is this user's alone, its note names this boot and PID namespace, no
//! process has it locked (its own does, until it ends), and no process that may have been started with it is alive.

#![forbid(unsafe_code)]

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

use super::processes::{mapped, processes, started, text_of};
use crate::os::run_folder::has_living_state;

/// Written when the folder is locked: without it a folder is not looked at.
const NOTE: &str = "run";
const INACCURACY: Duration = Duration::from_secs(2);

/// Locks a new folder for this process.
pub(crate) fn hold(folder: &Path) -> io::Result<File> {
    let held = open_folder(folder)?;
    flock(&held, FlockOperation::LockExclusive)?;
    fs::write(folder.join(NOTE), namespace())?;
    Ok(held)
}

pub(crate) fn remove_if_stale(folder: &Path) {
    if let Some(_held) = stale(folder) {
        // Locked, so that no other process removes it as well. What cannot be removed is tried again by the next one.
        let _ = fs::remove_dir_all(folder);
    }
}

/// The layer has the state file of a living process locked.
pub(crate) fn is_locked(file: &Path) -> bool {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(file);
    file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
}

/// Returns the folder's lock if its process has ended.
fn stale(folder: &Path) -> Option<File> {
    let held = open_folder(folder).ok()?;
    let metadata = held.metadata().ok()?;
    let user = geteuid().as_raw();
    let is_ours = metadata.uid() == user && metadata.mode() & 0o077 == 0;
    if !is_ours || flock(&held, FlockOperation::NonBlockingLockExclusive).is_err() {
        return None;
    }
    let is_same_place = fs::read(folder.join(NOTE)).ok()? == namespace();
    let is_used = has_living_state(folder) || processes().any(|process| may_use(process, folder, &metadata, user));
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

fn names_folder(process: u32, folder: &Path) -> Option<bool> {
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
    users.split_whitespace().map(|user| user.parse().ok()).collect()
}

fn namespace() -> Vec<u8> {
    let boot = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    [&boot, namespace.as_os_str().as_bytes()].concat()
}

/// A process counts if it was started with the folder in its environment, or has a state file in it.
pub(crate) fn processes_of(folder: &Path) -> Vec<u32> {
    let has_state = has_living_state(folder);
    let maps_state = |process| has_state && mapped(process).iter().any(|file| file.path.starts_with(folder));
    let others = processes().filter(|process| *process != process::id());
    others.filter(|process| names_folder(*process, folder).unwrap_or(false) || maps_state(*process)).collect()
}

fn open_folder(folder: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(folder)
}
