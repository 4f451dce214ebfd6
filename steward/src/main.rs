//! Shows where the host memory of a Vulkan driver goes. See `steward --help`.

use std::io::{self, Write as _};
use std::process::ExitCode;

use vk_steward::cli::Cli;
use vk_steward::program::{self, Outcome};

/// 0: it ran. 1: a check found what is not as expected. 2: it could not run, and a sentence on the error output says what to do.
/// `steward run`: as the program that it ran, or 126 or 127 where that could not be run.
fn main() -> ExitCode {
    let cli = Cli::from_command_line();
    // SAFETY: the first thing `main` does, before the program has a second thread. For threads that a driver keeps, whoever
    // installed it must vouch: the program cannot (`drivers::list`).
    match unsafe { program::run(&cli, &mut io::stdout().lock()) } {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Unexpected) => ExitCode::FAILURE,
        Ok(Outcome::Failed) => ExitCode::from(2),
        Ok(Outcome::Exited(status)) => ExitCode::from(status),
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            // Where nobody listens the exit code says it.
            let _ = writeln!(io::stderr(), "steward: {error}");
            ExitCode::from(2)
        }
    }
}
