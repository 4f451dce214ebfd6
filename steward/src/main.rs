//! Shows where the host memory of a Vulkan driver goes. See `steward --help`.

use std::io::{self, Write as _};
use std::process::ExitCode;

use vk_steward::cli::Cli;
use vk_steward::program::{self, Outcome};

/// Exit code 0: success. 1: a check found a difference. 2: an error; a sentence on the error output says what to do.
/// `steward run`: the exit code of its program, or 126 or 127 if that could not be run.
fn main() -> ExitCode {
    let cli = Cli::from_command_line();
    // SAFETY: called before the program has a second thread. The program cannot check the threads of installed drivers: the user who installed
    // them vouches for them (`drivers::list`).
    match unsafe { program::run(&cli, &mut io::stdout().lock()) } {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Unexpected) => ExitCode::FAILURE,
        Ok(Outcome::Failed) => ExitCode::from(2),
        Ok(Outcome::Exited(status)) => ExitCode::from(status),
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            error.end_if_interrupted();
            // If the error output is closed, the exit code remains.
            let _ = writeln!(io::stderr(), "steward: {error}");
            ExitCode::from(2)
        }
    }
}
