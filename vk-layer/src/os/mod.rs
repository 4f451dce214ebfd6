//! The operating system: the only module with calls of its own.
//!
//! ```text
//!   process     the executable, its arguments and rights, the error output, the end      environment  variables
//!   modules     files of code: whose an address is, how many were unloaded, the stack    settings_files  where they lie
//!   state_file  a file that is mapped, and that one process has                          forks and signals, on Unix
//! ```

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub(crate) use system::{
    MAX_PATH, PATH_LIST_SEPARATOR, StateFile, THREADS_END_FIRST, admit_file_size, anonymous_bytes, at_exit, c_library,
    coarse_nanoseconds, command_line, detach, each_variable, executable, file_name, find_settings, handle_signal,
    is_loader, is_privileged, is_trusted, path_of, stay_loaded, unloads, variable, watch_forks, write_to_error_output,
};
