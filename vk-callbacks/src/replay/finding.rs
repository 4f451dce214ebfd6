//! What a replay cannot do as the trace says, and what it is left with. Which rules the trace breaks is for the judge to say.

#![forbid(unsafe_code)]

use core::fmt;

use crate::trace::{Pointer, Request};

/// Something about a replay that its owner may want to know. Which rules were broken says the [`Judge`](crate::Judge).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayFinding {
    /// The size cannot be had in an address space; the block is kept without its bytes.
    ImpossibleSize {
        /// The block.
        block: Pointer,
        /// What was asked for, in bytes.
        size: u64,
    },
    /// The recorder lost events here; what follows may be counted wrongly.
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

impl fmt::Display for ReplayFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ImpossibleSize { block, size } => {
                write!(f, "block {block} has {size} bytes, more than can be had")
            }
            Self::Lost { events } => write!(
                f,
                "the recorder lost {events} events here for want of memory"
            ),
            Self::SinkRefused { block, size } => write!(
                f,
                "the replay's allocator refused the {size} bytes of block {block}"
            ),
            Self::StillLive {
                block,
                owner,
                asked,
            } => {
                write!(
                    f,
                    "block {block} of owner {owner}, {} bytes of scope {}, was live at the end",
                    asked.size, asked.scope
                )
            }
        }
    }
}
