use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr::{self, NonNull};

use vk_report::files::FilePlace;

use crate::state::admit_state_file;

/// A new file that no other process has, until this one neither has it open nor mapped.
pub(crate) struct StateFile {
    file: File,
    place: FilePlace,
}

impl StateFile {
    /// A state file that an earlier process left, is removed. A file that a living process writes, and any other file,
    /// is an error and stays.
    ///
    /// # Errors
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy): a living process writes it.
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists): it is no state file.
    pub(crate) fn create(name: &str) -> io::Result<Self> {
        let place = FilePlace::find(Path::new(name))?;
        if place.is_there() {
            remove_earlier(&place, place.open()?)?;
        }
        let file = place.create_new()?;
        let new = Self { file, place };
        match lock(&new.file) {
            Ok(()) => Ok(new),
            Err(error) => {
                new.discard();
                Err(error)
            }
        }
    }

    /// The mapping stays as long as the process lives, and keeps the lock. A second one must not be longer, nor the
    /// first be used any more.
    pub(crate) fn map(&self, length: usize) -> io::Result<NonNull<c_void>> {
        let file = self.file.as_raw_fd();
        // Cut off what an attempt with another length has left.
        // SAFETY: an open file, and a length.
        if unsafe { libc::ftruncate(file, length as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // A file with holes would end the process at the first store for which the disk has no room.
        // SAFETY: an open file, and lengths.
        let error = unsafe { libc::posix_fallocate(file, 0, length as libc::off_t) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, wherever the kernel has room for it.
        let at = unsafe { libc::mmap(ptr::null_mut(), length, access, libc::MAP_SHARED, file, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(at).ok_or_else(io::Error::last_os_error)
    }

    /// The mapping stays without the descriptor.
    pub(crate) fn keep(self) {}

    pub(crate) fn discard(self) {
        let _ = self.place.remove();
    }
}

/// The file that an earlier process left is locked meanwhile, so that no other process removes it as well.
fn remove_earlier(place: &FilePlace, mut file: File) -> io::Result<()> {
    lock(&file)?;
    // Otherwise another process has replaced it meanwhile, and the locked file has no name.
    if !place.is_of(&file) {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    admit_state_file(&mut file)?;
    place.remove()
}

/// Locks the file until this process neither has it open nor mapped. Succeeds on a file system without locks.
fn lock(file: &File) -> io::Result<()> {
    // SAFETY: an open file.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::ResourceBusy.into()),
        _ => Ok(()),
    }
}

/// What follows in the child of a fork is the child's alone, and the parent's file stays as it is. All bytes are 0.
pub(crate) fn detach(mapping: NonNull<c_void>, length: usize) {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: takes the place of the mapping of `StateFile::map`, which stays mapped: every byte may have any value.
    unsafe { libc::mmap(mapping.as_ptr(), length, access, flags, -1, 0) };
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::ErrorKind;
    use std::path::Path;

    use vk_report::files::FilePlace;

    use super::{StateFile, lock, remove_earlier};

    #[test]
    fn ly82_a_state_that_another_process_has_put_there_meanwhile_is_not_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let (name, new) = (at("state"), at("new"));
        fs::write(&name, "STEWARD of an earlier process").expect("a file");
        let place = FilePlace::find(Path::new(&name)).expect("a folder");
        let earlier = place.open().expect("a file");
        fs::write(&new, "STEWARD of a living process").expect("a file");
        fs::rename(&new, &name).expect("the same folder");
        let error = remove_earlier(&place, earlier).expect_err("it is another file");
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        let left = fs::read_to_string(&name).expect("a file");
        assert_eq!(left, "STEWARD of a living process");
        let living = File::open(&name).expect("a file");
        lock(&living).expect("nobody has it");
        let name = name.to_str().expect("text");
        let create = || StateFile::create(name);
        let error = create().map(drop).expect_err("it is in use");
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        drop(living);
        let file = create().expect("it was left behind");
        file.map(4096).expect("room");
        file.keep();
        create().map(drop).expect_err("this process maps it");
    }
}
