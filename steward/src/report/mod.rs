//! Reports as pages, and reports read back; `vk_report::report` has the model, its text and its JSON.

#![forbid(unsafe_code)]

mod drivers;
mod page;
mod read;

pub use drivers::DriversReport;
pub use page::{html, html_of_checks};
pub use read::{CheckedDriver, Failed, ReadError, ReportOrList};
