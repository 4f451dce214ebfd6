//! What stands when the allocator behind is called, seen by one that looks, or calls the keeper back.

use core::cell::Cell;

use alloc_core::{AllocError, AllocatorTraits, HostAllocator};

use super::*;
use crate::cookie::layout::plan;

/// Calls `within` at each request and each free, unless it is just doing so.
struct Within<'a> {
    behind: &'a Memory,
    within: &'a dyn Fn(),
    inside: Cell<bool>,
}

impl<'a> Within<'a> {
    fn new(behind: &'a Memory, within: &'a dyn Fn()) -> Self {
        Self { behind, within, inside: Cell::new(false) }
    }

    fn call(&self) {
        if !self.inside.replace(true) {
            (self.within)();
            self.inside.set(false);
        }
    }
}

// SAFETY: blocks are those of the allocator behind.
unsafe impl HostAllocator for Within<'_> {
    fn traits(&self) -> AllocatorTraits {
        self.behind.traits()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.call();
        self.behind.allocate(layout, scope)
    }

    fn allocate_zeroed(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        self.call();
        self.behind.allocate_zeroed(layout, scope)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        self.call();
        // SAFETY: a block of the allocator behind, with the layout and scope that it was taken with.
        unsafe { self.behind.deallocate(block, layout, scope) };
    }
}

/// Who looks for damage holds the lock while it looks at a block.
#[test]
fn a_block_that_does_not_wait_goes_when_nobody_looks_at_it_any_more() {
    let mut keeper = Keeper::new(0);
    let block = keeper.take(64, 8);
    // Would wait for itself if the free held a lock meanwhile.
    let waited = Cell::new(None);
    let look = || {
        keeper.cookies.quarantine.shards().for_each(|shard| drop(shard.lock()));
        waited.set(Some(true));
    };
    let memory = Within::new(&keeper.memory, &look);
    // SAFETY: over the keeper's memory, a live block.
    let given = unsafe {
        keeper.cookies.free(
            &memory,
            block.addr().get(),
            FreeRequest {
                layout: Layout::from_size_align(64, 8).expect("a layout"),
                scope: Scope::Object,
                mark: BlockMark::default(),
                moved_to: None,
            },
            &mut |finding| panic!("{finding:?}"),
        )
    };
    assert!(given.is_some());
    assert_eq!(waited.get(), Some(true), "no lock is held while the block goes");
    assert!(keeper.close().is_empty());
}

/// Both see that there is room for none, and both ask for it.
#[test]
fn a_segment_of_records_that_comes_while_the_keeper_reenters_is_given_back() {
    let keeper = Keeper::new(0);
    let table = &keeper.cookies.table;
    let grow = |memory: &dyn HostAllocator| table.records.grow(0, memory).expect("memory");
    let before = keeper.memory.live_bytes();
    let asked = Cell::new(false);
    let once = || {
        if !asked.replace(true) {
            grow(&keeper.memory);
        }
    };
    grow(&Within::new(&keeper.memory, &once));
    let one = keeper.memory.live_bytes() - before;
    grow(&keeper.memory);
    assert_eq!(keeper.memory.live_bytes() - before, one, "who saw no records gets those that came meanwhile");
    let seen = (0..).find_map(|_| table.fresh().err()).expect("it ends");
    let records = &table.records;
    records.grow(seen, &keeper.memory).expect("memory");
    assert_eq!(
        keeper.memory.live_bytes() - before,
        3 * one,
        "the first segment came once; the second is twice as large"
    );
    assert!(keeper.close().is_empty());
}

#[test]
fn records_of_blocks_that_are_gone_serve_again() {
    let mut keeper = Keeper::new(0);
    let (rounds, count) = if cfg!(miri) { (2, 10) } else { (50, 200) };
    for _ in 0..rounds {
        let blocks: Vec<_> = (0..count).map(|_| keeper.take(8, 8)).collect();
        keeper.memory.arm(Plan::SizeAbove(4096));
        let large = Layout::new::<[u8; 5000]>();
        for _ in 0..count / 4 {
            let refused = keeper.cookies.allocate(
                &keeper.memory,
                BlockRequest::new(large, Scope::Object, false),
                false,
                BlockMark::default(),
            );
            assert!(refused.is_err());
        }
        keeper.memory.disarm();
        blocks.into_iter().for_each(|block| keeper.give_well(block));
        let records = keeper.cookies.table.all().count();
        assert!(records <= count + 1, "as many as there were blocks at a time, and that of the refused one: {records}");
    }
    assert!(keeper.close().is_empty());
}

#[test]
fn the_record_of_a_block_whose_free_unwinds_serves_again() {
    let mut keeper = Keeper::new(0);
    for _ in 0..if cfg!(miri) { 3 } else { 20 } {
        let block = keeper.take(8, 8);
        let unwinds = || panic!("the allocator behind");
        let memory = Within::new(&keeper.memory, &unwinds);
        let request = FreeRequest {
            layout: Layout::new::<u64>(),
            scope: Scope::Object,
            mark: BlockMark::default(),
            moved_to: None,
        };
        let cookies = &keeper.cookies;
        // SAFETY: over the keeper's memory, a live block.
        let free = || unsafe { cookies.free(&memory, block.addr().get(), request, &mut |_| {}) };
        let unwound = std::panic::catch_unwind(core::panic::AssertUnwindSafe(free));
        assert!(unwound.is_err(), "the allocator behind unwinds");
        let plan = plan(8, 8, false).expect("small");
        let base = NonNull::new(core::ptr::with_exposed_provenance_mut(block.addr().get() - plan.front));
        // SAFETY: the block that the allocator behind was asked to free, and did not.
        unsafe { keeper.memory.deallocate(base.expect("a block"), plan.whole, Scope::Object) };
    }
    assert_eq!(keeper.cookies.table.all().count(), 1, "one block at a time");
    assert!(keeper.close().is_empty());
}
