//! `steward drive --layer`: runs the workload without callbacks in a child with the layer.

#![forbid(unsafe_code)]

use std::env;
use std::io::{self, Write};
use std::process::Command;
use std::time::Duration;

use super::sweep::{SweepLimits, Swept};
use super::{Wanted, expected, with_layer};
use crate::cli::{Drive, LAYER_CHILD_COMMAND, Output};
use crate::drivers::{self, DriverInfo, Selected};
use crate::program::drive::DriveError;
use crate::program::{Outcome, ProgramError};
use crate::workload::{self, Options};
use serde::{Deserialize, Serialize};
use vk_accounts::NoHooks;
use vk_accounts::guard_run::Guarding;

/// What the child has to do.
#[derive(Serialize, Deserialize)]
struct Job {
    driver: DriverInfo,
    seed: u32,
    rounds: u32,
}

/// The workload takes less than a second.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Runs the workload of `options` on the driver in a child with the layer.
pub(in crate::program) fn drive(
    selected: &Selected,
    options: &Drive,
    seed: u32,
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    let known = options.expect.as_deref().map(expected).transpose()?;
    let wanted = Wanted {
        no_check: options.no_check,
        meter: options.meter,
        expect: known.as_ref(),
        exit_code: options.exit_code,
        needs_report: true,
        ..Wanted::default()
    };
    with_layer(child(selected, options, seed)?, wanted, output, out)
}

/// The same once for each request that is refused.
pub(in crate::program) fn sweep_drive(
    selected: &Selected,
    options: &Drive,
    (seed, guarding, runs): (u32, &Guarding, u64),
    output: &Output,
    out: &mut dyn Write,
) -> Result<Outcome, ProgramError> {
    let wanted = Wanted {
        no_check: options.no_check,
        guarding: *guarding,
        ..Wanted::default()
    };
    let limits = SweepLimits {
        runs,
        time: TIME_LIMIT,
    };
    let swept = Swept {
        command: &|| child(selected, options, seed),
        wanted,
        limits,
    };
    swept.run(output, out)
}

fn child(selected: &Selected, options: &Drive, seed: u32) -> io::Result<Command> {
    let job = Job {
        driver: selected.info().clone(),
        seed,
        rounds: options.rounds,
    };
    // Numbers and names: JSON can express them all.
    let job = serde_json::to_string(&job)?;
    // The environment selects this driver since `drivers::select`.
    let mut command = Command::new(env::current_exe()?);
    command.arg(LAYER_CHILD_COMMAND).arg(job);
    Ok(command)
}

/// The child: the workload once.
pub(in crate::program) fn answer(job: &str) -> Result<Outcome, ProgramError> {
    let job: Job = serde_json::from_str(job).map_err(io::Error::from)?;
    let driver = job.driver.title().to_owned();
    let selected = drivers::through_loader(job.driver)?;
    let options = Options {
        seed: job.seed,
        rounds: job.rounds,
        ..Options::default()
    };
    workload::run(&selected, &NoHooks, &options)
        .map_err(|error| DriveError::Failed(format!("{driver}: {error}")))?;
    Ok(Outcome::Done)
}
