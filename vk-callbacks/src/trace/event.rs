//! What a line of a trace says, in either format.

#![forbid(unsafe_code)]

use core::fmt;

use alloc_core::NoticeEvent;

use crate::raw::RawCallbacks;

/// One thing that happened, in the order of the trace. Text is borrowed from the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceEvent<'t> {
    /// An owner of callbacks was declared: an object that was given callbacks of its own.
    Owner {
        /// Its number, at least 1; 0 means "nobody in particular".
        owner: u64,
        /// The owner it lies below (a buffer's device, a device's instance), 0 for none.
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
        /// Who called; its owner is the object that the command is about, 0 where nobody said.
        by: Caller,
        /// The command's name, `vkCreateBuffer`.
        command: &'t str,
    },
    /// The innermost command of that thread returned.
    Leave {
        /// Who called; the owner is 0.
        by: Caller,
        /// The `VkResult`; 0 for commands that return nothing.
        result: i32,
    },
    /// `pfnAllocation` answered.
    Allocate {
        /// Who asked, through whose callbacks.
        by: Caller,
        /// The block, or [`Pointer::Null`] when the request was refused.
        block: Pointer,
        /// What was asked for.
        asked: Request,
    },
    /// `pfnReallocation` was called: from here to the [`TraceEvent::Reallocate`] of the same thread the old block is in transit.
    /// TraceFormat 1 has no such line.
    ReallocateBegin {
        /// Who asked, through whose callbacks.
        by: Caller,
        /// The block to be changed.
        old: Pointer,
    },
    /// `pfnReallocation` answered.
    Reallocate {
        /// Who asked, through whose callbacks.
        by: Caller,
        /// The block that was to be changed.
        old: Pointer,
        /// The block that came of it: always a new number, even where the address stayed.
        new: Pointer,
        /// What was asked for.
        asked: Request,
    },
    /// `pfnFree` was called.
    Free {
        /// Who called, through whose callbacks.
        by: Caller,
        /// The block, or [`Pointer::Null`], which is legal and does nothing.
        block: Pointer,
    },
    /// `pfnInternalAllocation` or `pfnInternalFree` was called.
    Notice {
        /// Who called, through whose callbacks.
        by: Caller,
        /// Which of the two.
        event: NoticeEvent,
        /// Bytes taken or given back.
        size: u64,
        /// `VkInternalAllocationType`; 0, executable, is the only legal one.
        kind: i32,
        /// `VkSystemAllocationScope` as it was passed.
        scope: i32,
    },
    /// A command made an object.
    Created {
        /// Who called; its owner is whose callbacks the object was made with, 0 for none.
        by: Caller,
        /// The object's handle, 0 for none.
        handle: u64,
        /// What kind of object, `VkBuffer`.
        kind: &'t str,
    },
    /// A command ended an object: the thread's innermost command, or the one that it left last.
    Destroyed {
        /// Who called; its owner is whose callbacks the object was ended with, 0 for none.
        by: Caller,
        /// The object's handle, 0 for none.
        handle: u64,
        /// What kind of object.
        kind: &'t str,
    },
    /// Something that the other lines do not show.
    Seen {
        /// On which thread, at whose callbacks.
        by: Caller,
        /// The block it is about; NULL for none.
        block: Pointer,
        /// What.
        what: Sighting,
    },
    /// The recorder had no memory for so many events at this place: what follows may name blocks that no line gave.
    Lost {
        /// How many, at least 1.
        events: u64,
    },
}

/// What only those can see who have the struct or the address before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sighting {
    /// The callbacks have no `pfnAllocation` (V1).
    NoAllocation,
    /// The callbacks have no `pfnReallocation` (V2).
    NoReallocation,
    /// The callbacks have no `pfnFree` (V3).
    NoFree,
    /// The callbacks have one internal notification without the other (V4).
    HalfInternal,
    /// A call came with user data that was never handed out (V5).
    UnknownUserData,
    /// A call came through a struct after the command that got it had returned (V6).
    OldStruct,
    /// The block is not aligned as was asked (V8).
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

    /// The word for it in a trace.
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

    /// What the callbacks lack.
    pub(crate) fn missing_fact(raw: &RawCallbacks) -> impl Iterator<Item = Self> {
        [
            (raw.pfn_allocation.is_none(), Self::NoAllocation),
            (raw.pfn_reallocation.is_none(), Self::NoReallocation),
            (raw.pfn_free.is_none(), Self::NoFree),
            (
                raw.pfn_internal_allocation.is_some() != raw.pfn_internal_free.is_some(),
                Self::HalfInternal,
            ),
        ]
        .into_iter()
        .filter_map(|(lacks, what)| lacks.then_some(what))
    }
}

/// Who called, and through whose callbacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The thread, counted up from 1 in the order of first appearance in the process; 0 where it is not known.
    pub thread: u64,
    /// The owner of the callbacks, 0 where it is not known.
    pub owner: u64,
}

/// What was asked of `pfnAllocation` or `pfnReallocation`, as it was passed: nothing is checked here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Bytes; 0 is legal.
    pub size: u64,
    /// Bytes; legal when a power of two.
    pub align: u64,
    /// `VkSystemAllocationScope`; legal when 0 to 4.
    pub scope: i32,
}

/// A pointer as a trace names it: a number that is never used for two blocks, where an address would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pointer {
    /// NULL; written `0`.
    Null,
    /// A block that the trace saw being given; written as its number, from 1.
    Block(u64),
    /// A pointer that the recorder never saw being given; written `?` and a number of its own, one for each address.
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
