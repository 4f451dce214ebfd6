//! The error output, without the lock of Rust's: in the child of a fork a thread that is gone may hold that for ever.

use std::io;

/// Writes all of it. Nobody is left to hear of an error.
pub(crate) fn write(text: &[u8]) {
    let mut rest = text;
    while !rest.is_empty() {
        // SAFETY: so many bytes that may be read.
        let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(0) => return,
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
