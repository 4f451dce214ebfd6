//! Tests of the range allocator that the model's programs do not cover, and tests of the contract's rows.

mod holes;
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

#[test]
fn h85_a_size_of_zero_is_refused_and_nothing_changes() {
    let mut core = Core::new(4096, 16);
    let taken = core.allocate(16);
    let before = core.pieces();
    assert_eq!(core.request(0, 16, Fit::Low), Err(RangeError::ZeroSize));
    for alignment in [0, 3, 48, u64::MAX] {
        assert_eq!(
            core.request(16, alignment, Fit::Low),
            Err(RangeError::Alignment)
        );
    }
    for (size, alignment) in [
        (4097, 1),
        (u64::MAX, 1),
        (u64::MAX - 15, 16),
        (1 << 63, 1),
        (1, 1 << 63),
    ] {
        assert_eq!(
            core.request(size, alignment, Fit::Low),
            Err(RangeError::TooLarge),
            "{size} {alignment}"
        );
    }
    // Offset 0 is a multiple of every alignment, but is allocated.
    assert_eq!(core.request(1, 8192, Fit::Low), Err(RangeError::Full));
    assert_eq!(core.pieces(), before);
    core.free_allocated(taken);
    assert_eq!(
        core.request(1, 8192, Fit::High).map(|taken| taken.offset),
        Ok(0)
    );
}

#[test]
fn a_batch_is_all_or_nothing() {
    let mut core = Core::new(4096, 16);
    core.ready(64);
    let want = RangeRequest {
        size: 256,
        alignment: 16,
        user_data: 1,
        fit: Fit::Low,
    };
    let out: Vec<_> = (0..16)
        .map(|_| core.core.allocate(&core.store, &core.index, &want).unwrap())
        .collect();
    assert_eq!(core.core.free_bytes(), 0);
    let mut ids: Vec<_> = out
        .iter()
        .map(|taken| (taken.node, taken.generation))
        .collect();
    let before = core.pieces();
    ids.push(ids[3]);
    assert_eq!(
        core.core.free_batch(&core.store, &core.index, &ids),
        Err((16, RangeError::Stale)),
        "named twice"
    );
    assert_eq!(core.pieces(), before);
    ids.pop();
    // All ranges except one, in no order: two runs, two holes.
    ids.reverse();
    let kept = ids.remove(7);
    assert_eq!(
        core.core.free_batch(&core.store, &core.index, &ids),
        Ok(false)
    );
    assert_eq!(
        (core.core.free_range_count(), core.core.live_count()),
        (2, 1)
    );
    assert_eq!(
        core.core.free_batch(&core.store, &core.index, &ids),
        Err((0, RangeError::Stale))
    );
    assert_eq!(
        core.core.free_batch(&core.store, &core.index, &[kept]),
        Ok(true)
    );
    assert_eq!(core.pieces(), [(0, 4096, false)]);
}

/// A bin contains holes of different sizes, and the quick search examines only the first hole.
#[test]
fn the_full_search_finds_what_the_quick_one_misses_and_remembers_what_it_did_not_find() {
    let mut core = Core::new(1 << 20, 1);
    let quick = GranuleRequest {
        count: 1030,
        alignment: 1,
        rounded: 1030,
        fit: Fit::Low,
    };
    let (small, _wall, large, _wall_too) = (
        core.allocate(1024),
        core.allocate(1),
        core.allocate(1040),
        core.allocate(1),
    );
    let rest = core.core.largest_free(&core.store, &core.index);
    core.allocate(rest);
    core.free_allocated(large);
    core.free_allocated(small);
    assert!(
        core.index.find(&core.store, &quick).is_none(),
        "the first of the bin is too small"
    );
    assert!(core.core.largest_free_bound(&core.index) >= 1030);
    let found = core.allocate(1030);
    assert_eq!(found.offset, 1025);
    assert_eq!(core.request(1030, 1, Fit::Low), Err(RangeError::Full));
    assert_eq!(
        core.core.largest_free_bound(&core.index),
        1029,
        "what was learnt makes the bound smaller"
    );
    core.free_allocated(found);
    assert!(core.core.largest_free_bound(&core.index) >= 1040);
    // A hole that fits only because its offset happens to be aligned.
    assert_eq!(core.request(1024, 1024, Fit::Low).unwrap().offset, 0);
    assert_eq!(core.request(512, 1024, Fit::Low), Err(RangeError::Full));
    assert_eq!(core.core.largest_free(&core.store, &core.index), 1040);
}

#[test]
fn without_memory_nothing_is_taken_and_nothing_is_lost() {
    let mut core = Core::new(4096, 16);
    let want = RangeRequest {
        size: 16,
        alignment: 16,
        user_data: 0,
        fit: Fit::Low,
    };
    assert_eq!(
        core.core.allocate(&core.store, &core.index, &want),
        Err(RangeError::NoNodes)
    );
    assert_eq!(core.pieces(), [(0, 4096, false)]);
    assert_eq!(
        (
            core.core.largest_free(&core.store, &core.index),
            core.core.largest_free_bound(&core.index),
            core.core.free_range_count()
        ),
        (4096, 4096, 1)
    );
    core.core.clear(&core.store, &core.index);
    core.ready(NODES_PER_ALLOCATION);
    core.core.allocate(&core.store, &core.index, &want).unwrap();
    core.core.clear(&core.store, &core.index);
    assert_eq!(
        (core.core.live_count(), core.pieces()),
        (0, vec![(0, 4096, false)])
    );
}

#[test]
fn sizes_and_granules_have_bounds() {
    assert_eq!(
        RangeAllocator::new(0, 16).unwrap_err(),
        RangeError::ZeroSize
    );
    assert_eq!(
        RangeAllocator::new(15, 16).unwrap_err(),
        RangeError::ZeroSize
    );
    for granule in [0, 3, 1 << 32, u64::MAX] {
        assert_eq!(
            RangeAllocator::new(1 << 40, granule).unwrap_err(),
            RangeError::Granule
        );
    }
    assert_eq!(
        RangeAllocator::new(u64::from(u32::MAX), 1).unwrap_err(),
        RangeError::TooLarge
    );
    assert_eq!(
        RangeAllocator::new(u64::MAX, 256).unwrap_err(),
        RangeError::TooLarge
    );
    let size = u64::from(u32::MAX - 1) << 31;
    let mut core = Core::new(size, 1 << 31);
    let whole = core.allocate(size);
    assert_eq!((whole.offset, whole.size), (0, size));
    core.free_allocated(whole);
    let last = core.request(1, 1 << 62, Fit::High).unwrap();
    assert_eq!(last.offset, 1 << 62);
    assert_eq!(core.get(last.node, last.generation).unwrap().asked, 1);
}
