//! A child process that has so much time and no more.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::CoverageError;

/// How often the child is looked at.
const PAUSE: Duration = Duration::from_millis(5);

/// Runs `command` to its end and keeps what it said; after `limit` it is killed.
///
/// What it says goes to files without a name: a pipe that nobody empties would stop it, and a process of its own that outlives it
/// would hold the pipe open.
///
/// # Errors
/// [`CoverageError::Overtime`], or that it could not be run.
pub(super) fn run(
    command: &mut Command,
    limit: Duration,
    step: &dyn Fn(),
) -> Result<Output, CoverageError> {
    let failed = |error: io::Error| CoverageError::Failed {
        reason: error.to_string(),
    };
    let unwritable = |error: io::Error| CoverageError::Unwritable {
        reason: error.to_string(),
    };
    let (mut said, mut complained) = (
        tempfile::tempfile().map_err(unwritable)?,
        tempfile::tempfile().map_err(unwritable)?,
    );
    let [out, err] = [said.try_clone(), complained.try_clone()]
        .map(|file| file.map(Stdio::from).map_err(unwritable));
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out?)
        .stderr(err?)
        .spawn()
        .map_err(failed)?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if began.elapsed() >= limit {
            // It may have ended just now; either way it is waited for.
            let _ = child.kill();
            child.wait().map_err(failed)?;
            return Err(CoverageError::Overtime {
                seconds: limit.as_secs_f64().ceil() as u64,
            });
        }
        step();
        thread::sleep(PAUSE);
    };
    Ok(Output {
        status,
        stdout: all(&mut said).map_err(failed)?,
        stderr: all(&mut complained).map_err(failed)?,
    })
}

/// What the child wrote: it shares the place in the file with us.
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
