//! Files and pipes.

use std::fs::{self, Metadata};
use std::io::{self, PipeReader, Read as _};
use std::os::windows::fs::MetadataExt as _;
pub(crate) use std::os::windows::io::AsHandle as Stream;
use std::os::windows::io::AsRawHandle as _;
use std::path::Path;
use std::ptr;

use tempfile::TempDir;
use windows_sys::Win32::System::Console::{ENABLE_VIRTUAL_TERMINAL_PROCESSING, GetConsoleMode, SetConsoleMode};
use windows_sys::Win32::System::Pipes::PeekNamedPipe;

/// Between the entries of the loader's lists.
pub(crate) const LIST_SEPARATOR: &str = ";";
pub(crate) const FALLBACK_FOLDER: &str = r"C:\Windows\Temp";

/// A new folder has the rights of the one around it, which is a user's own.
pub(crate) fn private_folder(prefix: &str, parent: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(prefix).tempdir_in(parent)
}

/// A console takes escape sequences once it is told to, from Windows 10 on. What is no console takes them.
pub(crate) fn takes_escapes(output: &impl Stream) -> bool {
    let output = output.as_handle().as_raw_handle();
    let mut mode = 0;
    // SAFETY: an open handle, and a place for the mode.
    if unsafe { GetConsoleMode(output, &raw mut mode) } == 0 {
        return true;
    }
    let mode = mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING;
    // SAFETY: the handle of a console, and its own mode with one bit more.
    unsafe { SetConsoleMode(output, mode) != 0 }
}

/// Another one where a file is written anew.
pub(crate) fn identity(file: &Metadata) -> u64 {
    file.creation_time()
}

/// The same library under another name. A link needs rights that users lack.
pub(crate) fn link(library: &Path, name: &Path) -> io::Result<()> {
    fs::copy(library, name).map(drop)
}

pub(crate) fn pipe() -> io::Result<(PipeReader, io::PipeWriter)> {
    io::pipe()
}

/// Adds what the pipe has now, at most this many bytes.
pub(crate) fn read_available(output: &PipeReader, at_once: u64, bytes: &mut Vec<u8>) {
    let mut available = 0;
    // SAFETY: an open pipe, and a place for the number alone.
    unsafe {
        PeekNamedPipe(output.as_raw_handle(), ptr::null_mut(), 0, ptr::null_mut(), &raw mut available, ptr::null_mut())
    };
    // Without a writer there is an error, and nothing more comes.
    let _ = { output }.take(at_once.min(available.into())).read_to_end(bytes);
}
