//! Blocks that own other blocks, as ralloc's do: freeing one frees all below it.
//!
//! ```text
//!   TaggedDomain --- Context        all blocks of a domain are memory of its context, counted there
//!        |
//!   TaggedBlock ---+--- block       32 bytes in front of each (see `header`): parent, siblings, size, destructor, domain
//!                  +--- block ---- block
//! ```
//!
//! A block keeps its domain wherever it is stolen to, and is freed to that domain's context.
//!
//! Headers refer by number to two static tables of the process, of 65 535 domains and 4 092 destructors.

mod block;
mod collector;
mod domain;
mod header;
mod linear;
mod reserve;
mod tree;

pub use block::TaggedBlock;
pub use collector::GcBlocks;
pub use domain::{DomainId, TaggedDomain};
pub use linear::LinearBlocks;

/// A function that is called with a block's payload when the block is freed, after all blocks below it.
///
/// It may use the tree: find the parent, free siblings, allocate below the dying block (freed right after). Freeing,
/// stealing or resizing a dying block changes nothing.
pub type TaggedDestructor = unsafe extern "C" fn(payload: *mut core::ffi::c_void);

/// The content of a new block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Arbitrary bytes.
    Undefined,
    /// Zeros.
    Zeros,
}
