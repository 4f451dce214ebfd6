#![forbid(unsafe_code)]

use crate::error::HostError;

#[derive(Clone, Copy)]
pub(crate) struct Refusal {
    /// Of the row of the refusing context and the scope.
    pub(crate) tag: u64,
    /// The bytes that other threads lease of a budget are computed when the reason is queried.
    pub(crate) error: HostError,
}
