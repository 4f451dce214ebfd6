//! A guard's reports: their content, text and delivery.
//!
//! ```text
//!   a check finds a Fault --> ReportContext --+
//!                                    +--> deliver: Report --> text, JSON line | a function; then abort, panic, go on
//!   a page stops an access           |
//!     --> handler --> whose? (registry) --> accused? --> ReportContext
//! ```
//!
//! Nothing here takes memory or a lock that an allocation may hold: all of it may run in a signal handler, and in a free.

mod address_position;
mod block_info;
mod deliver;
mod detected_at;
mod guard_report;
mod handler;
mod json;
mod leak;
mod registry;
mod report_context;
mod scratch;
mod text;

pub use address_position::AddressPosition;
pub use block_info::{Actor, BlockInfo, Stack};
pub use deliver::OnReport;
pub(crate) use deliver::{deliver, list, notice, write_line};
pub use detected_at::DetectedAt;
pub use guard_report::Report;
pub(crate) use handler::on_trap;
pub use leak::Leak;
pub(crate) use registry::{GuardEntry, GuardSlotId, ReportingGuard, enter, leave, query};
pub use report_context::FreeArgs;
pub(crate) use report_context::ReportContext;

#[cfg(test)]
mod tests;
