//! Locks of files that other processes see, until the file is closed or its process ends.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// Waits for other processes.
pub(super) fn lock(file: &File) -> io::Result<()> {
    flock(file, libc::LOCK_EX)
}

/// Fails if another process has the file locked.
pub(super) fn try_lock(file: &File) -> io::Result<()> {
    flock(file, libc::LOCK_EX | libc::LOCK_NB)
}

fn flock(file: &File, how: i32) -> io::Result<()> {
    // SAFETY: an open file.
    match unsafe { libc::flock(file.as_raw_fd(), how) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(super) fn user() -> u32 {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() }
}
