//! What a replay cannot do, and its leftover blocks. The judge finds broken rules.

#![forbid(unsafe_code)]

use core::fmt;

use crate::trace::{Pointer, Request};

/// An observation of a replay. The [`Judge`](crate::Judge) finds broken rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayFinding {
    /// No address space has the size; the block counts without its bytes.
    ImpossibleSize {
        /// The block.
        block: Pointer,
        /// The requested bytes.
        size: u64,
    },
    /// The recorder lost events here; what follows may be counted wrongly.
    Lost {
        /// The number of events.
        events: u64,
    },
    /// The replay's own sink had no memory for the block. No mistake of the trace.
    SinkRefused {
        /// The block.
        block: Pointer,
        /// Bytes.
        size: u64,
    },
    /// The trace ended and the block was live. The line is that of its allocation.
    StillLive {
        /// The block.
        block: Pointer,
        /// The owner of its callbacks.
        owner: u64,
        /// The request.
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
