//! Reports on request: a signal, or a file beside the report that ends in `.request`. The next hooked command writes it.

#![forbid(unsafe_code)]

use std::fs;

use alloc_core::TryString;

use super::write;
use crate::file_name::expand;
use crate::once::OnceAcrossForks;
use crate::per_process::PerProcess;
use crate::record::{Own, own};
use crate::request::{REPORT, install_handler, request_report};
use crate::settings::{Target, settings};

/// A file is looked for at every command with such a number.
const INTERVAL: u64 = 64;

static REQUEST_FILE: PerProcess<TryString<Own>> = PerProcess::new();

/// The first instance is being created: from now on reports can be requested.
pub(crate) fn listen() {
    static STARTED: OnceAcrossForks = OnceAcrossForks::new();
    if let Some(signal) = settings().signal {
        STARTED.call_once(|| install_handler(signal, request_report, "report"));
    }
    REQUEST_FILE.get_or_make(request_file);
}

/// In the child of a fork: its number is another.
pub(super) fn after_fork() {
    REQUEST_FILE.forget();
}

/// Whether [`write_if_requested`] has to look closer.
pub(super) fn may_be_requested(number: u64) -> bool {
    REPORT.is_pending() || (number.is_multiple_of(INTERVAL) && REQUEST_FILE.get().is_some())
}

/// Writes a report if one was requested when the command with this number is over.
pub(crate) fn write_if_requested(number: u64) {
    let is_file_there = || {
        let file = REQUEST_FILE
            .get()
            .filter(|_| number.is_multiple_of(INTERVAL));
        // Of several threads one removes it.
        file.is_some_and(|file| fs::remove_file(file.as_str()).is_ok())
    };
    if REPORT.is_due() || is_file_there() {
        write();
    }
}

/// Beside the report's text, or its JSON where there is no text in a file.
fn request_file() -> Option<TryString<Own>> {
    let targets = [&settings().text, &settings().json];
    let mut files = targets.into_iter().filter_map(|target| match target {
        Some(Target::File(pattern)) => Some(pattern),
        _ => None,
    });
    let report = expand(files.next()?).ok()?;
    let mut name = TryString::new_in(own());
    name.try_write_fmt(format_args!("{}.request", report.as_str()))
        .ok()?;
    Some(name)
}
