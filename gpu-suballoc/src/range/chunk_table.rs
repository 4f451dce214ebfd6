//! The addresses of a store's chunks, 8 bytes each. Every step from a node to another node reads an address. The addresses for a million
//! nodes are 64 KiB, which stay in a CPU core's cache; together with the counts of the chunks they would need four times as much.

#![forbid(unsafe_code)]

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::NonNull;

use super::node::RangeNode;
use crate::growable_vec::GrowableVec;
use crate::host_block::HostBlock;

/// For an absent chunk, the table contains the first chunk's address, so that every number leads to memory. The first chunk is never
/// absent.
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

    /// The chunk with this number, or the first chunk if it is absent.
    #[inline]
    pub(super) fn at(&self, index: u32) -> Option<NonNull<RangeNode>> {
        self.chunks.get(index).map(Cell::get)
    }

    /// The chunk with this number, if it is present.
    #[inline]
    pub(super) fn present(&self, index: u32) -> Option<NonNull<RangeNode>> {
        self.at(index)
            .filter(|chunk| *chunk != self.first || index == 0)
    }

    /// The memory to allocate before the next [`push`](Self::push), if there is no room.
    pub(super) fn missing_capacity(&self) -> Option<Layout> {
        self.chunks.missing_capacity(1)
    }

    /// Moves the table into `block`. Returns the memory to free: the former memory, or `block` if it is not larger.
    pub(super) fn grow_with(&mut self, block: HostBlock) -> Option<HostBlock> {
        self.chunks.grow_with(block)
    }

    /// Appends a chunk. Returns `None` if there is no room.
    pub(super) fn push(&mut self, chunk: NonNull<RangeNode>) -> Option<()> {
        if self.chunks.len() == 0 {
            self.first = chunk;
        }
        self.chunks.push(Cell::new(chunk)).ok()
    }

    /// Stores the address of a chunk that was absent.
    pub(super) fn set(&self, index: u32, chunk: NonNull<RangeNode>) {
        if let Some(place) = self.chunks.get(index) {
            place.set(chunk);
        }
    }

    /// Removes a chunk. From then on [`present`](Self::present) returns `None` for its number.
    pub(super) fn remove(&self, index: u32) -> Option<NonNull<RangeNode>> {
        let chunk = self.present(index)?;
        self.set(index, self.first);
        Some(chunk)
    }

    /// Removes the last number.
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
