//! What a replay finds in a trace: observations, no errors.

#![forbid(unsafe_code)]

use core::fmt;

use crate::trace::{Pointer, Request};

/// Something worth telling about a trace. The rows are those of the `VkAllocationCallbacks` contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// A request was answered with NULL. Legal (V9).
    NullAnswer {
        /// What was asked for.
        asked: Request,
    },
    /// A pointer was freed that no line gave (V19).
    FreeUnknown {
        /// The pointer.
        pointer: Pointer,
    },
    /// A block was freed that had gone already (V19).
    FreeTwice {
        /// The block.
        block: Pointer,
    },
    /// A pointer was reallocated that no line gave (V11).
    ReallocateUnknown {
        /// The pointer.
        pointer: Pointer,
    },
    /// A block was reallocated that had gone already (V11).
    ReallocateFreed {
        /// The block.
        block: Pointer,
    },
    /// A block was given while it was still live: a free is missing from the trace.
    GivenTwice {
        /// The block.
        block: Pointer,
    },
    /// The alignment is no power of two (V7).
    BadAlignment {
        /// The block.
        block: Pointer,
        /// What was asked for, in bytes.
        align: u64,
    },
    /// The scope is none of Vulkan's five (V35).
    BadScope {
        /// The block; NULL for an internal notification.
        block: Pointer,
        /// What was passed.
        scope: i32,
    },
    /// The size cannot be had in an address space; the block is kept without its bytes.
    ImpossibleSize {
        /// The block.
        block: Pointer,
        /// What was asked for, in bytes.
        size: u64,
    },
    /// A reallocation asked for another alignment than the block was made with (V15).
    OtherAlignment {
        /// The block before.
        block: Pointer,
        /// What it was made with, in bytes; kept.
        made_with: u64,
        /// What was asked for, in bytes.
        asked: u64,
    },
    /// A reallocation named another scope than the block was made with.
    OtherScope {
        /// The block before.
        block: Pointer,
        /// What it was made with; kept.
        made_with: i32,
        /// What was passed.
        asked: i32,
    },
    /// A reallocation to size 0, which frees, answered with a block (V14).
    ZeroAnswered {
        /// The block that was answered.
        block: Pointer,
    },
    /// An internal notification of a type other than executable (V20).
    UnknownNotice {
        /// What was passed.
        kind: i32,
    },
    /// More internal memory was given back than was taken in that scope (V20).
    UnbalancedNotice {
        /// What was passed.
        scope: i32,
        /// Bytes given back.
        size: u64,
    },
    /// The recorder lost events here; what follows may be judged wrongly.
    Lost {
        /// How many.
        events: u64,
    },
    /// The replay's own sink had no memory for the block. Says nothing about the trace.
    SinkRefused {
        /// The block.
        block: Pointer,
        /// Bytes.
        size: u64,
    },
    /// The trace ended and the block was live. The line is the one that gave it.
    StillLive {
        /// The block.
        block: Pointer,
        /// The owner of the callbacks that gave it.
        owner: u64,
        /// What was asked for.
        asked: Request,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NullAnswer { asked } => {
                write!(f, "a request for {} bytes of scope {} was answered with NULL", asked.size, asked.scope)
            }
            Self::FreeUnknown { pointer } => write!(f, "pointer {pointer} was freed, and was never given"),
            Self::FreeTwice { block } => write!(f, "block {block} was freed a second time"),
            Self::ReallocateUnknown { pointer } => write!(f, "pointer {pointer} was reallocated, and was never given"),
            Self::ReallocateFreed { block } => write!(f, "block {block} was reallocated after it had gone"),
            Self::GivenTwice { block } => write!(f, "block {block} was given while it was still live"),
            Self::BadAlignment { block, align } => {
                write!(f, "block {block} was asked for with alignment {align}, no power of two")
            }
            Self::BadScope { block, scope } => write!(f, "block {block} was asked for with scope {scope}, which does not exist"),
            Self::ImpossibleSize { block, size } => write!(f, "block {block} has {size} bytes, more than can be had"),
            Self::OtherAlignment { block, made_with, asked } => {
                write!(f, "block {block}, made with alignment {made_with}, was reallocated with alignment {asked}")
            }
            Self::OtherScope { block, made_with, asked } => {
                write!(f, "block {block}, made with scope {made_with}, was reallocated with scope {asked}")
            }
            Self::ZeroAnswered { block } => write!(f, "a reallocation to size 0 was answered with block {block} instead of NULL"),
            Self::UnknownNotice { kind } => write!(f, "an internal notification had the type {kind}, which does not exist"),
            Self::UnbalancedNotice { scope, size } => {
                write!(f, "{size} bytes of internal memory of scope {scope} were given back, more than were taken")
            }
            Self::Lost { events } => write!(f, "the recorder lost {events} events here for want of memory"),
            Self::SinkRefused { block, size } => write!(f, "the replay's allocator refused the {size} bytes of block {block}"),
            Self::StillLive { block, owner, asked } => {
                write!(f, "block {block} of owner {owner}, {} bytes of scope {}, was live at the end", asked.size, asked.scope)
            }
        }
    }
}
