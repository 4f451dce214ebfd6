//! A child process with a time limit.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::child::failed;
use super::{CoverageError, unwritable};

/// The pause between two looks at the child: a wait with a limit would need a signal handler.
const PAUSE: Duration = Duration::from_millis(2);

/// Waits for the end of `child` and calls `step` repeatedly meanwhile. Returns `None` if the child was killed after `limit`.
///
/// # Errors
/// What the operating system said.
pub fn wait(child: &mut Child, limit: Duration, step: &dyn Fn()) -> io::Result<Option<ExitStatus>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() >= limit {
            // Refused where it has ended by itself meanwhile: waiting for it is what matters.
            let _ = child.kill();
            child.wait()?;
            return Ok(None);
        }
        step();
        thread::sleep(PAUSE);
    }
}

/// Runs `command` to its end and returns its output; after `limit` it is killed.
///
/// Its output goes to files without a name: a full pipe would stop it, and a process that it started and that outlives it would hold the
/// pipe open.
///
/// # Errors
/// [`CoverageError::Overtime`], or that it could not be run.
pub(super) fn run(
    command: &mut Command,
    limit: Duration,
    step: &dyn Fn(),
) -> Result<Output, CoverageError> {
    let file = || tempfile::tempfile().map_err(unwritable);
    let stdio = |file: &File| file.try_clone().map(Stdio::from).map_err(unwritable);
    let (mut stdout, mut stderr) = (file()?, file()?);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(stdio(&stdout)?)
        .stderr(stdio(&stderr)?)
        .spawn()
        .map_err(failed)?;
    let status = wait(&mut child, limit, step).map_err(failed)?;
    Ok(Output {
        status: status.ok_or_else(|| CoverageError::Overtime {
            seconds: limit.as_secs_f64().ceil() as u64,
        })?,
        stdout: all(&mut stdout).map_err(failed)?,
        stderr: all(&mut stderr).map_err(failed)?,
    })
}

/// All that the child wrote: it shares the file position with this process.
fn all(file: &mut File) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_child_that_hangs_is_killed_and_said_to_be() {
        let began = Instant::now();
        // What it started holds on to its output.
        let hung = run(
            &mut shell("echo begun; sleep 30 & exec sleep 30"),
            Duration::from_millis(200),
            &|| {},
        );
        assert_eq!(
            hung.expect_err("it hangs"),
            CoverageError::Overtime { seconds: 1 }
        );
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{:?}",
            began.elapsed()
        );
        let words = CoverageError::Overtime { seconds: 60 }.to_string();
        assert!(
            words.contains("60 s") && words.contains("--no-coverage"),
            "{words}"
        );
    }

    #[test]
    fn what_a_child_says_is_kept_however_much_it_is() {
        let done = run(
            &mut shell("yes line | head -n 100000; echo why >&2; exit 3"),
            Duration::from_secs(60),
            &|| {},
        )
        .expect("it ends");
        assert_eq!(
            (
                done.stdout.len(),
                done.stderr.as_slice(),
                done.status.code()
            ),
            (500_000, b"why\n".as_slice(), Some(3))
        );
        let none = run(
            &mut Command::new("/nonexistent/program"),
            Duration::from_secs(60),
            &|| {},
        );
        assert!(
            matches!(none, Err(CoverageError::Failed { .. })),
            "{none:?}"
        );
    }
}
