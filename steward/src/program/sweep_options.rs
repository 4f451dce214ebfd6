//! The options that mean nothing beside `--fail=each`.

#![forbid(unsafe_code)]

use super::ProgramError;
use crate::cli::{Cli, Command};

/// Refuses options that a sweep would ignore.
pub(super) fn check(cli: &Cli) -> Result<(), ProgramError> {
    let of_all = [
        ("--html", cli.output.html.is_some()),
        ("--findings", cli.output.findings),
    ];
    let of_command = match &cli.command {
        Some(Command::Run(options)) => vec![
            ("--expect", options.expect.is_some()),
            ("--write-expect", options.write_expect.is_some()),
            ("--record", options.record.is_some()),
            ("--meter", options.meter),
            ("--stacks", options.stacks),
        ],
        Some(Command::Drive(options)) => vec![
            ("--record", options.record.is_some()),
            (
                "--driver all",
                options.driver.as_deref().is_some_and(super::is_all),
            ),
        ],
        _ => Vec::new(),
    };
    let named = of_all
        .into_iter()
        .chain(of_command)
        .find(|(_, is_set)| *is_set);
    match named {
        Some((option, _)) => Err(ProgramError::NotInSweep { option }),
        None => Ok(()),
    }
}
