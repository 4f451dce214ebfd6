//! A report is requested by a word of the state file, a signal, or a file beside the report that ends in `.request`.
//! The next hooked command writes it.

#![forbid(unsafe_code)]

use std::path::Path;

use alloc_core::TryString;
use vk_report::files;
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

const INTERVAL: u64 = 64;
/// The unit is a millisecond. Each check is a system call, which would be a third of the cost of a submit.
const LOOK: u64 = 10;

static LOOKS: Schedule = Schedule::new();

pub(crate) fn listen() {
    static STARTED: OnceAcrossForks = OnceAcrossForks::new();
    if let Some(signal) = settings().signal {
        STARTED.call_once(|| install_handler(signal, request_report, "report"));
    }
}

pub(super) fn can_be_requested() -> bool {
    let settings = settings();
    settings.signal.is_some() || settings.state.is_some() || file_pattern().is_some()
}

#[inline]
pub(super) fn may_be_requested(number: u64) -> bool {
    REPORT.is_pending()
        || state::is_requested(REPORT_REQUEST)
        || (number.is_multiple_of(INTERVAL) && pattern().is_some())
}

pub(crate) fn write_if_requested(number: u64) {
    let is_file_there = || {
        let looks = number.is_multiple_of(INTERVAL) && LOOKS.is_due(milliseconds().saturating_add(LOOK), LOOK);
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

fn pattern() -> Option<&'static str> {
    if INSTANCES.is_empty() {
        return None;
    }
    file_pattern()
}

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

fn remove(file: &Path) -> bool {
    file.is_file() && files::remove(file).is_ok()
}

fn request_file() -> Option<TryString<Own>> {
    let report = expand(pattern()?).ok()?;
    let mut name = TryString::new_in(own());
    name.try_write_fmt(format_args!("{}.request", report.as_str())).ok()?;
    Some(name)
}
