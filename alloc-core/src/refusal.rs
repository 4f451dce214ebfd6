//! A refusal as a thread remembers it. `context/lease.rs` fills it in and answers from it.

#![forbid(unsafe_code)]

use crate::error::{ContextId, HostError};

/// The last refusal of a thread.
#[derive(Clone, Copy)]
pub(crate) struct Refusal {
    /// The tag of the row of the refusing context and the scope.
    pub(crate) tag: u64,
    pub(crate) reason: Reason,
}

#[derive(Clone, Copy)]
pub(crate) enum Reason {
    /// A budget had no room; `leased_elsewhere` is computed when the reason is queried.
    Short(Shortage),
    Other(HostError),
}

/// A budget that had no room for a request.
#[derive(Clone, Copy)]
pub(crate) struct Shortage {
    pub(crate) context: ContextId,
    pub(crate) short_by: u64,
}
