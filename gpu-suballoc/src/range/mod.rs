//! Allocates and frees ranges of a block in constant time.
//!
//! ```text
//!   virtual_block.rs  VirtualBlock: the public API, with its own host memory
//!   allocator.rs      the ranges of a block: allocate, at any or a given offset, free, queries
//!   free_index.rs     holes of one block or of many, a list for each bin, and the search for a request
//!   rounding.rs       sizes and offsets to multiples of powers of two
//!   node.rs           nodes of 32 bytes, for one block or many
//!   linear.rs         LinearRanges: stacks and rings, independent of the other files
//! ```
//!
//! A block is a sequence of nodes in order of offset. Each node is a hole or a live range; no two holes are adjacent. Two words of bits
//! identify a bin with a large enough hole, and the bin's head names the hole. An id is a node's number and the serial of its range, which no
//! other range has.

mod allocator;
mod free_index;
mod linear;
mod node;
mod rounding;
#[cfg(test)]
mod tests;
mod virtual_block;

pub(crate) use self::allocator::RangeAllocator;
pub(crate) use self::allocator::{Fit, LiveRange, RangeError, RangeRequest, Span, SpanState};
pub(crate) use self::free_index::FreeIndex;
pub(crate) use self::free_index::{FreeRange, GranuleRequest};
pub(crate) use self::linear::{LinearRange, LinearRanges};
pub(crate) use self::node::MAX_NOTED_ALIGNMENT;
pub(crate) use self::node::NodeStore;
pub use self::virtual_block::VirtualBlockError;
pub use self::virtual_block::{
    VirtualAllocation, VirtualAllocationInfo, VirtualAllocationOptions, VirtualBlock,
    VirtualBlockStatistics, VirtualPiece, VirtualRange,
};
