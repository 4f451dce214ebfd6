//! A child process with a time limit.

#![forbid(unsafe_code)]

use std::process::{Command, Output};
use std::time::Duration;

use super::{CoverageError, failed};
use crate::signals::{HeldSignals, HelperError};

/// Runs `command` to its end and returns its output; after the limit it is killed, and until then the step is called.
///
/// # Errors
/// [`CoverageError::Overtime`], [`CoverageError::Interrupted`], or that it could not be run.
pub(super) fn run(
    command: &mut Command,
    limit: (Duration, &dyn Fn()),
    signals: &mut HeldSignals,
) -> Result<Output, CoverageError> {
    let done = signals.output(command, Some(limit));
    done.map_err(|error| match error {
        HelperError::Io(error) => failed(error),
        HelperError::Interrupted(signal) => CoverageError::Interrupted { signal },
        HelperError::Overtime => CoverageError::Overtime {
            seconds: limit.0.as_secs_f64().ceil() as u64,
        },
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::signals::ChildKind;

    fn limited(command: &mut Command, limit: Duration) -> Result<Output, CoverageError> {
        let mut signals = HeldSignals::new(ChildKind::Helper).expect("signals");
        run(command, (limit, &|| {}), &mut signals)
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_child_that_hangs_is_killed_and_said_to_be() {
        let began = Instant::now();
        // What it started holds on to its output.
        let hung = limited(
            &mut shell("echo begun; sleep 30 & exec sleep 30"),
            Duration::from_millis(200),
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
        let done = limited(
            &mut shell("yes line | head -n 100000; echo why >&2; exit 3"),
            Duration::from_secs(60),
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
        let none = limited(
            &mut Command::new("/nonexistent/program"),
            Duration::from_secs(60),
        );
        assert!(
            matches!(none, Err(CoverageError::Failed { .. })),
            "{none:?}"
        );
    }
}
