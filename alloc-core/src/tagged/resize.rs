//! Resizing a block in a tree.

use super::Fill;
use super::header::{Block, Plan};
use super::{domain, memory, tree};
use crate::error::HostError;
use crate::threads::ThreadTable;

/// As [`TaggedBlock::resize`](super::TaggedBlock::resize). O(1), and where the block moves O(children).
///
/// The block is linked during the allocator's call: a callback must not use this tree.
///
/// # Safety
/// The block is live, and only this thread uses its tree.
pub(super) unsafe fn resize(block: Block, size: usize) -> Result<Block, HostError> {
    let (old, new) = (Plan::new(block.size())?, Plan::new(size)?);
    if !old.is_alike(&new) {
        // SAFETY: this function's contract: the block is live, and only this thread uses its tree.
        return unsafe { replace(block, size) };
    }
    // SAFETY: this function's contract; both headers have the same offset.
    let resized = match unsafe { memory::resize(block, &old, &new) } {
        Ok(resized) => resized,
        Err(error) if !memory::has_fallback(block, error) => return Err(error),
        // SAFETY: this function's contract: the block is live, and only this thread uses its tree.
        Err(_) => return unsafe { replace(block, size) },
    };
    // SAFETY: resized to the plan of this size.
    unsafe { resized.set_size(size) };
    if resized != block {
        tree::relocate(block, resized);
    }
    Ok(resized)
}

/// Replaces a block by a new one: where the header must move in its memory, and where a fallback serves a refused request.
///
/// # Safety
/// As [`resize`].
unsafe fn replace(block: Block, size: usize) -> Result<Block, HostError> {
    // SAFETY: the block is live, and so is its domain.
    let new = ThreadTable::with(|table| unsafe {
        memory::allocate(block.domain(), table, size, Fill::Undefined)
    })?;
    new.copy_links(block);
    let parent = tree::parent(block);
    let was_counted = domain::is_counted(block, parent);
    if domain::is_counted(new, parent) {
        domain::retain(new);
    }
    let kept = block.size().min(size);
    // SAFETY: both blocks are live, different, and hold the kept bytes.
    unsafe { block.payload().copy_to_nonoverlapping(new.payload(), kept) };
    tree::relocate(block, new);
    tree::recount_children(new, block, new);
    // SAFETY: no longer linked; if it was not counted, its parent belongs to its domain.
    ThreadTable::with(|table| unsafe { memory::free(block, was_counted, table) });
    Ok(new)
}
