//! Reports as pages, and reports read back; `vk_report::report` has the model, its text and its JSON.

#![forbid(unsafe_code)]

mod page;
mod read;

pub(crate) use page::grouped;
pub use page::{html, html_of_checks};
pub use read::{CheckedDriver, Failed, ReadError, ReportOrList};
