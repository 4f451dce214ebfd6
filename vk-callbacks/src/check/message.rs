//! The sentence of a finding: the rules, the culprit if known, the observation, the count.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::Scope;

use super::finding::{CheckFinding, FindingKind as Kind, write_rules};
use crate::command::BracketCoverage;

impl fmt::Display for CheckFinding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_rules(self.rules(), f)?;
        f.write_str(": ")?;
        match self.culprit() {
            "" => self.at_end(f)?,
            culprit => {
                write!(f, "{culprit} ")?;
                self.predicate(f)?;
            }
        }
        if !self.module.is_empty() {
            write!(f, "; called from {}", self.module)?;
        }
        if self.count > 1 {
            write!(f, "; {} times", self.count)?;
        }
        Ok(())
    }
}

impl CheckFinding<'_> {
    /// The owner, the bytes, and the command after a comma.
    const fn phrases(&self) -> (OwnerPhrase<'_>, Bytes<'_>, After<'_>) {
        (
            OwnerPhrase(self.owner_kind),
            Bytes(self),
            After(", in ", self.command),
        )
    }

    fn predicate(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whose, bytes, during) = self.phrases();
        match self.kind {
            Kind::MissingAllocation => {
                write!(f, "handed over {whose} allocator without pfnAllocation")
            }
            Kind::MissingReallocation => {
                write!(f, "handed over {whose} allocator without pfnReallocation")
            }
            Kind::MissingFree => write!(f, "handed over {whose} allocator without pfnFree"),
            Kind::HalfInternal => write!(
                f,
                "handed over {whose} allocator with one internal notification and not the other"
            ),
            Kind::UnknownUserData => {
                write!(
                    f,
                    "called a callback with user data that was never handed out, or that nobody watches any more{during}"
                )
            }
            Kind::OldStructUsed => {
                write!(
                    f,
                    "called {whose} allocator through the struct itself, after the command that got it had returned{during}"
                )
            }
            Kind::MisalignedAnswer => {
                write!(
                    f,
                    "answered a request to {whose} allocator for {bytes} with a pointer that is not aligned as was asked{during}"
                )
            }
            Kind::LiveBlockGivenAgain => {
                write!(
                    f,
                    "answered a request to {whose} allocator for {bytes} with the address of a block that is live{during}"
                )
            }
            Kind::OldBlockGivenAway => {
                write!(
                    f,
                    "gave a block of {whose} allocator to somebody else, after its reallocation had failed{during}"
                )
            }
            Kind::ZeroAnswered => {
                write!(
                    f,
                    "answered a reallocation to size 0, through {whose} allocator, with a block and not with NULL{during}"
                )
            }
            Kind::OutOfMemoryWithoutNull => {
                write!(
                    f,
                    "answered VK_ERROR_OUT_OF_HOST_MEMORY{during}, though no request on its thread had been refused"
                )
            }
            Kind::OtherErrorAfterNull => {
                write!(
                    f,
                    "answered an error other than VK_ERROR_OUT_OF_HOST_MEMORY{during}, after a request of it had been refused"
                )
            }
            Kind::PoolNeverAsked => write!(
                f,
                "asked nobody for memory of what was made from {}: it was taken with the pool, or past the callbacks",
                Named(self.owner_kind)
            ),
            Kind::CommandInCallback => write!(f, "called {} from inside a callback", self.command),
            Kind::InternalType
            | Kind::InternalNegative
            | Kind::InternalLeft
            | Kind::InternalAtEnd
            | Kind::NotifiedBetweenCommands
            | Kind::NotifiedOnForeignThread => self.internal(f),
            Kind::ReallocatedUnknown
            | Kind::ReallocatedFreed
            | Kind::ReallocatedThroughOther
            | Kind::OtherAlignment
            | Kind::OtherScope => self.reallocated(f),
            Kind::NullFree
            | Kind::FreedUnknown
            | Kind::FreedTwice
            | Kind::FreedInTransit
            | Kind::FreedThroughOther
            | Kind::FreedBetweenCommands
            | Kind::FreedOnForeignThread
            | Kind::FreedInOtherCommand => self.freed(f),
            Kind::CommandBlockLeft | Kind::LiveAfterDestroy | Kind::LiveAtEnd => {
                self.left_behind(f)
            }
            Kind::OtherGroupAtDestroy
            | Kind::NoneAtDestroy
            | Kind::OnlyAtDestroy
            | Kind::UnknownHandle => self.destroyed(f),
            _ => self.requested(f),
        }
    }

    fn requested(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whose, bytes, _) = self.phrases();
        let during = After(" in ", self.command);
        write!(f, "asked {whose} allocator for {bytes}{during}")?;
        let against = Named(self.against);
        match self.kind {
            Kind::BadAlignment => f.write_str(", with an alignment that is no power of two"),
            Kind::BadScope => f.write_str(", with a scope that does not exist"),
            Kind::AskedBetweenCommands | Kind::AskedOnForeignThread => self.place(f),
            Kind::OutsideChain => f.write_str(", which was not given it"),
            Kind::OutsideDeferred => f.write_str(
                ", which is neither the deferred operation's nor the deferred command's",
            ),
            Kind::CommandLessSpecific
            | Kind::CacheElsewhere
            | Kind::ObjectLessSpecific
            | Kind::DeviceLessSpecific
            | Kind::InstanceElsewhere
                if !self.against.is_empty() =>
            {
                write!(f, ", though {against} was given its own")
            }
            Kind::PoolPassedOver => write!(
                f,
                ", though {against}, which it works on, was given its own"
            ),
            Kind::InstanceElsewhere | Kind::DeviceTooSpecific => {
                f.write_str(", which is not for this scope")
            }
            Kind::CacheAsObject => f.write_str(", though what belongs to a cache has scope CACHE"),
            Kind::DeviceScopeInCreate => f.write_str(", which makes an object"),
            Kind::CacheScopeElsewhere => f.write_str(", which has no cache"),
            Kind::DescriptorPoolElsewhere | Kind::CommandPoolElsewhere => {
                f.write_str(", which may take nothing for the pool")
            }
            Kind::ObjectOutsideCreate => match self.owner_kind {
                "" | "VkInstance" | "VkDevice" => f.write_str(", which makes no object"),
                kind => write!(f, ", which makes no {kind}"),
            },
            _ => Ok(()),
        }
    }

    fn reallocated(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whose, bytes, during) = self.phrases();
        match self.kind {
            Kind::ReallocatedUnknown => {
                write!(
                    f,
                    "reallocated a pointer through {whose} allocator that no callback gave, or that went long ago{during}"
                )
            }
            Kind::ReallocatedFreed => write!(
                f,
                "reallocated a block of {bytes} through {whose} allocator that had gone{during}"
            ),
            Kind::ReallocatedThroughOther => {
                let gave = OwnerPhrase(self.against);
                write!(
                    f,
                    "reallocated {bytes} of {gave} allocator through {whose}, {}{during}",
                    self.other()
                )
            }
            Kind::OtherAlignment => {
                write!(
                    f,
                    "reallocated a block of {whose} allocator to {bytes} with "
                )?;
                match self.alignments {
                    Some((made, asked)) => write!(
                        f,
                        "alignment {asked}, though it was made with {made}{during}"
                    ),
                    None => write!(f, "another alignment than it was made with{during}"),
                }
            }
            _ => write!(
                f,
                "reallocated a block of {whose} allocator to {bytes}, a scope that it was not made with{during}"
            ),
        }
    }

    fn freed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whose, bytes, during) = self.phrases();
        match self.kind {
            Kind::NullFree => write!(f, "freed NULL through {whose} allocator{during}"),
            Kind::FreedUnknown => {
                write!(
                    f,
                    "freed a pointer through {whose} allocator that no callback gave, or that went long ago{during}"
                )
            }
            Kind::FreedTwice => write!(
                f,
                "freed a block of {bytes} through {whose} allocator that had gone{during}"
            ),
            Kind::FreedInTransit => {
                write!(
                    f,
                    "freed a block of {bytes} through {whose} allocator while a reallocation of it was running{during}"
                )
            }
            Kind::FreedThroughOther => {
                let gave = OwnerPhrase(self.against);
                write!(
                    f,
                    "freed {bytes} of {gave} allocator through {whose}, {}{during}",
                    self.other()
                )
            }
            Kind::FreedInOtherCommand => {
                write!(
                    f,
                    "freed {bytes} of {whose} allocator{}{during}, which has nothing to do with it",
                    allocated_in(self.against)
                )
            }
            _ => {
                write!(
                    f,
                    "freed {bytes} of {whose} allocator{}",
                    allocated_in(self.command)
                )?;
                self.place(f)
            }
        }
    }

    fn left_behind(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whose, bytes, _) = self.phrases();
        let allocated = allocated_in(self.command);
        write!(f, "left {bytes} of {whose} allocator{allocated}")?;
        match self.kind {
            Kind::CommandBlockLeft => f.write_str(", live when that returned")?,
            _ => write!(f, ", live when {} returned", self.against)?,
        }
        self.freed_later(f)
    }

    /// Writes a finding without a culprit: memory was live at the end, but the application may never have destroyed the object.
    fn at_end(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whose, bytes, _) = self.phrases();
        if self.kind == Kind::InternalAtEnd {
            return write!(
                f,
                "{bytes} internal memory of which {whose} allocator was told had not gone at the end"
            );
        }
        write!(
            f,
            "{bytes} of {whose} allocator were live at the end{}",
            allocated_in(self.command)
        )?;
        self.freed_later(f)
    }

    /// Whether the leftover blocks were freed later.
    fn freed_later(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.freed_later, self.freed_in) {
            (0, _) => f.write_str("; never freed"),
            (all, "") if all == self.count => f.write_str("; freed later, outside of any command"),
            (all, later) if all == self.count => write!(f, "; freed later in {later}"),
            (some, _) => write!(f, "; {some} of them freed later"),
        }
    }

    fn internal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whose, bytes, during) = self.phrases();
        match self.kind {
            Kind::InternalType => write!(
                f,
                "told {whose} allocator of {bytes} internal memory that is not executable{during}"
            ),
            Kind::InternalNegative => {
                write!(
                    f,
                    "told {whose} allocator that {bytes} internal memory went, more than had come{during}"
                )
            }
            Kind::InternalLeft => write!(
                f,
                "never told {whose} allocator that {bytes} internal memory went"
            ),
            _ => {
                write!(f, "told {whose} allocator of {bytes} internal memory")?;
                self.place(f)
            }
        }
    }

    fn destroyed(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, command) = (self.owner_kind, self.command);
        match self.kind {
            Kind::OtherGroupAtDestroy => {
                let passed = OwnerPhrase(self.against);
                let other = if self.groups_reported {
                    "which is not compatible with that"
                } else {
                    "of another owner than"
                };
                write!(
                    f,
                    "passed {command} {passed} allocator, {other} the {kind} was created with"
                )
            }
            Kind::NoneAtDestroy => write!(
                f,
                "passed {command} no allocator, though the {kind} was created with one"
            ),
            Kind::OnlyAtDestroy => write!(
                f,
                "passed {command} an allocator, though the {kind} was created without"
            ),
            _ => write!(
                f,
                "passed {command} a {kind} that was not created, or is gone"
            ),
        }
    }

    /// What is wrong with the callbacks of another owner, if known.
    const fn other(&self) -> &'static str {
        if self.groups_reported {
            "which is not compatible"
        } else {
            "callbacks of another owner"
        }
    }

    /// The place of a call outside of any command.
    fn place(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let foreign = matches!(
            self.kind,
            Kind::AskedOnForeignThread | Kind::FreedOnForeignThread | Kind::NotifiedOnForeignThread
        );
        f.write_str(match (self.coverage, foreign) {
            (BracketCoverage::Complete, true) => ", on a thread that has never issued a command",
            (BracketCoverage::Complete, false) => ", between commands",
            (_, true) => ", on a thread that was not seen to call Vulkan",
            (_, false) => ", outside of the commands that were seen",
        })
    }
}

/// `the device`, `VkBuffer`.
struct Named<'a>(&'a str);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            "" => "somebody",
            "VkDevice" => "the device",
            "VkInstance" => "the instance",
            kind => kind,
        })
    }
}

/// `the device's`, `VkBuffer's`.
struct OwnerPhrase<'a>(&'a str);

impl fmt::Display for OwnerPhrase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}'s", Named(self.0))
    }
}

/// `4064 B (scope OBJECT)`; for several blocks `4064 B each`, or `9000 B in all` if their sizes differ.
struct Bytes<'a>(&'a CheckFinding<'a>);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.size {
            Some(size) => write!(f, "{size} B{}", if self.0.count > 1 { " each" } else { "" })?,
            None => write!(f, "{} B in all", self.0.bytes)?,
        }
        match self.0.scope {
            Some(scope) => write!(f, " (scope {})", upper(scope)),
            None => Ok(()),
        }
    }
}

const fn upper(scope: Scope) -> &'static str {
    match scope {
        Scope::Command => "COMMAND",
        Scope::Object => "OBJECT",
        Scope::Cache => "CACHE",
        Scope::Device => "DEVICE",
        Scope::Instance => "INSTANCE",
    }
}

/// A text and a name, `, in vkCreateBuffer`; nothing without a name.
struct After<'a>(&'static str, &'a str);

impl fmt::Display for After<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.1.is_empty() {
            return Ok(());
        }
        write!(f, "{}{}", self.0, self.1)
    }
}

const fn allocated_in(command: &str) -> After<'_> {
    After(", taken in ", command)
}
