mod environment;
mod modules;
mod process;
mod settings_files;
mod state_file;
#[cfg(test)]
mod tests;
mod text;

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

use crate::request::Signal;

pub(crate) use environment::{each_variable, variable};
pub(crate) use modules::{c_library, file_name, is_loader, path_of, stay_loaded, unloads};
pub(crate) use process::{
    MAX_PATH, anonymous_bytes, at_exit, coarse_nanoseconds, command_line, executable, write_to_error_output,
};
pub(crate) use settings_files::{find_settings, is_trusted};
pub(crate) use state_file::StateFile;

pub(crate) const PATH_LIST_SEPARATOR: char = ';';
/// Before a library's handlers of the exit run.
pub(crate) const THREADS_END_FIRST: bool = true;

/// There is no set-uid: a process with more rights has the environment of the user whose rights they are.
pub(crate) const fn is_privileged() -> bool {
    false
}

/// There is no limit but the disk's, which a write reports.
pub(crate) const fn admit_file_size(_: usize) -> io::Result<()> {
    Ok(())
}

/// Nothing forks.
pub(crate) const fn watch_forks(_: extern "C" fn()) -> bool {
    true
}

/// Nothing forks.
pub(crate) const fn detach(_: NonNull<c_void>, _: usize) {}

/// # Errors
/// There are no signals by which a process asks another one.
pub(crate) const fn handle_signal(_: Signal, _: extern "C" fn(i32)) -> Result<(), &'static str> {
    Err("is no signal of Windows")
}
