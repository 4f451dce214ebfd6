use std::ffi::c_void;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt as _;
use std::os::windows::io::{AsRawHandle as _, IntoRawHandle as _};
use std::path::Path;
use std::ptr::{self, NonNull};

use windows_sys::Win32::Foundation::{CloseHandle, ERROR_LOCK_VIOLATION};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_SHARE_READ, FILE_SHARE_WRITE, LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx,
};
use windows_sys::Win32::System::IO::{OVERLAPPED, OVERLAPPED_0, OVERLAPPED_0_0};
use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_READ, FILE_MAP_WRITE, MapViewOfFile, PAGE_READWRITE,
};

use crate::state::admit_state_file;

/// Behind the end of every file, so that the lock keeps nobody from reading the numbers, or from writing a request.
const LOCKED_BYTE: OVERLAPPED_0_0 = OVERLAPPED_0_0 { Offset: 0, OffsetHigh: 1 << 30 };

/// A file that no other process has as its own, until this one ends. While it is open nobody can remove or rename it.
pub(crate) struct StateFile<'n> {
    file: File,
    name: &'n str,
}

impl<'n> StateFile<'n> {
    /// A state file that an earlier process left is taken over. A file that a living process writes, and any other
    /// file, is an error and stays.
    ///
    /// # Errors
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy): a living process writes it.
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists): it is no state file.
    /// [`InvalidInput`](io::ErrorKind::InvalidInput): it is no plain file.
    pub(crate) fn create(name: &'n str) -> io::Result<Self> {
        if Path::new(name).metadata().is_ok_and(|file| !file.is_file()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE);
        let mut file = options.open(name)?;
        lock(&file)?;
        admit_state_file(&mut file)?;
        Ok(Self { file, name })
    }

    /// The mapping stays as long as the process lives. A second one must come after an error of the first.
    pub(crate) fn map(&self, length: usize) -> io::Result<NonNull<c_void>> {
        // What an earlier process, or an attempt with another length, has left.
        self.file.set_len(0)?;
        let bytes = length as u64;
        // SAFETY: an open file, which grows to so many bytes, all 0.
        let mapping = unsafe {
            CreateFileMappingW(
                self.file.as_raw_handle(),
                ptr::null(),
                PAGE_READWRITE,
                (bytes >> 32) as u32,
                bytes as u32,
                ptr::null(),
            )
        };
        if mapping.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the whole mapping, wherever the system has room for it.
        let at = unsafe { MapViewOfFile(mapping, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, length) };
        let mapped = NonNull::new(at.Value).ok_or_else(io::Error::last_os_error);
        // SAFETY: made above, and closed once; the view stays.
        unsafe { CloseHandle(mapping) };
        mapped
    }

    /// The lock ends with the handle.
    pub(crate) fn keep(self) {
        let _ = self.file.into_raw_handle();
    }

    pub(crate) fn discard(self) {
        drop(self.file);
        let _ = fs::remove_file(self.name);
    }
}

/// Succeeds on a file system without locks.
fn lock(file: &File) -> io::Result<()> {
    let mut place = OVERLAPPED { Anonymous: OVERLAPPED_0 { Anonymous: LOCKED_BYTE }, ..Default::default() };
    let how = LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY;
    // SAFETY: an open file, and a place that is read.
    if unsafe { LockFileEx(file.as_raw_handle(), how, 0, 1, 0, &raw mut place) } != 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(ERROR_LOCK_VIOLATION.cast_signed()) => {
            Err(io::ErrorKind::ResourceBusy.into())
        }
        _ => Ok(()),
    }
}
