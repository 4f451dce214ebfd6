//! Shows where the host memory of a Vulkan driver goes. See `steward --help`.

use std::env;
use std::io::{self, Write as _};
use std::process::{self, ExitCode};

use vk_report::report::steers;
use vk_steward::cli::Cli;
use vk_steward::program::{self, Outcome};

/// The layer's library. An installed program has it with it.
const LAYER: Option<&[u8]> = vk_steward_embed::shared_library!(VkLayer_steward_memory);

/// Exit code 0: success. 1: a check found a difference. 2: an error; a sentence on the error output says what to do.
/// `steward run`: the exit code of its program, or 126 or 127 if that could not be run.
fn main() -> ExitCode {
    program::embed_layer(LAYER);
    let words: Vec<_> = env::args_os().skip(1).collect();
    let child = program::run_as_child(&words);
    let run = || program::run(&Cli::from_command_line(), &mut io::stdout().lock());
    match child.unwrap_or_else(run) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Unexpected) => ExitCode::FAILURE,
        Ok(Outcome::Failed) => ExitCode::from(2),
        // An exit code of Windows has 32 bits.
        Ok(Outcome::Exited(status)) => process::exit(status),
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            error.end_if_interrupted();
            // Lines stay.
            let said = error.to_string().replace(|c| steers(c) && c != '\n', " ");
            // If the error output is closed, the exit code remains.
            let _ = writeln!(io::stderr(), "steward: {said}");
            ExitCode::from(2)
        }
    }
}
