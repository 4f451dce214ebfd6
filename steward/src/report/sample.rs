//! What was live at one moment.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::ByScope;

/// What was live at one moment of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Commands called until then; in a replay lines read.
    pub at: u64,
    /// The place of the running phase in the report's list.
    pub phase: usize,
    /// Bytes live, scope by scope.
    pub live_by_scope: ByScope,
}
