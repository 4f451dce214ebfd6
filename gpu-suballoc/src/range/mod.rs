//! Ranges of a block: who has which bytes of it, in constant time.
//!
//! ```text
//!   virtual_block.rs    VirtualBlock: the public face, with host memory of its own; virtual_linear.rs: where it is a stack or a ring
//!   range_allocator.rs  allocate, free       query.rs  ids, sums, the walk       batch.rs  many at once
//!   free_index.rs       holes of one block or of many, one list a bin; bins.rs: which bins have any; bin_heads.rs: their first holes
//!   free_search.rs      the hole for a request
//!   exchange.rs         a live range lies elsewhere, under the same id
//!   node_store.rs       nodes, in chunks that are handed in, for one block or many; node.rs: their 32 bytes
//!   chunk_table.rs      where the chunks are; spare_nodes.rs: which of them have a node to spare
//!   linear.rs           LinearRanges: stacks and rings, which need none of the rest
//!   place_at.rs         a range at a given offset
//!   rounding.rs         rounding; types.rs: requests and results
//! ```
//!
//! A block is a row of nodes in order of offset, each a hole or a live range; no two holes are neighbours. Two words of bits find a bin
//! with a hole that is large enough, and the bin's head says where it lies. An id is a node's number and its generation, which goes up
//! when the range is given back. Only `node_store.rs` and `virtual_block.rs` have anything unsafe: memory that comes and goes.

mod batch;
mod bin_heads;
mod bins;
mod chunk_table;
mod exchange;
mod free_index;
mod free_search;
mod linear;
mod node;
mod node_store;
mod place_at;
mod query;
mod range_allocator;
mod rounding;
mod spare_nodes;
#[cfg(test)]
mod tests;
mod types;
mod virtual_block;
mod virtual_linear;

pub(crate) use self::free_index::FreeIndex;
pub(crate) use self::free_search::{FreeRange, GranuleRequest};
pub(crate) use self::linear::{LinearRanges, LinearRefusal, LinearShortage};
pub(crate) use self::node::MAX_NOTED_ALIGNMENT;
pub(crate) use self::node_store::{NodeShortage, NodeStore};
pub(crate) use self::range_allocator::RangeAllocator;
pub(crate) use self::types::{
    Fit, LiveRange, MAX_GENERATION, NODES_PER_ALLOCATION, RangeError, RangeRequest, Span, SpanState,
};
pub use self::virtual_block::{
    VirtualAllocation, VirtualAllocationInfo, VirtualAllocationOptions, VirtualBlock,
    VirtualBlockError, VirtualBlockStatistics, VirtualPiece, VirtualRange,
};
