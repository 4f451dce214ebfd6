//! Ranges of a block: who has which bytes of it, in constant time.
//!
//! ```text
//!   virtual_block.rs   VirtualBlock: the public face, with host memory of its own
//!   range_core.rs      take, give          look.rs   ids, sums, the walk      batch.rs   many at once
//!   holes.rs           lists of holes, one for each bin; bins.rs: which bin, and which bins have any; heads.rs: their first holes
//!   store.rs           nodes, in memory that is donated, for one core or many; node.rs: their 32 bytes
//!   conform.rs         rounding; types.rs: what is asked and answered
//! ```
//!
//! A block is a row of nodes in order of offset, each a hole or a live range; no two holes are neighbours. Two words of bits find a bin
//! with a hole that is large enough, and the bin's head says where it lies. An id is a node's number and its generation, which goes up
//! when the range is given back. Only `store.rs`, `heads.rs`, `donate.rs` and `virtual_block.rs` have anything unsafe: memory that comes and goes.

mod batch;
mod bins;
mod conform;
mod donate;
mod heads;
mod holes;
mod look;
mod node;
mod range_core;
mod store;
#[cfg(test)]
mod tests;
mod types;
mod virtual_block;

pub(crate) use self::conform::{align_down, align_up};
pub(crate) use self::range_core::RangeCore;
pub(crate) use self::store::{Lack, Memory, Store};
pub(crate) use self::types::{Fit, Found, MAX_GENERATION, NODES_PER_TAKE, Refusal, Search, Span, SpanState, Want};
pub use self::virtual_block::{
    VirtualAllocation, VirtualAllocationInfo, VirtualAllocationOptions, VirtualBlock, VirtualBlockError, VirtualBlockStatistics,
    VirtualPiece, VirtualRange,
};
