//! What one allocation takes of the reserve of nodes, which no user of a virtual block can see.

use testkit::RecordingAllocator;

use super::allocator::{NODES_PER_ALLOCATION, NODES_PER_RANGE, VirtualRange};
use super::node::CHUNK_NODES;
use super::*;
use crate::host_memory::{fill, free_table};
use crate::request::BlockAlgorithm;

/// A range allocator and its tables, whose memory is recorded.
struct Core {
    core: RangeAllocator,
    index: FreeIndex,
    store: NodeStore,
    memory: RecordingAllocator,
}

impl Core {
    fn new(size: u64, granule: u64) -> Self {
        let core = RangeAllocator::new(size, granule, BlockAlgorithm::General).unwrap();
        let mut index = FreeIndex::new(1);
        index.admit(core.granules());
        Self { core, index, store: NodeStore::new(), memory: RecordingAllocator::system() }
    }

    fn ready(&mut self, nodes: u32) {
        self.store.reserve = nodes;
        fill(&mut self.index, &self.memory).unwrap();
        fill(&mut self.store, &self.memory).unwrap();
    }

    fn allocate(&mut self, want: &RangeRequest) -> Result<VirtualRange, VirtualBlockError> {
        self.core.allocate(&self.store, &self.index, want)
    }

    fn free(&mut self, taken: VirtualRange, slot: Option<u32>) -> Result<(), VirtualBlockError> {
        let freed = self.core.free(&self.store, &self.index, taken.allocation, slot);
        freed.map(drop)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.core.clear(&self.store, &self.index);
            free_table(&mut self.index, &self.memory);
            free_table(&mut self.store, &self.memory);
            self.memory.assert_empty("by the core");
        }
    }
}

/// The worst allocation: the first of a blank block, inside of its hole.
#[test]
fn the_reserve_is_what_one_allocation_needs_at_most() {
    let mut core = Core::new(1 << 20, 16);
    core.ready(NODES_PER_ALLOCATION);
    let before = core.store.spare_nodes();
    let want = RangeRequest { size: 16, asked: 16, alignment: 16, user_data: 0, fit: Fit::Low, is_optimal: false };
    let taken = (core.core).allocate_at(&core.store, &core.index, 4096, &want).unwrap();
    assert_eq!(core.free(taken, Some(1)), Err(VirtualBlockError::Stale));
    assert_eq!(before - core.store.spare_nodes(), NODES_PER_ALLOCATION);
    // From then on two at most, and all of them come back.
    for turn in 0..if cfg!(miri) { 40 } else { 2000 } {
        core.ready(NODES_PER_ALLOCATION);
        let before = core.store.spare_nodes();
        let fit = if turn % 2 == 0 { Fit::High } else { Fit::Low };
        let taken = core.allocate(&RangeRequest { alignment: 64, user_data: 7, fit, ..want });
        assert!(before - core.store.spare_nodes() <= 2);
        if let (Ok(taken), 0) = (taken, turn % 3) {
            assert!(core.free(taken, None).is_ok());
        }
    }
    // Without the reserve nothing is taken, though there would be room.
    let mut poor = Core::new(1 << 20, 16);
    poor.ready(CHUNK_NODES as u32 - 1);
    while poor.store.spare_nodes() >= NODES_PER_RANGE {
        poor.allocate(&want).expect("the reserve is there");
    }
    assert_eq!(poor.allocate(&want), Err(VirtualBlockError::TooManyRanges));
}
