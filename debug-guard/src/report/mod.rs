//! What a guard tells: a report, how it is written, who gets it.
//!
//! ```text
//!   a check finds a Fault --> Case --+
//!                                    +--> tell: Report --> text, JSON line | a function; then abort, panic, go on
//!   a page stops an access           |
//!     --> handler --> whose? (registry) --> accused? --> Case
//! ```
//!
//! Nothing here takes memory or a lock that an allocation may hold: all of it may run in a signal handler, and in a free.

mod block_info;
mod case;
mod deliver;
mod handler;
mod json;
mod kind;
mod leak;
mod modules;
mod moment;
mod place;
mod registry;
mod scratch;
mod text;
mod told;

pub use block_info::{BlockInfo, BlockState, Deed, Stack};
pub use case::CameBack;
pub(crate) use case::Case;
pub(crate) use deliver::{list, notice, tell};
pub(crate) use handler::on_trap;
pub use kind::ReportKind;
pub use leak::Leak;
pub(crate) use modules::bias;
pub use moment::{Access, Moment};
pub use place::Place;
pub(crate) use registry::{Entry, Guarded, SeatId, ask, enter, leave};
pub use told::Report;

#[cfg(test)]
mod tests;
