//! Runs this program as a child that helps, and keeps its output.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use super::{HeldSignals, start_bound};

/// Whether a child has handlers of its own, which must run once for each signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildKind {
    /// A program of the user.
    Program,
    /// This program, which ends by the first of these signals, unless it is ignored.
    Helper,
}

#[derive(Debug)]
pub(crate) enum HelperError {
    Io(io::Error),
    /// This signal came meanwhile; the helper has ended.
    Interrupted(i32),
    Overtime,
}

impl From<io::Error> for HelperError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl HeldSignals {
    /// The helper ends with this process. Its output goes to files without a name: a full pipe would stop it,
    /// and a process that it started and that outlives it would hold the pipe open.
    pub(crate) fn output(
        &mut self,
        command: &mut Command,
        limit: Option<(Duration, &dyn Fn())>,
    ) -> Result<Output, HelperError> {
        let stdio = |file: &File| file.try_clone().map(Stdio::from);
        let (mut stdout, mut stderr) = (unnamed_file()?, unnamed_file()?);
        command.stdout(stdio(&stdout)?).stderr(stdio(&stderr)?);
        let status = self.run(command, limit)?;
        Ok(Output { status, stdout: all(&mut stdout)?, stderr: all(&mut stderr)? })
    }

    /// The helper ends with this process. What it writes to its output goes to the error output, since the output is
    /// for this process's report.
    pub(crate) fn status(&mut self, command: &mut Command) -> Result<ExitStatus, HelperError> {
        self.run(command.stdout(io::stderr()), None)
    }

    fn run(&mut self, command: &mut Command, limit: Option<(Duration, &dyn Fn())>) -> Result<ExitStatus, HelperError> {
        self.interrupted()?;
        let mut child = start_bound(command.stdin(Stdio::null()), |command| self.spawn(command))?;
        let status = self.wait(&mut child, limit)?;
        self.interrupted()?;
        status.ok_or(HelperError::Overtime)
    }
}

/// Signals do what they do meanwhile, and `step` is called repeatedly. After the limit the child is killed, and the
/// result is `None`.
pub(crate) fn wait_briefly(
    child: &mut Child,
    limit: Duration,
    step: &mut dyn FnMut(),
) -> io::Result<Option<ExitStatus>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        step();
        if began.elapsed() >= limit {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // Refused if it has ended by itself meanwhile.
    let _ = child.kill();
    child.wait()?;
    Ok(None)
}

/// A file without a name, in `TMPDIR`, or in `/tmp` where that refuses one.
fn unnamed_file() -> io::Result<File> {
    tempfile::tempfile().or_else(|error| tempfile::tempfile_in("/tmp").map_err(|_| error))
}

/// All that the helper wrote: it shares the file position with this process.
fn all(file: &mut File) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
