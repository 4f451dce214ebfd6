//! A range allocator with memory from the system, for the tests of ids, which no user of a virtual block can make up.

mod nodes;

use std::alloc::Layout;
use std::collections::HashSet;
use std::prelude::v1::*;
use std::ptr::NonNull;

use super::types::{AllocatedRange, FreedRange};
use super::*;
use crate::host_block::HostBlock;

/// Number of reuses of one node; small for miri, which is slow.
const MANY: u32 = if cfg!(miri) { 40 } else { 1_000_000 };

/// A range allocator and its store, with memory from the system. Checks that returned memory was added before, with the same layout.
struct Core {
    core: RangeAllocator,
    index: FreeIndex,
    store: NodeStore,
    blocks: Vec<(NonNull<u8>, Layout)>,
}

impl Core {
    fn new(size: u64, granule: u64) -> Self {
        Self::with_floor(size, granule, 1)
    }

    fn with_floor(size: u64, granule: u64, floor: u32) -> Self {
        let core = RangeAllocator::new(size, granule).unwrap();
        let mut index = FreeIndex::new();
        index.admit(core.granules().0);
        Self {
            core,
            index,
            store: NodeStore::new(floor),
            blocks: Vec::new(),
        }
    }

    fn fetch(&mut self, layout: Layout) -> HostBlock {
        // SAFETY: the layout's size is not 0.
        let block = NonNull::new(unsafe { std::alloc::alloc(layout) }).unwrap();
        self.blocks.push((block, layout));
        // SAFETY: the memory is new and has this layout.
        unsafe { HostBlock::new(block, layout) }
    }

    fn ready(&mut self, nodes: u32) {
        if let Some(layout) = self.index.missing_capacity(self.core.granules().0) {
            let block = self.fetch(layout);
            let back = self.index.grow_with(block);
            assert!(back.is_none());
        }
        while let Some(lack) = self.store.missing_capacity(nodes) {
            let block = self.fetch(lack.layout());
            let back = self.store.grow_with(lack, block);
            self.back(back);
        }
    }

    /// Number of the store's chunks.
    fn chunks(&self) -> usize {
        let is_chunk =
            |(_, layout): &&(NonNull<u8>, Layout)| *layout == NodeShortage::Chunk.layout();
        self.blocks.iter().filter(is_chunk).count()
    }

    fn free(&mut self, node: u32, generation: u32) -> Result<FreedRange, RangeError> {
        self.core
            .free(&self.store, &self.index, (node, generation), None)
    }

    fn get(&self, node: u32, generation: u32) -> Result<LiveRange, RangeError> {
        self.core.get(&self.store, node, generation)
    }

    fn back(&mut self, memory: Option<HostBlock>) -> bool {
        let Some(memory) = memory else {
            return false;
        };
        let layout = memory.layout();
        let block = memory.into_start();
        let at = self
            .blocks
            .iter()
            .position(|&given| given == (block, layout))
            .expect("it was given, with that layout");
        self.blocks.swap_remove(at);
        // SAFETY: the store or the index returned the block and no longer uses it.
        unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
        true
    }

    fn request(
        &mut self,
        size: u64,
        alignment: u64,
        fit: Fit,
    ) -> Result<AllocatedRange, RangeError> {
        self.ready(NODES_PER_ALLOCATION);
        self.core.allocate(
            &self.store,
            &self.index,
            &RangeRequest {
                size,
                alignment,
                user_data: 7,
                fit,
            },
        )
    }

    fn allocate(&mut self, size: u64) -> AllocatedRange {
        self.request(size, 1, Fit::Low).unwrap()
    }

    fn free_allocated(&mut self, taken: AllocatedRange) -> FreedRange {
        let given = self.free(taken.node, taken.generation).unwrap();
        while let Some(memory) = self.store.detach_spare_chunk() {
            self.back(Some(memory));
        }
        given
    }

    fn pieces(&self) -> Vec<(u64, u64, bool)> {
        let mut pieces = Vec::new();
        self.core.for_each(&self.store, &mut |span| {
            pieces.push((span.offset, span.size, span.state != SpanState::Free))
        });
        pieces
    }

    fn dismantle(&mut self) {
        self.core.clear(&self.store, &self.index);
        let memory = self.index.detach_memory();
        self.back(memory);
        while let Some(memory) = self.store.detach_memory() {
            self.back(Some(memory));
        }
        assert!(self.blocks.is_empty(), "the core kept memory");
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.dismantle();
        }
    }
}
