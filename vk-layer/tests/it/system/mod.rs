//! What tests need of the system.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as this;
#[cfg(windows)]
use windows as this;

pub(crate) use this::{report_requests, request_report, resident_kilobytes};
