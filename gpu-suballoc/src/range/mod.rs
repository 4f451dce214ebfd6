//! Allocates and frees ranges of a block in constant time.
//!
//! ```text
//!   virtual_block.rs    VirtualBlock: the public API, with its own host memory; virtual_linear.rs: the same for stacks and rings
//!   range_allocator.rs  allocate, free       query.rs  ids, sums, the walk       batch.rs  free many ranges
//!   free_index.rs       holes of one block or of many, a list for each bin; bins.rs: bins with holes; bin_heads.rs: their first holes
//!   free_search.rs      finds the hole for a request
//!   node_store.rs       nodes, in chunks of the user's memory, for one block or many; node.rs: their 32 bytes
//!   chunk_table.rs      addresses of the chunks; spare_nodes.rs: chunks with spare nodes
//!   linear.rs           LinearRanges: stacks and rings, independent of the other files
//!   place_at.rs         allocates at a fixed offset
//!   rounding.rs         rounding; types.rs: requests and results
//! ```
//!
//! A block is a sequence of nodes in order of offset. Each node is a hole or a live range; no two holes are adjacent. Two words of bits
//! identify a bin with a large enough hole, and the bin's head names the hole. An id is a node's number and its generation, which increases
//! when the range is freed. Only `node_store.rs` and `virtual_block.rs` contain unsafe code, for host memory.

mod batch;
mod bin_heads;
mod bins;
mod chunk_table;
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
pub(crate) use self::linear::{LinearRange, LinearRanges, LinearRefusal, LinearShortage};
pub(crate) use self::node::MAX_NOTED_ALIGNMENT;
pub(crate) use self::node_store::{NodeShortage, NodeStore};
pub(crate) use self::range_allocator::RangeAllocator;
pub(crate) use self::types::{
    Fit, LiveRange, NODES_PER_ALLOCATION, RangeError, RangeRequest, Span, SpanState,
};
pub use self::virtual_block::{
    VirtualAllocation, VirtualAllocationInfo, VirtualAllocationOptions, VirtualBlock,
    VirtualBlockError, VirtualBlockStatistics, VirtualPiece, VirtualRange,
};
