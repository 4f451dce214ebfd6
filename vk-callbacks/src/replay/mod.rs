//! Replay: a trace drives host allocators as the recorded driver drove its callbacks.
//!
//! ```text
//!  TraceReader --event--> Replay --allocate, grow, shrink, deallocate--> the sink of the block's owner
//!                           |  blocks by their number in the trace
//!                           +--findings, phases, owners--> ReplayTarget
//! ```
//!
//! Mistakes in the trace (a second free, an alignment of 3) do not stop it; the judge reports them.

mod block;
mod player;
mod target;

pub use player::Replay;
pub use target::{OneSink, ReplayFinding, ReplayTarget, ScopeTotals, Totals};
