//! What was found, added up, and how it is said.

#![forbid(unsafe_code)]

use alloc_core::Scope;

use super::kind::FindingKind;
use super::options::Opened;
use super::row::common;
use super::rules::{Duty, RuleLevel};
use crate::command::{BracketCoverage, OwnerId};

/// Observations of one kind, of one owner, one command and one scope, added up. `Display` is one sentence.
///
/// Names are the specification's; empty where they are not known or play no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckFinding<'t> {
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
    /// How many came while another thread was in a command: they show that the thread was the wrong one (V23), and not that no
    /// command ran (V22).
    pub during_commands: u64,
    /// The thread that it was observed on, outside of any command, where it was one alone: as [`CommandInfo::thread`] numbers them.
    /// In a judged trace as the trace does.
    ///
    /// [`CommandInfo::thread`]: crate::command::CommandInfo::thread
    pub on_thread: Option<u64>,
    /// The alignment that each block was made with, and the one that its reallocation asked for, in bytes, where all are the same.
    pub alignments: Option<(u64, u64)>,
    /// Of an object that was ended with another allocator than it was made with: whose that was, where it was one alone.
    pub passed: Option<OwnerId>,
    /// The file of the program or library that called, where that [is known](crate::Checker::naming_callers) and was one alone; else empty.
    pub module: &'t str,
    /// Whether callbacks that are compatible were told to be. In a trace they cannot be.
    pub groups_reported: bool,
    /// The checker's word on who may have called.
    pub opened: Opened,
    /// How much of the program was bracketed.
    pub coverage: BracketCoverage,
}

/// What makes two observations alike for the reader.
type Identity<'t> = (
    FindingKind,
    Option<OwnerId>,
    &'t str,
    &'t str,
    &'t str,
    Option<Scope>,
);

impl<'t> CheckFinding<'t> {
    pub(super) const fn identity(&self) -> Identity<'t> {
        (
            self.kind,
            self.owner,
            self.owner_kind,
            self.command,
            self.against,
            self.scope,
        )
    }

    /// Those of `more`, too.
    pub(super) fn add(&mut self, more: &Self) {
        self.size = self.size.filter(|size| more.size == Some(*size));
        self.first_serial = self.first_serial.min(more.first_serial);
        self.count = self.count.saturating_add(more.count);
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.during_commands = self.during_commands.saturating_add(more.during_commands);
        self.on_thread = common(self.on_thread, more.on_thread);
        self.alignments = common(self.alignments, more.alignments);
        self.passed = common(self.passed, more.passed);
        if self.module != more.module {
            self.module = "";
        }
    }
}

impl CheckFinding<'_> {
    /// The numbers of the rules that it shows to be broken: the kind's, or V23 alone for calls on a foreign thread that all came
    /// while a command ran.
    #[must_use]
    pub const fn rules(&self) -> &'static [u8] {
        match self.kind.rules() {
            [_, worker @ ..] if !worker.is_empty() && self.during_commands >= self.count => worker,
            rules => rules,
        }
    }

    /// How much it weighs: what needs complete brackets is a violation where they were. What needs to be told whose callbacks are
    /// compatible is a suspect where it was not.
    #[must_use]
    pub const fn level(&self) -> RuleLevel {
        match (self.kind.level(), self.coverage) {
            (RuleLevel::Violation, _) if !self.groups_reported && needs_groups(self.kind) => {
                RuleLevel::Suspect
            }
            (RuleLevel::Suspect, BracketCoverage::Complete) => RuleLevel::Violation,
            (level, _) => level,
        }
    }

    /// Who did it, as far as that is known; empty where it may have been either.
    #[must_use]
    pub const fn culprit(&self) -> &'static str {
        match (self.kind.rule().duty, self.opened) {
            // An object that the application never ended keeps its memory.
            _ if matches!(
                self.kind,
                FindingKind::LiveAtEnd | FindingKind::InternalAtEnd
            ) =>
            {
                ""
            }
            // Who frees NULL is allowed to: the duty is to put up with it.
            (Duty::Application, _) if !matches!(self.kind, FindingKind::NullFree) => {
                "the application"
            }
            (_, Opened::Directly) => "the driver",
            (_, Opened::ThroughLoader) => "the implementation",
        }
    }
}

/// What nobody can blame who does not know which callbacks are compatible.
const fn needs_groups(kind: FindingKind) -> bool {
    use FindingKind::{
        FreedThroughOther, InternalLeft, InternalNegative, OtherGroupAtDestroy,
        ReallocatedThroughOther,
    };
    matches!(
        kind,
        FreedThroughOther
            | InternalLeft
            | InternalNegative
            | OtherGroupAtDestroy
            | ReallocatedThroughOther
    )
}
