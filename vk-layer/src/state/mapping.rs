//! The file of the state, mapped.

use std::ffi::CStr;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use alloc_core::TryString;
use vk_accounts::state_file::{LENGTH, WORDS};

use crate::record::own;

/// The words of a state file.
pub(super) type Words = [AtomicU64; WORDS];

/// Creates the file, for this user alone, and maps it for as long as the process lives. What an earlier process with this name left is
/// removed; anything but a plain file stays, and is an error. No link is followed, and no folder made.
pub(super) fn create(name: &str) -> io::Result<NonNull<Words>> {
    match std::fs::symlink_metadata(name) {
        Ok(earlier) if earlier.is_file() => std::fs::remove_file(name)?,
        _ => (),
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
    let mapped = map(file);
    // SAFETY: opened above; a mapping stays without it.
    unsafe { libc::close(file) };
    if mapped.is_err() {
        // SAFETY: a name that ends with 0.
        unsafe { libc::unlink(name.as_ptr()) };
    }
    mapped
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
