//! Ranges of a block: who has which bytes of it, in constant time.

mod batch;
mod bins;
mod conform;
mod donate;
mod holes;
mod look;
mod node;
mod range_core;
mod store;
#[cfg(test)]
mod tests;
mod types;
mod virtual_block;

pub(crate) use self::conform::{Conformed, Unfit, align_down, align_up, conform};
pub(crate) use self::range_core::RangeCore;
pub(crate) use self::store::{Lack, Memory};
pub(crate) use self::types::{Fit, Found, Given, MAX_GENERATION, NODES_PER_TAKE, Refusal, Search, Span, SpanState, Taken, Want};
pub use self::virtual_block::{
    VirtualAllocation, VirtualAllocationInfo, VirtualAllocationOptions, VirtualBlock, VirtualBlockError, VirtualBlockStatistics,
    VirtualPiece, VirtualRange,
};
