//! A finding: observations that are alike, added up.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::Scope;

use super::owner::Opened;
use super::rules::{Duty, Rule, RuleLevel};
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

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident [$($rule:literal)+] $level:ident;)*) => {
        /// A kind of observation, about one rule; calls on a foreign thread are about two.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum FindingKind { $($(#[$doc])* $kind,)* }

        impl FindingKind {
            /// All kinds, by their rules.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// The kind's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => stringify!($kind),)* }
            }

            /// The numbers of its rules.
            #[must_use]
            pub const fn rules(self) -> &'static [u8] {
                match self { $(Self::$kind => &[$($rule),+],)* }
            }

            /// How serious it is, unless every command is known to run in a bracket.
            #[must_use]
            pub const fn level(self) -> RuleLevel {
                match self { $(Self::$kind => RuleLevel::$level,)* }
            }
        }
    };
}

kinds! {
    /// Callbacks without `pfnAllocation`.
    MissingAllocation [1] Violation;
    /// Callbacks without `pfnReallocation`.
    MissingReallocation [2] Violation;
    /// Callbacks without `pfnFree`.
    MissingFree [3] Violation;
    /// One internal notification without the other.
    HalfInternal [4] Violation;
    /// A callback came with unknown user data, or that of an ended checker.
    UnknownUserData [5] Violation;
    /// A request came through callbacks that this command did not get.
    OutsideChain [5] Violation;
    /// A function was called through the struct itself, after its command had returned.
    OldStructUsed [6] Violation;
    /// An alignment that is no power of two.
    BadAlignment [7] Violation;
    /// A request for 0 bytes.
    SizeZero [7] Note;
    /// The application answered with a pointer that is not aligned as requested.
    MisalignedAnswer [8] Violation;
    /// The application answered with the address of a block that is live.
    LiveBlockGivenAgain [8] Violation;
    /// A command returned out of host memory, and no request of it was refused.
    OutOfMemoryWithoutNull [9] Note;
    /// A request was refused, and its command returned another error.
    OtherErrorAfterNull [9] Note;
    /// A pointer that no callback returned was reallocated.
    ReallocatedUnknown [11] Violation;
    /// A freed block was reallocated.
    ReallocatedFreed [11] Violation;
    /// A block was reallocated through incompatible callbacks.
    ReallocatedThroughOther [11] Violation;
    /// A reallocation to size 0 was answered with a block.
    ZeroAnswered [14] Violation;
    /// A reallocation requested another alignment.
    OtherAlignment [15] Violation;
    /// A reallocation failed, and the old block was returned for another request.
    OldBlockGivenAway [16] Violation;
    /// A free of NULL.
    NullFree [18] Note;
    /// A pointer that no callback returned was freed.
    FreedUnknown [19] Violation;
    /// A freed block was freed again.
    FreedTwice [19] Violation;
    /// A block was freed while a reallocation of it was running.
    FreedInTransit [19] Violation;
    /// A block was freed through incompatible callbacks.
    FreedThroughOther [19] Violation;
    /// An internal notification of a type other than executable.
    InternalType [20] Violation;
    /// More internal memory was freed than was allocated.
    InternalNegative [20] Violation;
    /// Internal memory was live when the last object of its callbacks was destroyed.
    InternalLeft [20] Violation;
    /// Internal memory was live at the end.
    InternalAtEnd [20] Note;
    /// An internal notification on a thread between its commands.
    NotifiedBetweenCommands [21] Suspect;
    /// An internal notification on a thread that never issued a command.
    NotifiedOnForeignThread [21] Suspect;
    /// A request on a thread between its commands.
    AskedBetweenCommands [22] Suspect;
    /// A free on a thread between its commands.
    FreedBetweenCommands [22] Suspect;
    /// A request on a thread that never issued a command.
    AskedOnForeignThread [22 23] Suspect;
    /// A free on a thread that never issued a command.
    FreedOnForeignThread [22 23] Suspect;
    /// A command was called from inside a callback.
    CommandInCallback [25] Violation;
    /// Deferred work called an allocator that is neither the deferred operation's nor the deferred command's.
    OutsideDeferred [26] Violation;
    /// A block of scope command outlived its command.
    CommandBlockLeft [28] Violation;
    /// Memory of scope command was requested from a less specific allocator.
    CommandLessSpecific [28] Violation;
    /// Memory of scope cache was requested from an allocator that is not the first in its order.
    CacheElsewhere [29] Violation;
    /// A cache's memory was requested with scope object.
    CacheAsObject [29] Violation;
    /// An object's memory was requested from a less specific allocator.
    ObjectLessSpecific [30] Violation;
    /// A reallocation had another scope than the block.
    OtherScope [30] Note;
    /// Memory of scope device was requested from the instance's allocator, though the device has its own.
    DeviceLessSpecific [31] Violation;
    /// Memory of scope device was requested from an object's allocator.
    DeviceTooSpecific [31] Violation;
    /// Memory of scope instance was requested from an allocator that is not the instance's.
    InstanceElsewhere [32] Violation;
    /// A child of a pool did not use the pool's allocator.
    PoolPassedOver [34] Violation;
    /// Objects were allocated from a pool, and no command on the pool requested memory for them.
    PoolNeverAsked [34] Note;
    /// A scope that does not exist.
    BadScope [35] Violation;
    /// A creating command allocated memory of scope device.
    DeviceScopeInCreate [36] Note;
    /// Memory of scope cache in a command that has no cache.
    CacheScopeElsewhere [37] Violation;
    /// A descriptor pool's allocator was called by a command that is not on the pool.
    DescriptorPoolElsewhere [38] Violation;
    /// A command pool's allocator was called by a command that is not on the pool.
    CommandPoolElsewhere [39] Violation;
    /// Memory of scope object was requested in a command that does not create the object whose allocator was called.
    ObjectOutsideCreate [40] Violation;
    /// A block was live when the last object of its allocator, and all below, had been destroyed.
    LiveAfterDestroy [41] Violation;
    /// A block was freed by a command that neither frees nor allocates memory of that scope.
    FreedInOtherCommand [41] Note;
    /// A block was live at the end.
    LiveAtEnd [41] Note;
    /// An object was destroyed with an incompatible allocator.
    OtherGroupAtDestroy [42] Violation;
    /// An object was created with an allocator and destroyed without.
    NoneAtDestroy [42] Violation;
    /// An object was created without an allocator and destroyed with one.
    OnlyAtDestroy [43] Violation;
    /// An unknown or destroyed object was destroyed.
    UnknownHandle [44] Suspect;
}

impl FindingKind {
    /// The first of its rules.
    #[must_use]
    pub const fn rule(self) -> &'static Rule {
        let number = match self.rules() {
            [number, ..] => *number,
            [] => 0,
        };
        match Rule::of(number) {
            Some(rule) => rule,
            // A test shows that each kind has a rule of the table.
            None => FIRST,
        }
    }
}

const FIRST: &Rule = match Rule::ALL {
    [first, ..] => first,
    [] => unreachable!(),
};

/// The rules, `V22/V23`.
impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_rules(self.rules(), f)
    }
}

pub(super) fn write_rules(rules: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, number) in rules.iter().enumerate() {
        write!(f, "{}V{number}", if index > 0 { "/" } else { "" })?;
    }
    Ok(())
}
