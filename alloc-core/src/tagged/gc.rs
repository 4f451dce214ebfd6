//! Blocks that a mark-and-sweep collector frees, for a compiler that cannot tell when it stops using them.
//!
//! The collector is a block. Small blocks of an [initialised](GcBlocks::init) collector lie in its slabs (see `slabs`), all others are
//! children with a reserved destructor number. The colour is one bit. The collector's bit is the colour of live blocks, and each sweep flips
//! it. A block has one colour, so a collected block cannot be a collector.

use super::header::{Block, DYING, MARKED};
use super::slabs::SlabLists;
use super::tables::{COLLECTED, COLLECTOR};
use super::{Fill, TaggedBlock, slabs, slot, tree, walk};
use crate::error::{HostError, Misuse};
use crate::threads::ThreadTable;

/// A collector: a block below which collected blocks are allocated. A sweep does not free its other children.
///
/// # Safety of all its functions
/// As those of [`TaggedBlock`]; the collector's block is live, and so are all other blocks that are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct GcBlocks(TaggedBlock);

impl GcBlocks {
    /// The size that a block must have for [`init`](Self::init).
    pub const BLOCK_SIZE: usize = size_of::<SlabLists>();

    /// Makes a block a collector with slabs: its blocks of up to 512 bytes lie in slabs of 4 to 32 KiB, with 8 bytes in front. Such a block
    /// can be freed and has a size, a domain and the collector as its parent; it cannot have children, be resized or be stolen. The
    /// collector itself has no destructor, and its children cannot be adopted.
    ///
    /// # Safety
    /// The block is live, new, without children, and has [`BLOCK_SIZE`](Self::BLOCK_SIZE) bytes, which have no other use.
    #[must_use]
    pub unsafe fn init(block: TaggedBlock) -> Self {
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        let header = unsafe { block.block() };
        // SAFETY: this function's contract; payloads are aligned to 16.
        unsafe { block.payload().cast().write(SlabLists::new()) };
        header.set_destructor_number(COLLECTOR);
        Self(block)
    }

    /// Uses `block` as a collector. It may be any block that is not collected itself.
    #[must_use]
    pub const fn new(block: TaggedBlock) -> Self {
        Self(block)
    }

    /// The collector's own block: freeing it frees all blocks of the collector.
    #[must_use]
    pub const fn block(self) -> TaggedBlock {
        self.0
    }

    /// Allocates a block that the sweep after the next [`begin_sweep`](Self::begin_sweep) frees unless it is [marked](Self::mark).
    /// [`TaggedBlock::free`] frees it earlier.
    ///
    /// # Errors
    /// As [`TaggedBlock::allocate`]; [`Misuse::Held`] if another collector collects this one's block; [`Misuse::Dying`] if this one has slabs
    /// and is being freed.
    ///
    /// # Safety
    /// See the type.
    #[inline]
    pub unsafe fn allocate(self, size: usize, fill: Fill) -> Result<TaggedBlock, HostError> {
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        if let Some(new) = unsafe { self.allocate_in_slab(size, fill) } {
            return Ok(new);
        }
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        unsafe { self.allocate_further(size, fill) }
    }

    /// As [`allocate`](Self::allocate) if one of the collector's slabs has room for the block, else does nothing. Calls no allocator, and
    /// no C library function except for filling memory.
    ///
    /// # Safety
    /// See the type.
    #[inline]
    pub unsafe fn allocate_in_slab(self, size: usize, fill: Fill) -> Option<TaggedBlock> {
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        let collector = unsafe { self.0.block() };
        if !has_slot_for(collector, size) {
            return None;
        }
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        let new = unsafe { slabs::allocate(collector, size) }?;
        Some(filled(new, size, fill))
    }

    /// # Safety
    /// See the type.
    #[inline(never)]
    unsafe fn allocate_further(self, size: usize, fill: Fill) -> Result<TaggedBlock, HostError> {
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        let collector = unsafe { self.0.block() };
        if has_slot_for(collector, size) {
            // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
            let new = unsafe { slabs::allocate_in_further(collector, size) }?;
            return Ok(filled(new, size, fill));
        }
        if collector.is_collected() {
            return Err(HostError::Misuse(Misuse::Held));
        }
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        let new = unsafe { self.0.allocate(size, fill) }?;
        // SAFETY: just allocated.
        let block = unsafe { new.block() };
        block.set_destructor_number(COLLECTED);
        paint(block, collector);
        Ok(new)
    }

    /// Makes all present blocks unmarked; blocks allocated from now on are marked. Returns false, and changes nothing, if another collector
    /// collects this one's block.
    ///
    /// # Safety
    /// See the type.
    pub unsafe fn begin_sweep(self) -> bool {
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
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

    /// Keeps a block of this collector in the present sweep. Does nothing to a block that is not collected.
    ///
    /// # Safety
    /// See the type.
    #[inline]
    pub unsafe fn mark(self, block: TaggedBlock) {
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        let block = unsafe { block.block() };
        if block.is_collected() {
            // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
            paint(block, unsafe { self.0.block() });
        }
    }

    /// Frees all unmarked blocks of this collector, with what is below them, newer ones before older. O(blocks of the collector).
    ///
    /// # Safety
    /// See the type; and as [`TaggedBlock::free`] for the unmarked blocks.
    pub unsafe fn end_sweep(self) {
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        ThreadTable::with(|table| unsafe { self.end_sweep_on(table) });
    }

    /// # Safety
    /// As [`end_sweep`](Self::end_sweep).
    unsafe fn end_sweep_on(self, table: ThreadTable<'_>) {
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
        let collector = unsafe { self.0.block() };
        if collector.is_slot() {
            return;
        }
        if slot::is_collector(collector) {
            // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
            unsafe { slabs::sweep(collector, table) };
        }
        let is_dead = |block: &Block| {
            block.is_collected() && block.has(MARKED) != collector.has(MARKED) && !block.has(DYING)
        };
        let mut dead = tree::children(collector).filter(is_dead);
        let Some(first) = dead.next() else { return };
        // Chains the dead blocks, each below the next older one, and frees the oldest, so that no walk over siblings is under way during
        // calls of allocators.
        let mut dying = first;
        let mut at = first.header().next.get();
        while let Some(block) = at {
            at = block.header().next.get();
            if is_dead(&block) {
                tree::move_below(dying, Some(block));
                dying = block;
            }
        }
        // SAFETY: the collector and its blocks are live, and only this thread uses their tree (`GcBlocks`).
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

/// Sets a block's colour to its collector's.
fn paint(block: Block, collector: Block) {
    block.set_colour(collector.colour());
}
