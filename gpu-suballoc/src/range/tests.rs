//! The core by hand: what the model's programs do not say, and the rows of the contract.

use std::alloc::Layout;
use std::collections::HashSet;
use std::prelude::v1::*;
use std::ptr::NonNull;

use super::types::{AllocatedRange, FreedRange};
use super::*;
use crate::host_block::HostBlock;

/// Reuses of one node; miri is slow.
const MANY: u32 = if cfg!(miri) { 40 } else { 1_000_000 };

/// A core and its store, with memory from the system: what comes back is checked against what was given.
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
        // SAFETY: not of size 0.
        let block = NonNull::new(unsafe { std::alloc::alloc(layout) }).unwrap();
        self.blocks.push((block, layout));
        // SAFETY: fresh, of that layout.
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
        // SAFETY: the core let go of it.
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
    // Offset 0 is a multiple of everything, and taken.
    assert_eq!(core.request(1, 8192, Fit::Low), Err(RangeError::Full));
    assert_eq!(core.pieces(), before);
    core.free_allocated(taken);
    assert_eq!(
        core.request(1, 8192, Fit::High).map(|taken| taken.offset),
        Ok(0)
    );
}

#[test]
fn h87_mixed_alignments_leave_their_pads_free() {
    let mut core = Core::new(1 << 20, 256);
    core.allocate(300);
    let far = core.request(1000, 64 << 10, Fit::Low).unwrap();
    assert_eq!((far.offset, far.size), (64 << 10, 1024));
    // The pad is one hole, and the next small request goes there.
    assert_eq!(core.pieces()[1], (512, (64 << 10) - 512, false));
    assert_eq!(core.allocate(256).offset, 512);
    // Every byte is used or free.
    assert_eq!(core.core.used_bytes() + core.core.free_bytes(), 1 << 20);
    assert_eq!(core.core.used_bytes(), 512 + 1024 + 256);
}

#[test]
fn a_size_of_four_alignments_is_rounded_up_where_there_is_room() {
    let mut core = Core::new(64 << 10, 256);
    let rounded = core.request(4 * 4096 + 256, 4096, Fit::Low).unwrap();
    assert_eq!((rounded.offset, rounded.size), (0, 5 * 4096));
    assert_eq!(
        core.get(rounded.node, rounded.generation).unwrap().asked,
        4 * 4096 + 256
    );
    let small = core.request(3 * 4096 + 256, 4096, Fit::High).unwrap();
    assert_eq!((small.offset, small.size), (12 * 4096, 3 * 4096 + 256));
    // What is left is exactly 7 alignments: one of six and a half is rounded, one of seven less a granule fits as it is.
    let rest = core.request(7 * 4096 - 256, 4096, Fit::High).unwrap();
    assert_eq!((rest.offset, rest.size), (5 * 4096, 7 * 4096));
    core.free_allocated(rest);
    core.allocate(4096 - 256);
    core.request(256, 256, Fit::High).unwrap();
    let hole = core.core.largest_free(&core.store, &core.index);
    let exact = core.request(hole, 4096, Fit::Low).unwrap();
    assert_eq!(exact.size, hole, "no whole alignments fit any more");
}

#[test]
fn h88_no_hole_of_nothing_is_ever_left() {
    let mut core = Core::new(4096, 16);
    let whole = core.allocate(4096);
    assert_eq!(core.pieces(), [(0, 4096, true)]);
    assert_eq!(
        (
            core.core.free_range_count(),
            core.core.free_bytes(),
            core.core.largest_free_bound(&core.index)
        ),
        (0, 0, 0)
    );
    assert_eq!(core.request(1, 1, Fit::Low), Err(RangeError::Full));
    core.free_allocated(whole);
    // The pad in front ends where the range begins, and the range where the block ends.
    let last = core.request(16, 16, Fit::High).unwrap();
    assert_eq!(core.pieces(), [(0, 4080, false), (4080, 16, true)]);
    core.free_allocated(last);
    assert_eq!(core.pieces(), [(0, 4096, false)]);
}

#[test]
fn h96_holes_are_joined_as_soon_as_they_touch() {
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [2, 1, 0],
        [1, 2, 0],
        [2, 0, 1],
    ] {
        let mut core = Core::new(4096, 16);
        let ranges = [core.allocate(100), core.allocate(200), core.allocate(300)];
        core.allocate(16);
        for at in order {
            core.free_allocated(ranges[at]);
        }
        assert_eq!(core.pieces()[0], (0, 112 + 208 + 304, false), "{order:?}");
        assert_eq!(core.core.free_range_count(), 2);
    }
}

#[test]
fn h99_ids_of_nobody_are_refused() {
    let mut core = Core::new(4096, 16);
    assert_eq!(
        core.free(0, 1),
        Err(RangeError::Stale),
        "before there is memory"
    );
    let taken = core.allocate(16);
    for (node, generation) in [
        (0, 0),
        (0, 1),
        (u32::MAX, 1),
        (taken.node, 0),
        (taken.node, taken.generation + 1),
        (1 << 20, 1),
    ] {
        assert_eq!(
            core.free(node, generation),
            Err(RangeError::Stale),
            "{node} {generation}"
        );
        assert!(core.get(node, generation).is_err());
    }
    // 2^30 generations further, the same bits after a shift.
    assert_eq!(
        core.free(taken.node, taken.generation + (1 << 30)),
        Err(RangeError::Stale)
    );
    assert!(core.free_allocated(taken).is_empty);
}

#[test]
fn a_node_that_is_reused_refuses_its_first_id_for_ever() {
    let mut core = Core::new(4096, 16);
    let first = core.allocate(16);
    core.free_allocated(first);
    let mut same = 0;
    for _ in 0..MANY {
        let taken = core.allocate(16);
        assert_ne!(
            (taken.node, taken.generation),
            (first.node, first.generation)
        );
        same += u32::from(taken.node == first.node);
        assert_eq!(
            core.free(first.node, first.generation),
            Err(RangeError::Stale)
        );
        core.free_allocated(taken);
    }
    assert!(same > MANY / 2, "the node was hardly reused: {same}");
}

#[test]
fn a_node_is_retired_when_its_generations_are_used_up() {
    let mut core = Core::with_floor(4096, 16, MAX_GENERATION - 2);
    let mut seen = HashSet::new();
    // More takes than all nodes of a chunk have generations.
    for round in 0..if cfg!(miri) { 60 } else { 1000 } {
        let (low, high) = (core.allocate(16), core.request(16, 1, Fit::High).unwrap());
        for taken in [low, high] {
            assert!(taken.generation <= MAX_GENERATION);
            assert!(
                seen.insert((taken.node, taken.generation)),
                "{taken:?} came twice, in round {round}"
            );
        }
        core.free_allocated(low);
        core.free_allocated(high);
        assert_eq!(core.pieces(), [(0, 4096, false)]);
    }
    // Chunks of which every node is retired went back.
    assert!(
        core.blocks.len() <= 5,
        "{} blocks are kept",
        core.blocks.len()
    );
    assert!(core.store.ceiling() > MAX_GENERATION);
    core.dismantle();
    assert!(
        core.store.ceiling() > MAX_GENERATION,
        "also when its memory is gone"
    );
}

#[test]
fn chunks_come_back_and_their_ids_do_not() {
    let mut core = Core::new(1 << 20, 16);
    let many = if cfg!(miri) { 260 } else { 5000 };
    let old: Vec<_> = (0..many).map(|_| core.allocate(16)).collect();
    let most = core.blocks.len();
    for &taken in &old {
        core.free_allocated(taken);
    }
    assert!(
        core.blocks.len() <= 4 && most > core.blocks.len(),
        "{most} blocks, then {}",
        core.blocks.len()
    );
    for taken in &old {
        assert_eq!(
            core.get(taken.node, taken.generation),
            Err(RangeError::Stale),
            "in a chunk that is gone"
        );
    }
    let new: Vec<_> = (0..many).map(|_| core.allocate(16)).collect();
    for taken in &old {
        assert_eq!(
            core.free(taken.node, taken.generation),
            Err(RangeError::Stale),
            "in a chunk that came anew"
        );
    }
    assert_eq!(core.core.live_count(), many);
    for taken in new {
        core.free_allocated(taken);
    }
}

#[test]
fn a_store_that_was_dismantled_begins_where_it_ended() {
    let mut core = Core::new(4096, 16);
    let taken = core.allocate(16);
    core.dismantle();
    let again = core.allocate(16);
    assert_eq!(again.node, taken.node);
    assert!(again.generation > taken.generation);
    assert_eq!(
        core.free(taken.node, taken.generation),
        Err(RangeError::Stale)
    );
}

#[test]
fn cores_that_share_a_store_know_their_own_ranges() {
    let mut core = Core::new(4096, 16);
    let mut other = Core::new(8192, 16);
    other.ready(0);
    let mine = core.allocate(16);
    core.ready(8);
    let want = RangeRequest {
        size: 32,
        alignment: 16,
        user_data: 9,
        fit: Fit::Low,
    };
    let (theirs, next) = (
        other
            .core
            .allocate(&core.store, &other.index, &want)
            .unwrap(),
        other
            .core
            .allocate(&core.store, &other.index, &want)
            .unwrap(),
    );
    assert_ne!(mine.node, theirs.node);
    // Each is a live range, of the other core.
    assert_eq!(
        core.free(theirs.node, theirs.generation),
        Err(RangeError::Stale)
    );
    assert_eq!(
        core.get(theirs.node, theirs.generation),
        Err(RangeError::Stale)
    );
    assert_eq!(
        core.core.renew(&core.store, theirs.node, theirs.generation),
        Err(RangeError::Stale)
    );
    assert_eq!(
        core.core
            .set_user_data(&core.store, theirs.node, theirs.generation, 1),
        Err(RangeError::Stale)
    );
    let both = [
        (mine.node, mine.generation),
        (theirs.node, theirs.generation),
    ];
    assert_eq!(
        core.core.free_batch(&core.store, &core.index, &both),
        Err((1, RangeError::Stale))
    );
    assert_eq!(
        other.core.free(
            &core.store,
            &other.index,
            (mine.node, mine.generation),
            None
        ),
        Err(RangeError::Stale)
    );
    assert_eq!(core.get(mine.node, mine.generation).unwrap().user_data, 7);
    // What the other lets go of is used here next, and its name stays stale there.
    assert_eq!(
        other.core.free(
            &core.store,
            &other.index,
            (theirs.node, theirs.generation),
            Some(7)
        ),
        Err(RangeError::OtherUserData)
    );
    assert!(
        !other
            .core
            .free(
                &core.store,
                &other.index,
                (theirs.node, theirs.generation),
                Some(9)
            )
            .unwrap()
            .is_empty
    );
    other.core.clear(&core.store, &other.index);
    let memory = other.index.detach_memory();
    assert!(other.back(memory));
    for _ in 0..8 {
        core.allocate(16);
    }
    for stale in [theirs, next] {
        assert_eq!(
            other.core.get(&core.store, stale.node, stale.generation),
            Err(RangeError::Stale)
        );
        assert_eq!(
            core.get(stale.node, stale.generation),
            Err(RangeError::Stale)
        );
    }
    assert_eq!(
        (
            core.core.live_count(),
            other.core.live_count(),
            other.core.free_bytes()
        ),
        (9, 0, 8192)
    );
}

#[test]
fn a_renewed_range_stays_where_it_is_under_another_name() {
    let mut core = Core::with_floor(4096, 16, MAX_GENERATION - 1);
    let taken = core.allocate(40);
    core.core
        .set_user_data(&core.store, taken.node, taken.generation, 9)
        .unwrap();
    let renewed = core
        .core
        .renew(&core.store, taken.node, taken.generation)
        .unwrap();
    assert_eq!(
        core.get(taken.node, taken.generation),
        Err(RangeError::Stale)
    );
    let found = core.get(taken.node, renewed).unwrap();
    assert_eq!(
        (found.offset, found.size, found.asked, found.user_data),
        (0, 48, 40, 9)
    );
    assert_eq!(
        core.core.renew(&core.store, taken.node, renewed),
        Err(RangeError::UsedUp)
    );
    core.free(taken.node, renewed).unwrap();
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
    // All but one, in no order: two runs, two holes.
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

/// A bin holds holes of different sizes, and the quick search looks at the first alone.
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
    // A hole that fits by the luck of its alignment alone.
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
