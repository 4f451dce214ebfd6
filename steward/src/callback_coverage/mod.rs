//! Callback coverage: how much of the host memory that a driver takes comes through the callbacks it was given.
//!
//! ```text
//!   ratio = bytes asked of callbacks / (those + heap bytes taken inside of commands + heap bytes of threads that issue none)
//! ```
//!
//! All gross: what was freed again counts as well. The first term is counted by a decorator around the callbacks, the others by
//! the meter, a library of the malloc family that is preloaded into a child process and adds each request to the cell of what
//! its thread is doing ([`meter`]). The child runs the workload as the program does, with the accounts' callbacks; once through
//! the loader, whose memory cannot be told from the driver's there, and once with the driver's library opened directly.
//!
//! ```text
//!   steward --+-- child, meter preloaded: loader -> driver     with_loader
//!             +-- child, meter preloaded: driver               without_loader
//! ```
//!
//! The numbers leave out memory that the library's initialisers allocate while it is opened directly, because no command runs then: it
//! is a figure of its own (`opening_bytes`). The loader opens the library within commands, so with the loader it is among theirs. They
//! also leave out allocators with other names than C's; and mappings, which are counted apart, since device memory is among them.

mod child;
mod hooks;
mod limited;
mod preload;

use std::env;
use std::process::{Command, Output};
use std::time::Duration;

use child::failed;
pub use child::{Job, Way, answer, under_the_meter};
pub use limited::wait;
pub use preload::Preload;

use crate::drivers::{self, Selected};
use serde::{Deserialize, Serialize};
pub use vk_accounts::meter;
use vk_accounts::report::{Coverage, CoverageRun};
use vk_callbacks::check::Opened;

/// The hidden command that a child is started with; the job, as JSON, follows it.
pub const CHILD_COMMAND: &str = "coverage-child";

/// What a driver finds in its cache on disk it does not compile: without these the first run on a machine differs from the second.
const DISK_CACHES_OFF: [(&str, &str); 2] = [
    ("MESA_SHADER_CACHE_DISABLE", "true"),
    ("__GL_SHADER_DISK_CACHE", "0"),
];

/// Why the ratio could not be measured, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CoverageError {
    /// No meter was built for this platform.
    #[error("the heap cannot be metered here: {reason}")]
    NotBuilt {
        /// Why not.
        reason: String,
    },
    /// The library could not be put into a file.
    #[error(
        "the meter's library cannot be written ({reason}): point TMPDIR to a folder that can be written to"
    )]
    Unwritable {
        /// What the operating system said.
        reason: String,
    },
    /// The dynamic linker did not load the library.
    #[error(
        "the meter was not loaded: point TMPDIR to a folder that programs may be loaded from (not mounted noexec)"
    )]
    NotLoaded,
    /// The child did not come to its end.
    #[error("the run under the meter failed: {reason}")]
    Failed {
        /// What it said, or how it ended.
        reason: String,
    },
    /// The child did not end in time.
    #[error(
        "the run under the meter was stopped after {seconds} s without an end: --no-coverage leaves it out"
    )]
    Overtime {
        /// How much time it had, rounded up.
        seconds: u64,
    },
    /// The driver cannot be opened without the loader.
    #[error(transparent)]
    Closed(#[from] drivers::ReopenError),
}

/// A child gets as many times the time that the same run took without a meter, ..
const TIMES: u32 = 20;
/// .. and no less than this: a device that is opened for the first time may compile much.
const MIN_TIME_LIMIT: Duration = Duration::from_secs(60);

/// Measures the driver in two child processes that run the same workload with the same seed and rounds. Takes as long as two runs.
/// `took` is the time of such a run without a meter; it sets the time limit of a child. While a child runs, `step` is called repeatedly
/// with a description of the run.
///
/// The children see the environment as it is, so call it while the driver is selected.
#[must_use]
pub fn measure(
    driver: &Selected,
    (seed, rounds): (u32, u32),
    took: Duration,
    step: &dyn Fn(u64, &str),
) -> Coverage {
    let preload = match Preload::new() {
        Ok(preload) => preload,
        Err(error) => {
            return Coverage {
                absent: Some(error.to_string()),
                ..Coverage::default()
            };
        }
    };
    let limit = took.saturating_mul(TIMES).max(MIN_TIME_LIMIT);
    let run = |way| {
        child(
            &preload,
            &Job {
                driver: driver.info().clone(),
                seed,
                rounds,
                way,
            },
            limit,
            &|| step(rounds.into(), "rounds, again for callback coverage"),
        )
    };
    let with_loader = match driver.opened() {
        Opened::ThroughLoader => run(Way::Loader).map(Some),
        Opened::Directly => Ok(None),
    };
    // Without the loader the run would fail for the same reason.
    let both = with_loader.map(|with_loader| (with_loader, run(Way::Direct)));
    let (with_loader, without_loader) = both.unwrap_or_else(|error| (None, Err(error)));
    let absent = without_loader.as_ref().err().map(ToString::to_string);
    Coverage {
        with_loader,
        without_loader: without_loader.ok(),
        absent,
    }
}

fn child(
    preload: &Preload,
    job: &Job,
    limit: Duration,
    step: &dyn Fn(),
) -> Result<CoverageRun, CoverageError> {
    let program = env::current_exe().map_err(failed)?;
    let job = serde_json::to_string(job).map_err(failed)?;
    let done = limited::run(
        preload
            .load_into(&mut Command::new(program))
            .envs(DISK_CACHES_OFF)
            .args([CHILD_COMMAND, &job]),
        limit,
        step,
    )?;
    read(&String::from_utf8_lossy(&done.stdout)).unwrap_or_else(|| Err(failed(why(&done))))
}

/// The child's answer among what was printed: drivers may write to the output as well, before it and, when they are unloaded or
/// their buffers are flushed, behind it. The last line that is an answer is it.
fn read(said: &str) -> Option<Result<CoverageRun, CoverageError>> {
    said.lines()
        .rev()
        .find_map(|line| serde_json::from_str(line).ok())
}

fn unwritable(error: impl ToString) -> CoverageError {
    CoverageError::Unwritable {
        reason: error.to_string(),
    }
}

/// The child's own words, or how it ended.
fn why(done: &Output) -> String {
    let said = String::from_utf8_lossy(&done.stderr);
    match said.lines().next_back().map(str::trim) {
        Some(line) if !line.is_empty() => format!("{line} ({})", done.status),
        _ => format!("its process ended with {}", done.status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_found_among_what_drivers_print() {
        let run = CoverageRun {
            callback_calls: 7,
            ..CoverageRun::default()
        };
        let answer = serde_json::to_string(&Ok::<_, CoverageError>(run)).expect("JSON");
        for said in [
            answer.clone(),
            format!("hello\n{answer}\n"),
            format!("a driver: half a line\n{answer}\nunloaded, 3 caches written\n\n"),
            format!("{{\"Err\":\"NotLoaded\"}}\n{answer}\n{{\"Run\":{{}}}}\n"),
        ] {
            assert_eq!(read(&said), Some(Ok(run)), "{said}");
        }
        assert_eq!(
            read(&format!("{answer}\n{{\"Err\":\"NotLoaded\"}}\n")),
            Some(Err(CoverageError::NotLoaded)),
            "the last one"
        );
        for none in ["", "\n", "segmentation fault\n", "{\"Ok\":7}\n"] {
            assert_eq!(read(none), None, "{none}");
        }
    }
}
