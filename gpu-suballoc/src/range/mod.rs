//! Ranges of a block: who has which bytes of it, in constant time.
//!
//! ```text
//!   virtual_block.rs    VirtualBlock: the public face, with host memory of its own
//!   range_allocator.rs  allocate, free       query.rs  ids, sums, the walk       batch.rs  many at once
//!   free_lists.rs       holes, one list a bin; bins.rs: which bin, and which bins have any; bin_heads.rs: their first holes
//!   node_store.rs       nodes, in chunks that are handed in, for one allocator or many; node.rs: their 32 bytes
//!   rounding.rs         rounding; types.rs: requests and results; memory.rs: what memory an allocator lacks
//! ```
//!
//! A block is a row of nodes in order of offset, each a hole or a live range; no two holes are neighbours. Two words of bits find a bin
//! with a hole that is large enough, and the bin's head says where it lies. An id is a node's number and its generation, which goes up
//! when the range is given back. Only `node_store.rs` and `virtual_block.rs` have anything unsafe: memory that comes and goes.

mod batch;
mod bin_heads;
mod bins;
mod free_lists;
mod memory;
mod node;
mod node_store;
mod query;
mod range_allocator;
mod rounding;
#[cfg(test)]
mod tests;
mod types;
mod virtual_block;

pub(crate) use self::node_store::{NodeShortage, NodeStore};
pub(crate) use self::range_allocator::RangeAllocator;
pub(crate) use self::rounding::{align_down, align_up};
pub(crate) use self::types::{
    Fit, LiveRange, MAX_GENERATION, NODES_PER_ALLOCATION, RangeError, RangeRequest, Search, Span,
    SpanState,
};
pub use self::virtual_block::{
    VirtualAllocation, VirtualAllocationInfo, VirtualAllocationOptions, VirtualBlock,
    VirtualBlockError, VirtualBlockStatistics, VirtualPiece, VirtualRange,
};
