use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use vk_report::files::FilePlace;
use vk_report::state_file::{LENGTH, LENGTH_WITH_STACKS, WORDS};

use crate::file_limit;

pub(super) type Words = [AtomicU64; WORDS];

const BEGINNING: &[u8] = b"STEWARD";

#[derive(Clone, Copy, Debug)]
pub(super) struct MappedState {
    pub(super) words: NonNull<Words>,
    pub(super) length: usize,
}

/// Maps the file for as long as the process lives: with stacks, unless there is no room for them. A state file that an earlier process
/// left is removed. A file that a living process writes, and any other file, is an error and stays.
pub(super) fn create(name: &str, stacks: bool) -> io::Result<MappedState> {
    file_limit::admit(LENGTH)?;
    let place = FilePlace::find(Path::new(name))?;
    if place.is_there() {
        remove_earlier(&place, place.open()?)?;
    }
    let file = place.create_new()?;
    // The mapping keeps the lock until the process ends, and stays without the descriptor.
    let mapped = lock(&file).and_then(|()| {
        let with_stacks = if stacks {
            file_limit::admit(LENGTH_WITH_STACKS)
                .and_then(|()| map(file.as_raw_fd(), LENGTH_WITH_STACKS))
        } else {
            Err(io::ErrorKind::Unsupported.into())
        };
        with_stacks.or_else(|_| map(file.as_raw_fd(), LENGTH))
    });
    if mapped.is_err() {
        let _ = place.remove();
    }
    mapped
}

/// The file that an earlier process left is locked meanwhile, so that no other process removes it as well.
///
/// # Errors
/// [`ResourceBusy`](io::ErrorKind::ResourceBusy): a living process writes it. [`AlreadyExists`](io::ErrorKind::AlreadyExists): it is no
/// state file.
fn remove_earlier(place: &FilePlace, mut file: File) -> io::Result<()> {
    lock(&file)?;
    // Otherwise another process has replaced it meanwhile, and the locked file has no name.
    if !place.is_of(&file) {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    if file.metadata()?.len() != 0 {
        let mut beginning = [0; BEGINNING.len()];
        let read = file.read_exact(&mut beginning);
        if read.is_err() || beginning != BEGINNING {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
    }
    place.remove()
}

/// Locks the file until this process neither has it open nor mapped. Succeeds on a file system without locks.
fn lock(file: &File) -> io::Result<()> {
    // SAFETY: an open file.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::ErrorKind::ResourceBusy.into())
        }
        _ => Ok(()),
    }
}

fn map(file: libc::c_int, length: usize) -> io::Result<MappedState> {
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
    let words = NonNull::new(at.cast()).ok_or_else(io::Error::last_os_error)?;
    Ok(MappedState { words, length })
}

/// What follows in the child is the child's alone, and the parent's file stays as it is. All words are 0.
pub(super) fn detach(words: NonNull<Words>, length: usize) {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: takes the place of the mapping of `map`, which stays mapped: every word may have any value.
    unsafe { libc::mmap(words.as_ptr().cast(), length, access, flags, -1, 0) };
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::ErrorKind;
    use std::path::Path;

    use vk_report::files::FilePlace;

    use super::{create, lock, remove_earlier};

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
        let error = create(name, false).expect_err("it is in use");
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
        drop(living);
        create(name, false).expect("it was left behind");
        create(name, false).expect_err("this process maps it");
    }
}
