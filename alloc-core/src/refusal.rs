//! A refusal as a thread remembers it. `context/budget_charge.rs` fills it in and answers from it.

#![forbid(unsafe_code)]

use crate::error::HostError;

/// The last refusal of a thread.
#[derive(Clone, Copy)]
pub(crate) struct Refusal {
    /// The tag of the row of the refusing context and the scope.
    pub(crate) tag: u64,
    /// Of a budget without the bytes that other threads lease of it: those are computed when the reason is queried.
    pub(crate) error: HostError,
}
