//! Reports on request: a word of the state file, a signal, or a file beside the report that ends in `.request`. The next hooked command
//! writes it.

#![forbid(unsafe_code)]

use std::path::Path;

use alloc_core::TryString;
use vk_report::files::FilePlace;
use vk_report::state_file::REPORT_REQUEST;

use super::interval::{Schedule, milliseconds};
use super::{Occasion, write_on};
use crate::accounts::INSTANCES;
use crate::file_name::expand;
use crate::once::OnceAcrossForks;
use crate::record::{Own, own};
use crate::request::{REPORT, install_handler, request_report};
use crate::settings::{Target, settings};
use crate::state;
use crate::timeline::begin_phase;

/// Commands with a multiple of this number check for a request file.
const INTERVAL: u64 = 64;
/// Milliseconds between two checks: each is a system call, which would be a third of the cost of a submit.
const LOOK: u64 = 10;

static LOOKS: Schedule = Schedule::new();

/// The first instance is being created: from now on reports can be requested.
pub(crate) fn listen() {
    static STARTED: OnceAcrossForks = OnceAcrossForks::new();
    if let Some(signal) = settings().signal {
        STARTED.call_once(|| install_handler(signal, request_report, "report"));
    }
}

/// Whether the settings allow to request a report.
pub(super) fn can_be_requested() -> bool {
    let settings = settings();
    settings.signal.is_some() || settings.state.is_some() || file_pattern().is_some()
}

/// Whether to call [`write_if_requested`].
#[inline]
pub(super) fn may_be_requested(number: u64) -> bool {
    REPORT.is_pending()
        || state::is_requested(REPORT_REQUEST)
        || (number.is_multiple_of(INTERVAL) && pattern().is_some())
}

/// Writes a report if one was requested when the command with this number, among those that are counted with it, is over.
pub(crate) fn write_if_requested(number: u64) {
    // Of several threads one removes it.
    let is_file_there = || {
        // The first look is at once.
        let looks = number.is_multiple_of(INTERVAL)
            && LOOKS.is_due(milliseconds().saturating_add(LOOK), LOOK);
        let file = looks.then(request_file).flatten();
        file.is_some_and(|file| remove(Path::new(file.as_str())))
    };
    // If another thread is writing, it may have read its numbers before the request: the next command checks again.
    if REPORT.is_due() || state::is_due(REPORT_REQUEST) || is_file_there() {
        if write_on(Occasion::Request) {
            state::answered();
            begin_phase("report");
        } else {
            REPORT.renew();
        }
    }
}

/// The name of the report's text, or of its JSON where there is no text in a file; `None` where no reports are written to files.
fn pattern() -> Option<&'static str> {
    if INSTANCES.is_empty() {
        return None;
    }
    file_pattern()
}

/// As [`pattern`], also before there are instances.
fn file_pattern() -> Option<&'static str> {
    if settings().passes_through {
        return None;
    }
    let targets = [&settings().text, &settings().json];
    targets.into_iter().find_map(|target| match target {
        Some(Target::File(pattern)) => Some(pattern.as_str()),
        _ => None,
    })
}

/// Whether the file was there. Most looks find none.
fn remove(file: &Path) -> bool {
    file.is_file() && FilePlace::find(file).is_ok_and(|place| place.remove().is_ok())
}

/// Beside the report that comes next.
fn request_file() -> Option<TryString<Own>> {
    let report = expand(pattern()?).ok()?;
    let mut name = TryString::new_in(own());
    name.try_write_fmt(format_args!("{}.request", report.as_str()))
        .ok()?;
    Some(name)
}
