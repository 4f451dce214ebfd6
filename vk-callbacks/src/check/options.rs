//! The options of a checker.

#![forbid(unsafe_code)]

use crate::command::{BracketCoverage, OwnerId};

/// What a checker or a judge may assume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckOptions {
    /// Whether every command of every thread runs in a bracket. A bracket that declares less lowers it for all.
    pub coverage: BracketCoverage,
    /// How the driver was opened.
    pub opened: Opened,
}

/// How the driver was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// Through the loader: callbacks may be the loader's, a layer's or the driver's. Findings name "the implementation".
    ThroughLoader,
    /// Without the loader: findings name "the driver".
    Directly,
}

/// The weakest assumptions: some commands may run without a bracket, and a loader may be between.
impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            coverage: BracketCoverage::Partial,
            opened: Opened::ThroughLoader,
        }
    }
}

/// The owner of checked callbacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedOwner {
    /// The id in [`Owners`](crate::Owners): [`Bridge::owner`](crate::Bridge::owner), or [`OwnerId::fresh`].
    pub id: OwnerId,
    /// The kind of object that the callbacks are passed for (`VkPipeline`).
    pub kind: &'static str,
    /// Callbacks of one group are compatible: each frees and reallocates the blocks of the others (V42). 0: the group of identical
    /// functions and user data if they are watched already, else a group of their own.
    pub group: u32,
    /// Bytes and blocks are counted by scope ([`Checker::usage`](crate::Checker::usage)).
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

    /// Counts usage by scope: for callbacks without a bridge. Costs some 20 ns a call.
    #[must_use]
    pub const fn counted(self) -> Self {
        Self {
            is_counted: true,
            ..self
        }
    }
}
