#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::NoticeEvent;

use super::fields::MAX_NAME;
use crate::raw::{RawCallbacks, RawRequest};

/// An event of a trace. Text is borrowed from the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceEvent<'t> {
    /// An owner of callbacks was declared: an object with callbacks of its own.
    Owner {
        /// Its number, at least 1; 0 means no owner.
        owner: u64,
        /// The owner above (a buffer's device, a device's instance), 0 for none.
        parent: u64,
        /// What kind of object, `VkBuffer`.
        kind: &'t str,
    },
    /// A phase of the program began; the one before it ended.
    Phase {
        /// The phase's name.
        name: &'t str,
    },
    /// A Vulkan command was entered. Commands of one thread nest.
    Enter {
        /// The caller; its owner is the object of the command, 0 if unknown.
        by: Caller,
        /// The command's name, `vkCreateBuffer`.
        command: &'t str,
    },
    /// The innermost command of that thread returned.
    Leave {
        /// The caller; the owner is 0.
        by: Caller,
        /// The `VkResult`; 0 for commands that return nothing.
        result: i32,
    },
    /// `pfnAllocation` answered.
    Allocate {
        /// The caller.
        by: Caller,
        /// The block, or [`Pointer::Null`] if the request was refused.
        block: Pointer,
        /// The request.
        asked: Request,
    },
    /// `pfnReallocation` was called: the old block is in transit until the thread's [`TraceEvent::Reallocate`].
    ReallocateBegin {
        /// The caller.
        by: Caller,
        /// The block to be changed.
        old: Pointer,
    },
    /// `pfnReallocation` answered.
    Reallocate {
        /// The caller.
        by: Caller,
        /// The block that was to be changed.
        old: Pointer,
        /// The new block: always a new number, even if the address stayed.
        new: Pointer,
        /// The request.
        asked: Request,
    },
    /// `pfnFree` was called.
    Free {
        /// The caller.
        by: Caller,
        /// The block, or [`Pointer::Null`], which is legal and does nothing.
        block: Pointer,
    },
    /// `pfnInternalAllocation` or `pfnInternalFree` was called.
    Notice {
        /// The caller.
        by: Caller,
        /// Which of the two.
        event: NoticeEvent,
        /// The bytes.
        size: u64,
        /// `VkInternalAllocationType`; 0, executable, is the only legal one.
        kind: i32,
        /// `VkSystemAllocationScope` as it was passed.
        scope: i32,
    },
    /// A command created an object.
    Created {
        /// The caller, with the owner of the callbacks, 0 for none.
        by: Caller,
        /// The object's handle, 0 for none.
        handle: u64,
        /// What kind of object, `VkBuffer`.
        kind: &'t str,
    },
    /// A command destroyed an object: the thread's innermost command, or its last one.
    Destroyed {
        /// The caller, with the owner of the callbacks, 0 for none.
        by: Caller,
        /// The object's handle, 0 for none.
        handle: u64,
        /// What kind of object.
        kind: &'t str,
    },
    /// An observation that the other lines do not show.
    Seen {
        /// The caller.
        by: Caller,
        /// The block; NULL for none.
        block: Pointer,
        /// What.
        what: Sighting,
    },
    /// The recorder had no memory for some events at this place: later lines may name unknown blocks.
    Lost {
        /// The number of events, at least 1.
        events: u64,
    },
}

/// An observation of the struct or an address, which the calls do not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sighting {
    /// The callbacks have no `pfnAllocation` (V1).
    NoAllocation,
    /// The callbacks have no `pfnReallocation` (V2).
    NoReallocation,
    /// The callbacks have no `pfnFree` (V3).
    NoFree,
    /// The callbacks have one internal notification without the other (V4).
    HalfInternal,
    /// A call came with unknown user data (V5).
    UnknownUserData,
    /// A call came through a struct after its command had returned (V6).
    OldStruct,
    /// The block is not aligned as requested (V8).
    Misaligned,
}

impl Sighting {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::NoAllocation,
        Self::NoReallocation,
        Self::NoFree,
        Self::HalfInternal,
        Self::UnknownUserData,
        Self::OldStruct,
        Self::Misaligned,
    ];

    /// Its word in a trace.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoAllocation => "no-pfnAllocation",
            Self::NoReallocation => "no-pfnReallocation",
            Self::NoFree => "no-pfnFree",
            Self::HalfInternal => "half-internal",
            Self::UnknownUserData => "unknown-user-data",
            Self::OldStruct => "old-struct",
            Self::Misaligned => "misaligned",
        }
    }

    pub(crate) fn missing_fact(raw: &RawCallbacks) -> impl Iterator<Item = Self> {
        [
            (raw.pfn_allocation.is_none(), Self::NoAllocation),
            (raw.pfn_reallocation.is_none(), Self::NoReallocation),
            (raw.pfn_free.is_none(), Self::NoFree),
            (raw.pfn_internal_allocation.is_some() != raw.pfn_internal_free.is_some(), Self::HalfInternal),
        ]
        .into_iter()
        .filter_map(|(lacks, what)| lacks.then_some(what))
    }
}

/// The thread of a call, and the owner of the callbacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The thread, from 1 in the order of appearance in the process; 0 if unknown.
    pub thread: u64,
    /// The owner of the callbacks, 0 if unknown.
    pub owner: u64,
}

/// A request to `pfnAllocation` or `pfnReallocation`, unchecked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Bytes; 0 is legal.
    pub size: u64,
    /// Bytes; legal when a power of two.
    pub align: u64,
    /// `VkSystemAllocationScope`; legal when 0 to 4.
    pub scope: i32,
}

impl From<RawRequest> for Request {
    fn from(asked: RawRequest) -> Self {
        Self { size: asked.size as u64, align: asked.align as u64, scope: asked.scope }
    }
}

/// A pointer in a trace: a unique number of the block instead of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pointer {
    /// NULL; written `0`.
    Null,
    /// A block of a callback; written as its number, from 1.
    Block(u64),
    /// A pointer that no recorded call returned; written `?` and a number, one for each address.
    Unknown(u64),
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("0"),
            Self::Block(id) => write!(f, "{id}"),
            Self::Unknown(id) => write!(f, "?{id}"),
        }
    }
}

/// An unreadable trace: the line, and the expectation there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceError {
    /// The line, counted from 1. For a missing end, the line where it should stand.
    pub line: u64,
    /// What is wrong there.
    pub fault: TraceFault,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceFault {
    /// The first line is no header of a trace.
    NotATrace,
    /// The first line names a version that this reader does not know.
    UnknownVersion,
    /// The line is not UTF-8.
    NotText,
    /// The line begins with no operation of this format.
    UnknownOperation,
    /// The line ends before this field.
    MissingField(&'static str),
    /// This field is not a number in its range.
    BadNumber(&'static str),
    /// This field is not one of its words.
    BadWord(&'static str),
    /// This field is a name longer than [`TraceReader::MAX_NAME`](crate::TraceReader::MAX_NAME).
    TooLong(&'static str),
    /// The line has more fields.
    ExtraField,
    /// The text ends within the line: no line feed follows.
    CutOff,
    /// The text ends, and no end marker was seen.
    NoEnd,
    /// The end marker counts another number of lines than stand before it.
    WrongCount {
        /// What the marker says.
        said: u64,
    },
    /// A line follows the end marker.
    BehindEnd,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match self.fault {
            TraceFault::NotATrace => {
                f.write_str("expected `# steward host trace 2`: this is no host trace, give another file")
            }
            TraceFault::UnknownVersion => {
                f.write_str("expected host trace version 2: read this one with a newer program")
            }
            TraceFault::NotText => f.write_str("expected UTF-8 text: the file is damaged, or still compressed"),
            TraceFault::UnknownOperation => {
                f.write_str("expected one of the format's operation letters: the file is damaged")
            }
            TraceFault::MissingField(field) => {
                write!(f, "expected the field `{field}`, and the line ends: the file is damaged")
            }
            TraceFault::BadNumber(field) => {
                write!(f, "expected a number in range for the field `{field}`: the file is damaged")
            }
            TraceFault::BadWord(field) => {
                write!(f, "expected a known word for the field `{field}`: the file is damaged, or newer")
            }
            TraceFault::TooLong(field) => {
                write!(f, "expected at most {MAX_NAME} bytes in the field `{field}`: the file is damaged")
            }
            TraceFault::ExtraField => {
                f.write_str("expected the end of the line, and more fields follow: the file is damaged")
            }
            TraceFault::CutOff => {
                f.write_str("expected a line feed, and the text ends: the trace was cut off, record it again")
            }
            TraceFault::NoEnd => {
                f.write_str("expected the end marker `z`, and the text ends: the trace was cut off, record it again")
            }
            TraceFault::WrongCount { said } => {
                write!(
                    f,
                    "expected {} lines before the end marker, which says {said}: lines are missing",
                    self.line.saturating_sub(1)
                )
            }
            TraceFault::BehindEnd => {
                f.write_str("expected nothing behind the end marker: two traces were joined, split them")
            }
        }
    }
}

impl core::error::Error for TraceError {}
