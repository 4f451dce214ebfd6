//! What a checker is told before it begins.

#![forbid(unsafe_code)]

use crate::command::{BracketCoverage, OwnerId};

/// How much a checker or a judge may take for granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Whether every command of every thread runs in a bracket. A single bracket that says otherwise counts for all.
    pub coverage: BracketCoverage,
    /// Who may stand between the application and the driver.
    pub opened: Opened,
}

/// How the driver was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// Through the loader: callbacks may be the loader's, a layer's or the driver's. Findings name "the implementation".
    ThroughLoader,
    /// Its library alone: findings name "the driver".
    Directly,
}

/// Nothing for granted: some commands may run without a bracket, and a loader may stand between.
impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            coverage: BracketCoverage::Partial,
            opened: Opened::ThroughLoader,
        }
    }
}

/// Whose callbacks are being checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedOwner {
    /// What [`Owners`](crate::Owners) calls them: [`Bridge::owner`](crate::Bridge::owner), or [`OwnerId::fresh`].
    pub id: OwnerId,
    /// The kind of object they are handed to (`VkPipeline`).
    pub kind: &'static str,
    /// Callbacks of one group are compatible: each frees and reallocates what the others gave (V42). 0: that of the very same functions
    /// and user data, where they are watched already; else a group of their own.
    pub group: u32,
    /// Bytes and blocks that come through them are counted by scope ([`Checker::usage`](crate::Checker::usage)).
    pub is_counted: bool,
}

impl CheckedOwner {
    /// Callbacks that are compatible with no others.
    #[must_use]
    pub const fn new(id: OwnerId, kind: &'static str) -> Self {
        Self {
            id,
            kind,
            group: 0,
            is_counted: false,
        }
    }

    /// These, counted by scope: for callbacks that no bridge is behind. Costs some 20 ns a call.
    #[must_use]
    pub const fn counted(self) -> Self {
        Self {
            is_counted: true,
            ..self
        }
    }
}
