//! A block is a sequence of nodes in order of offset. Each node is a hole or a live range; no two holes are adjacent.

mod allocator;
mod error;
mod free_index;
mod granule_request;
mod node;
#[cfg(test)]
mod tests;
mod virtual_block;

pub(crate) use self::allocator::{LiveRange, NODES_PER_ALLOCATION, NODES_PER_BLOCK, RangeAllocator, Span};
pub use self::allocator::{VirtualAllocation, VirtualRange};
pub use self::error::VirtualBlockError;
pub(crate) use self::free_index::{FreeIndex, FreeRange};
pub(crate) use self::granule_request::{Fit, GranuleRequest, RangeRequest};
pub(crate) use self::node::{MAX_NOTED_ALIGNMENT, NodeStore};
pub use self::virtual_block::{
    VirtualAllocationInfo, VirtualAllocationOptions, VirtualBlock, VirtualBlockStatistics, VirtualPiece,
};
