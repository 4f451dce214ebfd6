#![forbid(unsafe_code)]

use std::hint::black_box;

use super::{Cells, RequestedBytes, ThreadActivity, read};
use crate::report::{Coverage, CoverageRun};

/// A running measurement. The caller brackets commands with [`during`](super::during), and passes the driver
/// [`CountingCallbacks`](super::CountingCallbacks).
#[derive(Debug)]
pub struct CallbackCoverage {
    /// What came through callbacks.
    pub requested: RequestedBytes,
    before: Cells,
}

impl CallbackCoverage {
    /// Measures from now on; `None` without a meter.
    #[must_use]
    pub fn begin() -> Option<Self> {
        Some(Self { requested: RequestedBytes::default(), before: read()? })
    }

    /// The coverage of a program, all of whose commands with callbacks are bracketed, or why it cannot be known:
    /// without a meter, or with callbacks of its own.
    #[must_use]
    pub fn report(measured: Option<&Self>, own_callbacks: u64) -> Coverage {
        let run = measured.and_then(Self::run);
        let absent = match run {
            None => Some(
                "the meter was not loaded into this process: start it with `steward run --meter`, and point TMPDIR to a folder that programs \
                 may be loaded from (not mounted noexec)"
                    .to_owned(),
            ),
            _ if own_callbacks > 0 => Some(format!(
                "the program passed callbacks of its own to {own_callbacks} commands, and what those allocate cannot be told from what the \
                 driver does"
            )),
            Some(_) if !sees_heap() => Some(
                "the program brings an allocator of its own, which the meter does not see".to_owned(),
            ),
            Some(_) => None,
        };
        Coverage { with_loader: run.filter(|_| absent.is_none()), without_loader: None, absent }
    }

    /// What was allocated until now; exact when no thread allocates meanwhile.
    #[must_use]
    pub fn run(&self) -> Option<CoverageRun> {
        let cells = read()?.since(&self.before);
        let (in_command, never_issued) = (cells.of(ThreadActivity::InCommand), cells.of(ThreadActivity::NeverIssued));
        let (callback_calls, callback_bytes) = self.requested.totals();
        Some(CoverageRun {
            callback_calls,
            callback_bytes,
            in_command_calls: in_command.calls,
            in_command_bytes: in_command.bytes,
            never_issued_calls: never_issued.calls,
            never_issued_bytes: never_issued.bytes,
            application_bytes: cells.of(ThreadActivity::Application).bytes,
            in_callback_bytes: cells.of(ThreadActivity::InCallback).bytes,
            mapped_bytes: in_command.mapped.saturating_add(never_issued.mapped),
            ..CoverageRun::default()
        })
    }
}

/// Whether the meter counts a block of this library. A few calls prove nothing: some libraries may have come before the
/// program's allocator.
fn sees_heap() -> bool {
    let calls = || read().map(|cells| cells.sum().calls);
    let before = calls();
    drop(black_box(Box::new(0_u8)));
    calls() > before
}
