//! Blocks that a mark-and-sweep collector frees: what a compiler cannot say when it is done with.
//!
//! The collector is a block. Small blocks of a collector that was made as one lie in its slabs (see `slabs`), all others are children with a
//! number in the place of a destructor's. The colour is one bit: of the collector the colour that live blocks have, which each sweep turns
//! over. A block has one colour, so no collected block is a collector.

use super::header::{Block, DYING, MARKED};
use super::slabs::SlabLists;
use super::tables::{COLLECTED, COLLECTOR};
use super::{Fill, TaggedBlock, slabs, slot, tree, walk};
use crate::error::{HostError, Misuse};
use crate::threads::ThreadTable;

/// A block below which a collector's blocks are allocated. Its other children are left alone by a sweep.
///
/// # Safety of all its functions
/// As those of [`TaggedBlock`]; the collector's block is live, and so are all other blocks that are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct GcBlocks(TaggedBlock);

impl GcBlocks {
    /// The size that a block must have for [`init`](Self::init).
    pub const BLOCK_SIZE: usize = size_of::<SlabLists>();

    /// Makes a collector of a block: what it allocates of up to 512 bytes lies in slabs of 4 to 32 KiB, with 8 bytes in front. Such a block
    /// can be freed, and asked for its size, its domain and the collector, which is its parent; it has no children, and is neither
    /// resized nor stolen. The collector itself has no destructor, and its children cannot be adopted.
    ///
    /// # Safety
    /// The block is live, new, without children, and has [`BLOCK_SIZE`](Self::BLOCK_SIZE) bytes, which nobody else uses.
    #[must_use]
    pub unsafe fn init(block: TaggedBlock) -> Self {
        // SAFETY: forwarded.
        let header = unsafe { block.block() };
        // SAFETY: forwarded; payloads are aligned to 16.
        unsafe { block.payload().cast().write(SlabLists::new()) };
        header.set_destructor_number(COLLECTOR);
        Self(block)
    }

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
    /// As [`TaggedBlock::allocate`]; [`Misuse::Held`] where the collector is a block that another one collects; [`Misuse::Dying`] where it
    /// has slabs and is being freed.
    ///
    /// # Safety
    /// See the type.
    #[inline]
    pub unsafe fn allocate(self, size: usize, fill: Fill) -> Result<TaggedBlock, HostError> {
        // SAFETY: forwarded.
        if let Some(new) = unsafe { self.allocate_in_slab(size, fill) } {
            return Ok(new);
        }
        // SAFETY: forwarded.
        unsafe { self.allocate_further(size, fill) }
    }

    /// As [`allocate`](Self::allocate), where one of the collector's slabs has room for the block; else nothing happens. Calls nobody: no
    /// allocator, no function of a C library but what fills memory.
    ///
    /// # Safety
    /// See the type.
    #[inline]
    pub unsafe fn allocate_in_slab(self, size: usize, fill: Fill) -> Option<TaggedBlock> {
        // SAFETY: forwarded.
        let collector = unsafe { self.0.block() };
        if !has_slot_for(collector, size) {
            return None;
        }
        // SAFETY: forwarded.
        let new = unsafe { slabs::allocate(collector, size) }?;
        Some(filled(new, size, fill))
    }

    /// # Safety
    /// See the type.
    #[inline(never)]
    unsafe fn allocate_further(self, size: usize, fill: Fill) -> Result<TaggedBlock, HostError> {
        // SAFETY: forwarded.
        let collector = unsafe { self.0.block() };
        if has_slot_for(collector, size) {
            // SAFETY: forwarded.
            let new = unsafe { slabs::allocate_in_further(collector, size) }?;
            return Ok(filled(new, size, fill));
        }
        if collector.is_collected() {
            return Err(HostError::Misuse(Misuse::Held));
        }
        // SAFETY: forwarded.
        let new = unsafe { self.0.allocate(size, fill) }?;
        // SAFETY: just allocated.
        let block = unsafe { new.block() };
        block.set_destructor_number(COLLECTED);
        paint(block, collector);
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
    #[inline]
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
        ThreadTable::with(|table| unsafe { self.end_sweep_on(table) });
    }

    /// # Safety
    /// As [`end_sweep`](Self::end_sweep); the table is the thread's.
    unsafe fn end_sweep_on(self, table: ThreadTable<'_>) {
        // SAFETY: forwarded.
        let collector = unsafe { self.0.block() };
        if collector.is_slot() {
            return;
        }
        if slot::is_collector(collector) {
            // SAFETY: forwarded.
            unsafe { slabs::sweep(collector, table) };
        }
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
                tree::move_below(dying, Some(block));
                dying = block;
            }
        }
        // SAFETY: forwarded.
        unsafe { walk::free(dying, table) };
    }
}

/// Whether blocks of that size lie in slabs of the collector.
fn has_slot_for(collector: Block, size: usize) -> bool {
    slot::is_collector(collector) && size <= slot::MAX_SIZE
}

/// A new slot, filled.
#[inline]
fn filled(slot: Block, size: usize, fill: Fill) -> TaggedBlock {
    if fill == Fill::Zeros {
        // SAFETY: the slot has that many bytes.
        unsafe { slot.payload().write_bytes(0, size) };
    }
    TaggedBlock::from_payload(slot.payload())
}

/// Gives a block its collector's colour.
fn paint(block: Block, collector: Block) {
    block.set_colour(collector.colour());
}
