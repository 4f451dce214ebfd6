//! Runs this program as a child that helps, and keeps its output.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use super::{ChildKind, HeldSignals};

/// Why there is no output.
#[derive(Debug)]
pub(crate) enum HelperError {
    Io(io::Error),
    /// This signal came meanwhile; the helper has ended.
    Interrupted(i32),
    /// It was killed after the time limit.
    Overtime,
}

impl From<io::Error> for HelperError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Runs the helper to its end, or to the time limit, with `step` called repeatedly.
///
/// Its output goes to files without a name: a full pipe would stop it, and a process that it started and that outlives it would hold the
/// pipe open.
pub(crate) fn output(
    command: &mut Command,
    limit: Option<(Duration, &dyn Fn())>,
) -> Result<Output, HelperError> {
    let stdio = |file: &File| file.try_clone().map(Stdio::from);
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let command = command.stdin(Stdio::null()).stdout(stdio(&stdout)?);
    command.stderr(stdio(&stderr)?);
    let mut held = HeldSignals::new(ChildKind::Helper)?;
    let mut child = held.spawn(command)?;
    let status = held.wait(&mut child, limit)?;
    if let Some(signal) = held.last() {
        return Err(HelperError::Interrupted(signal));
    }
    Ok(Output {
        status: status.ok_or(HelperError::Overtime)?,
        stdout: all(&mut stdout)?,
        stderr: all(&mut stderr)?,
    })
}

/// Runs the helper to its end. What it writes to its output goes to the error output, since the output is for this process's report.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus, HelperError> {
    command.stdin(Stdio::null()).stdout(io::stderr());
    let mut held = HeldSignals::new(ChildKind::Helper)?;
    let mut child = held.spawn(command)?;
    let status = held.wait(&mut child, None)?;
    match held.last() {
        Some(signal) => Err(HelperError::Interrupted(signal)),
        None => status.ok_or(HelperError::Overtime),
    }
}

/// All that the helper wrote: it shares the file position with this process.
fn all(file: &mut File) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
