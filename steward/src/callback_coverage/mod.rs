//! Callback coverage: the share of a driver's host memory that comes through its callbacks.
//!
//! ```text
//!   ratio = bytes requested of callbacks / (those + heap bytes allocated in commands + heap bytes of threads without commands)
//! ```
//!
//! All are gross: freed memory counts as well. A decorator around the callbacks counts the first term. The meter counts
//! the others ([`meter`]). The child runs the workload as the program does, with the layer's callbacks: once through
//! the loader, whose memory is not distinguished from the driver's there, and once with the driver's library opened
//! directly.
//!
//! ```text
//!   steward --+-- child, meter preloaded: loader -> driver     with_loader
//!             +-- child, meter preloaded: driver               without_loader
//! ```
//!
//! Memory that the library's initialisers allocate when it is opened directly is a separate figure (`opening_bytes`),
//! because no command runs then. Allocators with other names than C's are not counted. Mappings are counted apart,
//! because they include device memory.

mod preload;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

pub use preload::Preload;

use crate::drivers::Selected;
use crate::os::{HeldSignals, HelperError};
use crate::workload_child::{self, Job, Stacks};
pub use vk_report::meter;
use vk_report::report::{Coverage, CoverageRun};

/// Switch off shader caches on disk: with them the first run on a machine would differ from the second.
const DISK_CACHES_OFF: [(&str, &str); 2] = [("MESA_SHADER_CACHE_DISABLE", "true"), ("__GL_SHADER_DISK_CACHE", "0")];

/// Why the ratio could not be measured, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CoverageError {
    /// No meter was built for this platform.
    #[error("the heap cannot be metered here: {reason}")]
    NotBuilt {
        /// Why not.
        reason: String,
    },
    /// The library could not be written to a file.
    #[error(
        "the meter's library cannot be written ({reason}): point TMPDIR to a folder that has room and can be written to"
    )]
    Unwritable {
        /// The error of the operating system.
        reason: String,
    },
    /// The dynamic linker did not load the library.
    #[error("the meter was not loaded: point TMPDIR to a folder that programs may be loaded from (not mounted noexec)")]
    NotLoaded,
    /// The child failed.
    #[error("the run under the meter failed: {reason}")]
    Failed {
        /// Its error output, or how it ended.
        reason: String,
    },
    /// The child did not end in time.
    #[error("the run under the meter was stopped after {seconds} s without an end: --no-coverage leaves it out")]
    Overtime {
        /// The time limit, rounded up.
        seconds: u64,
    },
    /// This process was asked to end meanwhile.
    #[error("the run under the meter was ended by signal {signal}")]
    Interrupted {
        /// The signal.
        signal: i32,
    },
}

/// The time limit of a child is this many times the duration of the same run without a meter, ..
const TIMES: u32 = 20;
/// .. but at least this: the first use of a device may compile much.
const MIN_TIME_LIMIT: Duration = Duration::from_secs(60);

/// `took` is the time of such a run without a meter; it sets the time limit of a child. While a child runs, `step` is
/// called repeatedly. After a signal that ends programs no further child is started, and what was measured means
/// nothing: `signals` has it.
pub(crate) fn measure(
    driver: &Selected,
    (seed, rounds, took): (u32, u32, Duration),
    folder: &Path,
    step: &dyn Fn(u64, &str),
    signals: &mut HeldSignals,
) -> Result<Coverage, CoverageError> {
    let preload = Preload::new_in(folder)?;
    let limit = took.saturating_mul(TIMES).max(MIN_TIME_LIMIT);
    let mut run = |is_direct| {
        let name = if is_direct { "direct" } else { "loader" };
        let folder = folder.join(name);
        fs::create_dir(&folder).map_err(failed)?;
        child(
            &preload,
            Job {
                driver: Selected { is_direct, ..driver.clone() },
                seed,
                rounds,
                is_observed: true,
                check: false,
                records: false,
                stacks: Stacks::None,
                settings: vec![("meter".to_owned(), "true".to_owned())],
                folder,
            },
            (limit, &|| step(rounds.into(), "rounds, again for callback coverage")),
            signals,
        )
    };
    let with_loader = match driver.is_direct {
        false => run(false).map(Some),
        true => Ok(None),
    };
    // Without the loader the run would fail for the same reason.
    let both = with_loader.map(|with_loader| (with_loader, run(true)));
    let (with_loader, without_loader) = both.unwrap_or_else(|error| (None, Err(error)));
    let absent = without_loader.as_ref().err().map(ToString::to_string);
    Ok(Coverage { with_loader, without_loader: without_loader.ok(), absent })
}

fn child(
    preload: &Preload,
    job: Job,
    limit: (Duration, &dyn Fn()),
    signals: &mut HeldSignals,
) -> Result<CoverageRun, CoverageError> {
    let mut command = workload_child::command(&job).map_err(failed)?;
    let command = preload.load_into(&mut command).envs(DISK_CACHES_OFF);
    let done = limited(command, limit, signals)?;
    let answer = workload_child::read(&job.folder).ok_or_else(|| failed(why(&done)))?;
    let coverage = answer.map_err(failed)?.report.callback_coverage;
    let run = coverage.and_then(|coverage| coverage.with_loader);
    run.ok_or(CoverageError::NotLoaded)
}

fn limited(
    command: &mut Command,
    limit: (Duration, &dyn Fn()),
    signals: &mut HeldSignals,
) -> Result<Output, CoverageError> {
    let done = signals.output(command, Some(limit));
    done.map_err(|error| match error {
        HelperError::Io(error) => failed(error),
        HelperError::Interrupted(signal) => CoverageError::Interrupted { signal },
        HelperError::Overtime => CoverageError::Overtime { seconds: limit.0.as_secs_f64().ceil() as u64 },
    })
}

fn failed(error: impl ToString) -> CoverageError {
    CoverageError::Failed { reason: error.to_string() }
}

fn unwritable(error: impl ToString) -> CoverageError {
    CoverageError::Unwritable { reason: error.to_string() }
}

fn why(done: &Output) -> String {
    let said = String::from_utf8_lossy(&done.stderr);
    match said.lines().next_back().map(str::trim) {
        Some(line) if !line.is_empty() => format!("{line} ({})", done.status),
        _ => format!("its process ended with {}", done.status),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::os::ChildKind;

    fn run(command: &mut Command, limit: Duration) -> Result<Output, CoverageError> {
        let mut signals = HeldSignals::new(ChildKind::Helper).expect("signals");
        limited(command, (limit, &|| {}), &mut signals)
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
        let hung = run(&mut shell("echo begun; sleep 30 & exec sleep 30"), Duration::from_millis(200));
        assert_eq!(hung.expect_err("it hangs"), CoverageError::Overtime { seconds: 1 });
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        let words = CoverageError::Overtime { seconds: 60 }.to_string();
        assert!(words.contains("60 s") && words.contains("--no-coverage"), "{words}");
    }

    #[test]
    fn what_a_child_says_is_kept_however_much_it_is() {
        let done = run(&mut shell("yes line | head -n 100000; echo why >&2; exit 3"), Duration::from_secs(60))
            .expect("it ends");
        assert_eq!(
            (done.stdout.len(), done.stderr.as_slice(), done.status.code()),
            (500_000, b"why\n".as_slice(), Some(3))
        );
        let none = run(&mut Command::new("/nonexistent/program"), Duration::from_secs(60));
        assert!(matches!(none, Err(CoverageError::Failed { .. })), "{none:?}");
    }
}
