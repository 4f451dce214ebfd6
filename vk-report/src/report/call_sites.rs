#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

use super::LeakFrame;

/// All call sites of a run. Frames and stacks are stored once and named by their places.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSites {
    /// Each frame that occurs in a stack.
    pub frames: Vec<LeakFrame>,
    /// Each stack, innermost frame first, as places in `frames`.
    pub stacks: Vec<Vec<usize>>,
    /// The sites in the order of their first block.
    pub sites: Vec<CallSite>,
    /// Blocks that were ever allocated: the end of the time that `most_at` and `lifetimes` count in.
    pub blocks: u64,
    /// How many blocks had been allocated when most bytes were live.
    pub most_at: u64,
    /// Blocks that are listed nowhere, because the program had no memory for their stacks.
    #[serde(default)]
    pub lost: u64,
}

/// Blocks of one context, command, scope, size class and call stack. Bytes are those that the driver requested, without
/// what a bridge puts in front of each block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSite {
    /// The context that served them.
    pub context: String,
    /// The command that ran; empty outside of commands, as on threads of the driver's own.
    pub command: String,
    /// The scope; empty for one that Vulkan does not have.
    pub scope: String,
    /// The smallest power of two, from 16, that is no less than the size of the block when it was allocated. 0 for
    /// blocks of 0 bytes.
    pub size_class: u64,
    /// The place of its stack; none where a trace does not have it.
    pub stack: Option<usize>,
    /// Ever allocated; a block that grows adds the difference in bytes, and no block.
    pub total: BlockSum,
    /// Live at the end of the phase when all contexts held most: what the contexts' rows show.
    pub live: BlockSum,
    /// Live when all sites together had most bytes.
    pub at_peak: BlockSum,
    /// The most bytes of this site alone, with the blocks of that moment.
    pub most: BlockSum,
    /// Never freed.
    pub left: BlockSum,
    /// For how many allocations of any site its blocks lived, together.
    pub lifetimes: u64,
}

/// Blocks with their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSum {
    /// Blocks.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl BlockSum {
    /// Both together; saturates.
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self { blocks: self.blocks.saturating_add(more.blocks), bytes: self.bytes.saturating_add(more.bytes) }
    }
}

impl CallSites {
    /// The frames of a stack, innermost first; none without a stack.
    pub fn frames_of(&self, stack: Option<usize>) -> impl Iterator<Item = &LeakFrame> {
        let stack = stack.and_then(|stack| self.stacks.get(stack));
        stack.into_iter().flatten().filter_map(|frame| self.frames.get(*frame))
    }
}
