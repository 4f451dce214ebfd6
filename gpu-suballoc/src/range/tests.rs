//! What one allocation takes of the reserve of nodes, which no user of a virtual block can see.

use std::alloc::Layout;
use std::prelude::v1::*;
use std::ptr::NonNull;

use super::allocator::{NODES_PER_ALLOCATION, NODES_PER_RANGE, VirtualRange};
use super::node::CHUNK_NODES;
use super::*;
use crate::host_memory::{GrowableTable, HostBlock};
use crate::request::BlockAlgorithm;

/// A range allocator and its store, with memory from the system. Checks that returned memory was added before, with the same layout.
struct Core {
    core: RangeAllocator,
    index: FreeIndex,
    store: NodeStore,
    blocks: Vec<(NonNull<u8>, Layout)>,
}

impl Core {
    fn new(size: u64, granule: u64) -> Self {
        let core = RangeAllocator::new(size, granule, BlockAlgorithm::General).unwrap();
        let mut index = FreeIndex::new(1);
        index.admit(core.granules());
        Self {
            core,
            index,
            store: NodeStore::new(),
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
        while let Some(layout) = self.index.missing() {
            let block = self.fetch(layout);
            let back = self.index.grow_with(block);
            assert!(back.is_none());
        }
        self.store.reserve = nodes;
        while let Some(layout) = self.store.missing() {
            let block = self.fetch(layout);
            let back = self.store.grow_with(block);
            self.back(back);
        }
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
    ) -> Result<VirtualRange, VirtualBlockError> {
        self.ready(NODES_PER_ALLOCATION);
        self.core.allocate(
            &self.store,
            &self.index,
            &RangeRequest {
                size,
                asked: size,
                alignment,
                user_data: 7,
                fit,
                is_optimal: false,
            },
        )
    }

    fn free_allocated(&mut self, taken: VirtualRange) {
        let freed = self
            .core
            .free(&self.store, &self.index, taken.allocation, None);
        assert!(freed.is_ok());
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

/// The worst allocation: the first of a blank block, inside of its hole.
#[test]
fn the_reserve_is_what_one_allocation_needs_at_most() {
    let mut core = Core::new(1 << 20, 16);
    core.ready(NODES_PER_ALLOCATION);
    let before = core.store.spare_nodes();
    let want = RangeRequest {
        size: 16,
        asked: 16,
        alignment: 16,
        user_data: 0,
        fit: Fit::Low,
        is_optimal: false,
    };
    let taken = (core.core)
        .allocate_at(&core.store, &core.index, 4096, &want)
        .unwrap();
    let of_another_slot = (core.core).free(&core.store, &core.index, taken.allocation, Some(1));
    assert_eq!(of_another_slot, Err(VirtualBlockError::Stale));
    assert_eq!(before - core.store.spare_nodes(), NODES_PER_ALLOCATION);
    // From then on two at most, and all of them come back.
    for turn in 0..if cfg!(miri) { 40 } else { 2000 } {
        core.ready(NODES_PER_ALLOCATION);
        let before = core.store.spare_nodes();
        let fit = if turn % 2 == 0 { Fit::High } else { Fit::Low };
        let taken = core.request(16, 64, fit);
        assert!(before - core.store.spare_nodes() <= 2);
        if let (Ok(taken), 0) = (taken, turn % 3) {
            core.free_allocated(taken);
        }
    }
    // Without the reserve nothing is taken, though there would be room.
    let mut poor = Core::new(1 << 20, 16);
    poor.ready(CHUNK_NODES as u32 - 1);
    while poor.store.spare_nodes() >= NODES_PER_RANGE {
        let taken = poor.core.allocate(&poor.store, &poor.index, &want);
        taken.expect("the reserve is there");
    }
    let refused = poor.core.allocate(&poor.store, &poor.index, &want);
    assert_eq!(refused, Err(VirtualBlockError::TooManyRanges));
}
