//! ```text
//!   a check finds a Fault --> ReportContext --+
//!                                    +--> deliver: Report --> text, JSON line | a function; then abort, panic, go on
//!   a page stops an access           |
//!     --> handler --> whose? (registry) --> stopped access --> ReportContext
//! ```
//!
//! Nothing here allocates or acquires a lock that an allocation may hold: all of it may run in a signal handler, and in
//! a free.

mod block_info;
mod deliver;
mod guard_report;
mod json;
mod registry;
mod scratch;
mod text;

pub use block_info::{Actor, BlockInfo, Stack};
pub use deliver::OnReport;
pub(crate) use deliver::{deliver, list, notice, on_trap, write_line};
pub(crate) use guard_report::ReportContext;
pub use guard_report::{AddressPosition, DetectedAt, FreeArgs, Report};
pub(crate) use registry::{GuardEntry, GuardSlotId, REGISTRY, ReportingGuard};
pub use text::Leak;

#[cfg(test)]
mod tests;
