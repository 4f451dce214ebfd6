mod environment;
mod exit;
mod fork;
mod memory;
mod modules;
mod process;
mod settings_files;
mod signals;
mod state_file;

pub(crate) use environment::{each_variable, variable};
pub(crate) use exit::at_exit;
pub(crate) use fork::watch_forks;
pub(crate) use memory::anonymous_bytes;
pub(crate) use modules::{c_library, file_name, is_loader, path_of, stay_loaded, unloads};
pub(crate) use process::{
    MAX_PATH, admit_file_size, coarse_nanoseconds, command_line, executable, is_privileged, write_to_error_output,
};
pub(crate) use settings_files::find_settings;
pub(crate) use signals::handle_signal;
pub(crate) use state_file::{StateFile, detach};

pub(crate) const PATH_LIST_SEPARATOR: char = ':';
pub(crate) const THREADS_END_FIRST: bool = false;

/// A process with more rights reads no variable at all.
#[expect(clippy::unnecessary_wraps, reason = "other systems ask for memory")]
pub(crate) const fn is_trusted(_: &str) -> Result<bool, alloc_core::HostError> {
    Ok(true)
}
