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
    /// The object whose allocator was passed over, or the destroying command.
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
    /// The number of observations during which another thread ran a command: they prove V23, not V22.
    pub during_commands: u64,
    /// The thread of the calls outside of any command, if it was one alone: as
    /// [`CommandInfo::thread`](crate::command::CommandInfo::thread) or the trace numbers it.
    pub on_thread: Option<u64>,
    /// The alignments of the block and of its reallocation, in bytes, if all are the same.
    pub alignments: Option<(u64, u64)>,
    /// The owner of the allocator that was wrongly passed to destroy the object, if it was one alone.
    pub passed: Option<OwnerId>,
    /// The file of the calling program or library, if it was one alone; else empty.
    pub module: &'t str,
    /// Whether the application said which callbacks are compatible. A trace does not say it.
    pub groups_reported: bool,
    /// How the driver was opened, as the checker's options say.
    pub opened: Opened,
    /// How much of the program was bracketed.
    pub coverage: BracketCoverage,
}

type Identity<'t> = (FindingKind, Option<OwnerId>, &'t str, &'t str, &'t str, Option<Scope>);

impl<'t> CheckFinding<'t> {
    /// The last three fields are set when findings are read.
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
        Self { bytes: size, size: Some(size), ..self }
    }

    pub(super) const fn identity(&self) -> Identity<'t> {
        (self.kind, self.owner, self.owner_kind, self.command, self.against, self.scope)
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

fn common<T: PartialEq>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.filter(|one| other.as_ref() == Some(one))
}

impl CheckFinding<'_> {
    /// The numbers of the broken rules: the kind's, or V23 alone for calls on a foreign thread if a command ran during
    /// each.
    #[must_use]
    pub const fn rules(&self) -> &'static [u8] {
        match self.kind.rules() {
            [_, worker @ ..] if !worker.is_empty() && self.during_commands >= self.count => worker,
            rules => rules,
        }
    }

    /// How serious the finding is. With complete brackets a suspect is a violation. If the compatible callbacks are
    /// unknown, a finding that depends on them is a suspect.
    #[must_use]
    pub const fn level(&self) -> RuleLevel {
        match (self.kind.level(), self.coverage) {
            (RuleLevel::Violation, _) if !self.groups_reported && needs_groups(self.kind) => RuleLevel::Suspect,
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

const fn needs_groups(kind: FindingKind) -> bool {
    use FindingKind::*;
    matches!(kind, FreedThroughOther | InternalLeft | InternalNegative | OtherGroupAtDestroy | ReallocatedThroughOther)
}

macro_rules! kinds {
    ($($kind:ident [$($rule:literal)+] $level:ident $sentence:literal;)*) => {
        /// A kind of observation, about one rule; calls on a foreign thread are about two. A word in braces differs
        /// from finding to finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum FindingKind { $(#[doc = concat!("`", $sentence, "`")] $kind,)* }

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

            /// `message.rs` has the words in braces.
            pub(super) const fn sentence(self) -> &'static str {
                match self { $(Self::$kind => $sentence,)* }
            }
        }
    };
}

kinds! {
    MissingAllocation [1] Violation
        "handed over {owner} allocator without pfnAllocation";
    MissingReallocation [2] Violation
        "handed over {owner} allocator without pfnReallocation";
    MissingFree [3] Violation
        "handed over {owner} allocator without pfnFree";
    HalfInternal [4] Violation
        "handed over {owner} allocator with one internal notification and not the other";
    UnknownUserData [5] Violation
        "called a callback with user data that was never handed out, or that nobody watches any more{during}";
    OutsideChain [5] Violation
        "asked {owner} allocator for {bytes}{in}, which was not given it";
    OldStructUsed [6] Violation
        "called {owner} allocator through the struct itself, after the command that got it had returned{during}";
    BadAlignment [7] Violation
        "asked {owner} allocator for {bytes}{in}, with an alignment that is no power of two";
    SizeZero [7] Note
        "asked {owner} allocator for {bytes}{in}";
    MisalignedAnswer [8] Violation
        "answered a request to {owner} allocator for {bytes} with a pointer that is not aligned as was asked{during}";
    LiveBlockGivenAgain [8] Violation
        "answered a request to {owner} allocator for {bytes} with the address of a block that is live{during}";
    OutOfMemoryWithoutNull [9] Note
        "answered VK_ERROR_OUT_OF_HOST_MEMORY{during}, though no request on its thread had been refused";
    OtherErrorAfterNull [9] Note
        "answered an error other than VK_ERROR_OUT_OF_HOST_MEMORY{during}, after a request of it had been refused";
    ReallocatedUnknown [11] Violation
        "reallocated a pointer through {owner} allocator that no callback gave, or that went long ago{during}";
    ReallocatedFreed [11] Violation
        "reallocated a block of {bytes} through {owner} allocator that had gone{during}";
    ReallocatedThroughOther [11] Violation
        "reallocated {bytes} of {other owner} allocator through {owner}, {incompatible}{during}";
    ZeroAnswered [14] Violation
        "answered a reallocation to size 0, through {owner} allocator, with a block and not with NULL{during}";
    OtherAlignment [15] Violation
        "reallocated a block of {owner} allocator to {bytes} with {alignment}{during}";
    OldBlockGivenAway [16] Violation
        "gave a block of {owner} allocator to somebody else, after its reallocation had failed{during}";
    NullFree [18] Note
        "freed NULL through {owner} allocator{during}";
    FreedUnknown [19] Violation
        "freed a pointer through {owner} allocator that no callback gave, or that went long ago{during}";
    FreedTwice [19] Violation
        "freed a block of {bytes} through {owner} allocator that had gone{during}";
    FreedInTransit [19] Violation
        "freed a block of {bytes} through {owner} allocator while a reallocation of it was running{during}";
    FreedThroughOther [19] Violation
        "freed {bytes} of {other owner} allocator through {owner}, {incompatible}{during}";
    InternalType [20] Violation
        "told {owner} allocator of {bytes} internal memory that is not executable{during}";
    InternalNegative [20] Violation
        "told {owner} allocator that {bytes} internal memory went, more than had come{during}";
    InternalLeft [20] Violation
        "never told {owner} allocator that {bytes} internal memory went";
    InternalAtEnd [20] Note
        "{bytes} internal memory of which {owner} allocator was told had not gone at the end";
    NotifiedBetweenCommands [21] Suspect
        "told {owner} allocator of {bytes} internal memory{between}";
    NotifiedOnForeignThread [21] Suspect
        "told {owner} allocator of {bytes} internal memory{foreign}";
    AskedBetweenCommands [22] Suspect
        "asked {owner} allocator for {bytes}{in}{between}";
    FreedBetweenCommands [22] Suspect
        "freed {bytes} of {owner} allocator{taken}{between}";
    AskedOnForeignThread [22 23] Suspect
        "asked {owner} allocator for {bytes}{in}{foreign}";
    FreedOnForeignThread [22 23] Suspect
        "freed {bytes} of {owner} allocator{taken}{foreign}";
    CommandInCallback [25] Violation
        "called {command} from inside a callback";
    OutsideDeferred [26] Violation
        "asked {owner} allocator for {bytes}{in}, which is neither the deferred operation's nor the deferred command's";
    CommandBlockLeft [28] Violation
        "left {bytes} of {owner} allocator{taken}, live when that returned{later}";
    CommandLessSpecific [28] Violation
        "asked {owner} allocator for {bytes}{in}{though}";
    CacheElsewhere [29] Violation
        "asked {owner} allocator for {bytes}{in}{though}";
    CacheAsObject [29] Violation
        "asked {owner} allocator for {bytes}{in}, though what belongs to a cache has scope CACHE";
    ObjectLessSpecific [30] Violation
        "asked {owner} allocator for {bytes}{in}{though}";
    OtherScope [30] Note
        "reallocated a block of {owner} allocator to {bytes}, a scope that it was not made with{during}";
    DeviceLessSpecific [31] Violation
        "asked {owner} allocator for {bytes}{in}{though}";
    DeviceTooSpecific [31] Violation
        "asked {owner} allocator for {bytes}{in}, which is not for this scope";
    InstanceElsewhere [32] Violation
        "asked {owner} allocator for {bytes}{in}{though or not for it}";
    PoolPassedOver [34] Violation
        "asked {owner} allocator for {bytes}{in}, though {other}, which it works on, was given its own";
    PoolNeverAsked [34] Note
        "asked nobody for memory of what was made from {object}: it was taken with the pool, or past the callbacks";
    BadScope [35] Violation
        "asked {owner} allocator for {bytes}{in}, with a scope that does not exist";
    DeviceScopeInCreate [36] Note
        "asked {owner} allocator for {bytes}{in}, which makes an object";
    CacheScopeElsewhere [37] Violation
        "asked {owner} allocator for {bytes}{in}, which has no cache";
    DescriptorPoolElsewhere [38] Violation
        "asked {owner} allocator for {bytes}{in}, which may take nothing for the pool";
    CommandPoolElsewhere [39] Violation
        "asked {owner} allocator for {bytes}{in}, which may take nothing for the pool";
    ObjectOutsideCreate [40] Violation
        "asked {owner} allocator for {bytes}{in}, which makes no {created}";
    LiveAfterDestroy [41] Violation
        "left {bytes} of {owner} allocator{taken}, live when {against} returned{later}";
    FreedInOtherCommand [41] Note
        "freed {bytes} of {owner} allocator{taken before}{during}, which has nothing to do with it";
    LiveAtEnd [41] Note
        "{bytes} of {owner} allocator were live at the end{taken}{later}";
    OtherGroupAtDestroy [42] Violation
        "passed {command} {other owner} allocator, {not of its group} the {kind} was created with";
    NoneAtDestroy [42] Violation
        "passed {command} no allocator, though the {kind} was created with one";
    OnlyAtDestroy [43] Violation
        "passed {command} an allocator, though the {kind} was created without";
    UnknownHandle [44] Suspect
        "passed {command} a {kind} that was not created, or is gone";
}

impl FindingKind {
    /// What it is if its thread issues commands after all.
    pub(crate) const fn between_commands(self) -> Option<Self> {
        match self {
            Self::AskedOnForeignThread => Some(Self::AskedBetweenCommands),
            Self::FreedOnForeignThread => Some(Self::FreedBetweenCommands),
            Self::NotifiedOnForeignThread => Some(Self::NotifiedBetweenCommands),
            _ => None,
        }
    }

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
