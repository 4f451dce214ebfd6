//! Blocks that a mark-and-sweep collector frees: what a compiler cannot say when it is done with.
//!
//! The collector is a block, its blocks are children with a number in the place of a destructor's, and the colour is one bit: of the
//! collector the colour that live blocks have, which each sweep turns over. A block has one colour, so no collected block is a collector.

use super::block::{Block, DYING, MARKED};
use super::tables::COLLECTED;
use super::{Fill, TaggedBlock, tree, walk};
use crate::error::{HostError, Misuse};

/// A block below which a collector's blocks are allocated. Its other children are left alone by a sweep.
///
/// # Safety of all its functions
/// As those of [`TaggedBlock`]; the collector's block is live, and so are all other blocks that are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct GcBlocks(TaggedBlock);

impl GcBlocks {
    /// The collector that `block` is: any block will do but one that is collected itself.
    #[must_use]
    pub const fn new(block: TaggedBlock) -> Self {
        Self(block)
    }

    /// The collector's own block: freeing it frees all blocks of the collector.
    #[must_use]
    pub const fn block(self) -> TaggedBlock {
        self.0
    }

    /// Allocates a block that the sweep after the next [`begin_sweep`](Self::begin_sweep) frees unless it is
    /// [marked](Self::mark). Freed early by [`TaggedBlock::free`].
    ///
    /// # Errors
    /// As [`TaggedBlock::allocate`]; [`Misuse::Held`] where the collector is a block that another one collects.
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn allocate(self, size: usize, fill: Fill) -> Result<TaggedBlock, HostError> {
        // SAFETY: forwarded.
        if unsafe { self.0.block() }.is_collected() {
            return Err(HostError::Misuse(Misuse::Held));
        }
        // SAFETY: forwarded.
        let new = unsafe { self.0.allocate(size, fill) }?;
        // SAFETY: just allocated.
        let block = unsafe { new.block() };
        block.set_destructor_number(COLLECTED);
        // SAFETY: forwarded.
        paint(block, unsafe { self.0.block() });
        Ok(new)
    }

    /// From here on, blocks that there are already are unmarked, and new ones are marked. Returns false, and changes nothing, where the
    /// collector is a block that another one collects.
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn begin_sweep(self) -> bool {
        // SAFETY: forwarded.
        let collector = unsafe { self.0.block() };
        if collector.is_collected() {
            return false;
        }
        if collector.has(MARKED) {
            collector.clear(MARKED);
        } else {
            collector.set(MARKED);
        }
        true
    }

    /// Keeps a block of this collector in the sweep that has begun. Nothing happens to a block that is not collected.
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn mark(self, block: TaggedBlock) {
        // SAFETY: forwarded.
        let block = unsafe { block.block() };
        if block.is_collected() {
            // SAFETY: forwarded.
            paint(block, unsafe { self.0.block() });
        }
    }

    /// Frees all unmarked blocks of this collector, with what is below them, newer ones before older. O(blocks of the collector).
    ///
    /// # Safety
    /// See the type; and as [`TaggedBlock::free`] for the unmarked blocks.
    pub unsafe fn end_sweep(self) {
        // SAFETY: forwarded.
        let collector = unsafe { self.0.block() };
        let is_dead = |block: &Block| {
            block.is_collected() && block.has(MARKED) != collector.has(MARKED) && !block.has(DYING)
        };
        let mut dead = tree::children(collector).filter(is_dead);
        let Some(first) = dead.next() else { return };
        // Each goes below the next older one, and the oldest is freed: no walk over siblings is under way while allocators are called.
        let mut dying = first;
        let mut at = first.header().next.get();
        while let Some(block) = at {
            at = block.header().next.get();
            if is_dead(&block) {
                tree::unlink(dying);
                tree::add_child(block, dying);
                dying = block;
            }
        }
        // SAFETY: forwarded.
        unsafe { walk::free(dying) };
    }
}

/// Gives a block its collector's colour.
fn paint(block: Block, collector: Block) {
    if collector.has(MARKED) {
        block.set(MARKED);
    } else {
        block.clear(MARKED);
    }
}
