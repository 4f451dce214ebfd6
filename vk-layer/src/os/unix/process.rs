use std::ffi::CStr;
use std::fs::File;
use std::io;

use alloc_core::{HostError, TryVec};

use crate::record::{Own, own, read_to_end};

/// `PATH_MAX` of Linux.
pub(crate) const MAX_PATH: usize = 4096;

/// The answer has no folders, and is empty where the name is unknown.
pub(crate) fn executable(buffer: &mut [u8; MAX_PATH]) -> &[u8] {
    let link: &CStr = c"/proc/self/exe";
    let room = buffer.len();
    // SAFETY: a path that ends with 0, and a buffer of this length.
    let length = unsafe { libc::readlink(link.as_ptr(), buffer.as_mut_ptr().cast(), room) };
    let path = usize::try_from(length).ok().and_then(|length| buffer.get(..length));
    let name = path.and_then(|path| path.rsplit(|byte| *byte == b'/').next());
    name.unwrap_or_default()
}

/// A 0 ends each argument.
pub(crate) fn command_line() -> Result<TryVec<u8, Own>, HostError> {
    File::open("/proc/self/cmdline").map_or(Ok(TryVec::new_in(own())), read_to_end)
}

/// Set-uid, set-gid or file capabilities: who started the process has fewer rights than it.
pub(crate) fn is_privileged() -> bool {
    // SAFETY: reads the kernel's auxiliary vector; any index is allowed.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Beyond the process's limit of file sizes `SIGXFSZ` ends the process: so the limit is checked before a write.
pub(crate) fn admit_file_size(bytes: usize) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: room for the limit, which stays as it is where the call fails.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    if bytes as u64 > limit.rlim_cur {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    Ok(())
}

/// Without the lock of Rust's standard library, which in the child of a fork may stay locked for ever. An error is
/// ignored: it cannot be reported.
pub(crate) fn write_to_error_output(text: &[u8]) {
    let mut rest = text;
    while !rest.is_empty() {
        // SAFETY: `rest.len()` bytes that may be read.
        let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(0) => return,
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

pub(crate) fn coarse_nanoseconds() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}
