//! What was found, added up, and how it is said.

#![forbid(unsafe_code)]

use alloc_core::Scope;

use super::kind::FindingKind;
use super::options::Opened;
use super::rules::{Duty, RuleLevel};
use crate::command::{Coverage, OwnerId};

/// Observations of one kind, of one owner, one command and one scope, added up. `Display` is one sentence.
///
/// Names are the specification's; empty where they are not known or play no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found<'t> {
    /// What was observed.
    pub kind: FindingKind,
    /// Whose callbacks it was observed at.
    pub owner: Option<OwnerId>,
    /// The kind of object those were handed to, `VkDevice`.
    pub owner_kind: &'t str,
    /// The command that ran; of a block that was freed outside of any, or is left, the one that took it.
    pub command: &'t str,
    /// What it was measured against: the object or command that was passed over, the destroying command.
    pub against: &'t str,
    /// The scope of the request; none where it does not exist or plays no part.
    pub scope: Option<Scope>,
    /// How often.
    pub count: u64,
    /// Bytes of all the blocks together.
    pub bytes: u64,
    /// The size of each block, where all had the same.
    pub size: Option<u64>,
    /// The serial of the command in which it was first seen, 0 outside of any. Of a judged trace: the line.
    pub first_serial: u64,
    /// How many of the blocks that were left came back after all.
    pub freed_later: u64,
    /// During which command the last of those did; empty outside of any.
    pub freed_in: &'t str,
    /// The checker's word on who may have called.
    pub opened: Opened,
    /// How much of the program was bracketed.
    pub coverage: Coverage,
}

impl Found<'_> {
    /// How much it weighs: what needs complete brackets is a violation where they were.
    #[must_use]
    pub const fn level(&self) -> RuleLevel {
        match (self.kind.level(), self.coverage) {
            (RuleLevel::Suspect, Coverage::Complete) => RuleLevel::Violation,
            (level, _) => level,
        }
    }

    /// Who did it, as far as that is known.
    #[must_use]
    pub const fn culprit(&self) -> &'static str {
        match (self.kind.rule().duty, self.opened) {
            // Who frees NULL is allowed to: the duty is to put up with it.
            (Duty::Application, _) if !matches!(self.kind, FindingKind::NullFree) => "the application",
            (_, Opened::Directly) => "the driver",
            (_, Opened::ThroughLoader) => "the implementation",
        }
    }
}
