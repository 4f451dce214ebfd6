//! Where the chunks of a store are, 8 bytes each: every step from one node to another reads one of them. Those of a million nodes are
//! 64 KiB, which stay in a core's cache; with the counts of the chunks beside them they would be four times as many.

#![forbid(unsafe_code)]

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use super::node::RangeNode;
use crate::growable_vec::GrowableVec;
use crate::host_block::HostBlock;

/// A chunk that was given back has the first chunk in its stead, so that every number leads to memory. The first one never is.
#[derive(Debug)]
pub(super) struct ChunkTable {
    chunks: GrowableVec<Cell<NonNull<RangeNode>>>,
    first: NonNull<RangeNode>,
}

impl ChunkTable {
    /// Without memory.
    pub(super) const fn new() -> Self {
        Self {
            chunks: GrowableVec::new(),
            first: NonNull::dangling(),
        }
    }

    /// The chunk of that number, or what stands in for it.
    #[inline]
    pub(super) fn at(&self, index: u32) -> Option<NonNull<RangeNode>> {
        self.chunks.get(index).map(Cell::get)
    }

    /// The chunk of that number, if it is there.
    #[inline]
    pub(super) fn present(&self, index: u32) -> Option<NonNull<RangeNode>> {
        self.at(index)
            .filter(|chunk| *chunk != self.first || index == 0)
    }

    /// What to allocate, where there is no room for one more.
    pub(super) fn missing_capacity(&self) -> Option<Layout> {
        self.chunks.missing_capacity(1)
    }

    /// Takes the memory over. What is to be freed comes back: the memory before, or `block` where that is as large.
    pub(super) fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        self.chunks.grow_with(block)
    }

    /// Puts a chunk behind the last. `None` where there is no room.
    pub(super) fn push(&mut self, chunk: NonNull<RangeNode>) -> Option<()> {
        if self.chunks.len() == 0 {
            self.first = chunk;
        }
        self.chunks.push(Cell::new(chunk)).ok()
    }

    /// A chunk comes in the place of one that was absent.
    pub(super) fn set(&self, index: u32, chunk: NonNull<RangeNode>) {
        if let Some(place) = self.chunks.get(index) {
            place.set(chunk);
        }
    }

    /// Takes a chunk out; nobody follows its number any more, except to learn that.
    pub(super) fn remove(&self, index: u32) -> Option<NonNull<RangeNode>> {
        let chunk = self.present(index)?;
        self.set(index, self.first);
        Some(chunk)
    }

    /// Forgets the last number.
    pub(super) fn pop(&mut self) {
        self.chunks.pop();
    }

    /// Returns the memory, to be freed.
    pub(super) fn detach_memory(&mut self) -> Option<HostBlock> {
        self.chunks.detach_memory()
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.chunks.capacity()) * size_of::<NonNull<RangeNode>>() as u64
    }
}
