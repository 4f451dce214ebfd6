//! The error output, without the lock of Rust's standard library, which in the child of a fork may stay locked for ever.

use std::io;

/// An error is ignored: it cannot be reported.
pub(crate) fn write(text: &[u8]) {
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
