//! Blocks that own other blocks, as ralloc's do: freeing one frees all below it. For compilers in C, whose trees have a million blocks
//! and no place for a context each.
//!
//! ```text
//!   TaggedDomain --- Context        all blocks of a domain are memory of its context, counted there
//!        |
//!   TaggedBlock ---+--- block       32 bytes in front of each (see `header`): parent, siblings, size, destructor, domain
//!                  +--- block ---- block
//! ```
//!
//! Nothing lies beside the blocks, so that only allocating and resizing can fail: freeing, stealing, adopting and asking for a parent take no
//! memory. A block keeps the domain that it was allocated in, wherever it is stolen to, and is freed to that domain's context.
//!
//! Two tables of the process hold what a header has no room for: 65 535 domains, and 4 092 functions that are destructors. They are
//! static arrays, half a MiB of address space of which the pages in use cost memory.

mod block;
mod domain;
mod gc;
mod header;
mod linear;
mod memory;
mod reserve;
mod resize;
mod slabs;
mod slot;
mod tables;
mod tree;
mod walk;

pub use block::TaggedBlock;
pub use domain::{DomainId, TaggedDomain};
pub use gc::GcBlocks;
pub use linear::LinearBlocks;

/// Called with a block's payload when the block is freed, after all blocks below it were.
///
/// It may use the tree: ask for the parent, free siblings, allocate below the dying block (freed right after). Freeing, stealing or
/// resizing a block that is dying changes nothing.
pub type TaggedDestructor = unsafe extern "C" fn(payload: *mut core::ffi::c_void);

/// What a new block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Whatever was there.
    Undefined,
    /// Zeros.
    Zeros,
}
