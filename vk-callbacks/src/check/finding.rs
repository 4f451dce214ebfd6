//! A finding: observations that are alike, added up.

#![forbid(unsafe_code)]

use alloc_core::Scope;

use super::kind::FindingKind;
use super::options::Opened;
use super::rules::{Duty, RuleLevel};
use crate::command::{BracketCoverage, OwnerId};

/// Observations of one kind, of one owner, one command and one scope, added up. `Display` is one sentence.
///
/// Names are the specification's; empty if unknown or not applicable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckFinding<'t> {
    /// What was observed.
    pub kind: FindingKind,
    /// The owner of the callbacks.
    pub owner: Option<OwnerId>,
    /// The kind of object that the callbacks were passed for, `VkDevice`.
    pub owner_kind: &'t str,
    /// The running command. For a leftover block, or one freed outside of any command: the command that allocated it.
    pub command: &'t str,
    /// The other object or command of the finding: the object whose allocator was passed over, the destroying command.
    pub against: &'t str,
    /// The scope of the request; none if it does not exist or does not matter.
    pub scope: Option<Scope>,
    /// The number of observations.
    pub count: u64,
    /// The bytes of all blocks together.
    pub bytes: u64,
    /// The size of each block, if all have the same.
    pub size: Option<u64>,
    /// The serial number of the command of the first observation, 0 outside of any. From a trace: the line.
    pub first_serial: u64,
    /// The number of leftover blocks that were freed later.
    pub freed_later: u64,
    /// The command that freed the last of those; empty outside of any.
    pub freed_in: &'t str,
    /// The number of observations during which another thread ran a command. They prove that the thread was wrong (V23), not that no
    /// command ran (V22).
    pub during_commands: u64,
    /// The thread of the calls outside of any command, if it was one alone: as [`CommandInfo::thread`] numbers threads.
    /// From a trace: as the trace numbers them.
    ///
    /// [`CommandInfo::thread`]: crate::command::CommandInfo::thread
    pub on_thread: Option<u64>,
    /// The alignment of the block and the alignment that its reallocation requested, in bytes, if all are the same.
    pub alignments: Option<(u64, u64)>,
    /// The owner of the allocator that was passed to destroy an object of another allocator, if it was one alone.
    pub passed: Option<OwnerId>,
    /// The file of the calling program or library, if it [is known](crate::Checker::naming_callers) and was one alone; else empty.
    pub module: &'t str,
    /// Whether the application said which callbacks are compatible. A trace does not say it.
    pub groups_reported: bool,
    /// How the driver was opened, as the checker's options say.
    pub opened: Opened,
    /// How much of the program was bracketed.
    pub coverage: BracketCoverage,
}

/// Findings with the same identity are one for the reader.
type Identity<'t> = (
    FindingKind,
    Option<OwnerId>,
    &'t str,
    &'t str,
    &'t str,
    Option<Scope>,
);

impl<'t> CheckFinding<'t> {
    /// One observation. The last three fields are set when findings are read.
    pub(super) const fn one(kind: FindingKind) -> Self {
        Self {
            kind,
            owner: None,
            owner_kind: "",
            command: "",
            against: "",
            scope: None,
            count: 1,
            bytes: 0,
            size: Some(0),
            first_serial: 0,
            freed_later: 0,
            freed_in: "",
            during_commands: 0,
            on_thread: None,
            alignments: None,
            passed: None,
            module: "",
            groups_reported: true,
            opened: Opened::ThroughLoader,
            coverage: BracketCoverage::Partial,
        }
    }

    pub(super) const fn of_size(self, size: u64) -> Self {
        Self {
            bytes: size,
            size: Some(size),
            ..self
        }
    }

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

    pub(super) fn add(&mut self, more: &Self) {
        self.size = common(self.size, more.size);
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

/// The value of both, if it is the same.
fn common<T: PartialEq>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.filter(|one| other.as_ref() == Some(one))
}

impl CheckFinding<'_> {
    /// The numbers of the broken rules: the kind's, or V23 alone for calls on a foreign thread if a command ran during each.
    #[must_use]
    pub const fn rules(&self) -> &'static [u8] {
        match self.kind.rules() {
            [_, worker @ ..] if !worker.is_empty() && self.during_commands >= self.count => worker,
            rules => rules,
        }
    }

    /// How serious the finding is. With complete brackets a suspect is a violation. If the compatible callbacks are unknown, a finding
    /// that depends on them is a suspect.
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

    /// Who broke the rule; empty if it may have been either side.
    #[must_use]
    pub const fn culprit(&self) -> &'static str {
        use FindingKind::{InternalAtEnd, LiveAtEnd, NullFree};
        match (self.kind.rule().duty, self.opened) {
            // An object that the application never destroyed keeps its memory.
            _ if matches!(self.kind, LiveAtEnd | InternalAtEnd) => "",
            // The driver may free NULL: the rule binds the allocator.
            (Duty::Application, _) if !matches!(self.kind, NullFree) => "the application",
            (_, Opened::Directly) => "the driver",
            (_, Opened::ThroughLoader) => "the implementation",
        }
    }
}

/// Whether the finding blames somebody only if the compatible callbacks are known.
const fn needs_groups(kind: FindingKind) -> bool {
    use FindingKind::*;
    matches!(
        kind,
        FreedThroughOther
            | InternalLeft
            | InternalNegative
            | OtherGroupAtDestroy
            | ReallocatedThroughOther
    )
}
