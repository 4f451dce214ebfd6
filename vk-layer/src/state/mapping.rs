//! The file of the state, mapped.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use alloc_core::TryString;
use vk_accounts::state_file::{LENGTH, WORDS};

use crate::file_limit;
use crate::record::own;

/// The words of a state file.
pub(super) type Words = [AtomicU64; WORDS];

/// Creates the file, for this user alone, and maps it for as long as the process lives. A file that an earlier process left is removed. A
/// file that a living process writes, or anything but a plain file, is an error and stays. Follows no link and creates no folder.
pub(super) fn create(name: &str) -> io::Result<NonNull<Words>> {
    file_limit::admit(LENGTH)?;
    if let Some(earlier) = earlier(name)? {
        std::fs::remove_file(name)?;
        // Locked until here, so that no other process removes it as well.
        drop(earlier);
    }
    let mut ended = TryString::new_in(own());
    ended
        .try_push_str(name)
        .and_then(|()| ended.try_push('\0'))
        .map_err(|_| io::ErrorKind::OutOfMemory)?;
    let name =
        CStr::from_bytes_with_nul(ended.as_bytes()).map_err(|_| io::ErrorKind::InvalidFilename)?;
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: a name that ends with 0.
    let file = unsafe { libc::open(name.as_ptr(), flags, 0o600) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // The mapping keeps the lock until the process ends.
    let mapped = lock(file).and_then(|()| map(file));
    // SAFETY: opened above; a mapping stays without it.
    unsafe { libc::close(file) };
    if mapped.is_err() {
        // SAFETY: a name that ends with 0.
        unsafe { libc::unlink(name.as_ptr()) };
    }
    mapped
}

/// The plain file with this name, locked, unless there is none.
///
/// # Errors
/// [`ResourceBusy`](io::ErrorKind::ResourceBusy): a living process writes it.
fn earlier(name: &str) -> io::Result<Option<File>> {
    let is_plain = std::fs::symlink_metadata(name).is_ok_and(|there| there.is_file());
    if !is_plain {
        return Ok(None);
    }
    // If it is a pipe by now, the open does not wait for a writer.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(name)?;
    lock(file.as_raw_fd())?;
    // Otherwise another process has replaced it meanwhile, and the locked file has no name.
    let (ours, there) = (file.metadata()?, std::fs::symlink_metadata(name)?);
    if (ours.dev(), ours.ino()) == (there.dev(), there.ino()) {
        Ok(Some(file))
    } else {
        Err(io::ErrorKind::ResourceBusy.into())
    }
}

/// Locks the file until this process neither has it open nor mapped. Succeeds on a file system without locks.
fn lock(file: libc::c_int) -> io::Result<()> {
    // SAFETY: an open file.
    if unsafe { libc::flock(file, libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::ErrorKind::ResourceBusy.into())
        }
        _ => Ok(()),
    }
}

fn map(file: libc::c_int) -> io::Result<NonNull<Words>> {
    // A file with holes would end the process at the first store for which the disk has no room.
    // SAFETY: an open file, and lengths.
    let error = unsafe { libc::posix_fallocate(file, 0, LENGTH as libc::off_t) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, wherever the kernel has room for it.
    let at = unsafe { libc::mmap(ptr::null_mut(), LENGTH, access, libc::MAP_SHARED, file, 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(at.cast()).ok_or_else(io::Error::last_os_error)
}
