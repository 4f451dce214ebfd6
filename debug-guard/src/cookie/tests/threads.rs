//! Quarantine, and many threads.

use super::*;

#[test]
fn quarantine_stays_within_its_blocks_and_bytes() {
    let mut keeper = Keeper::new(100);
    for _ in 0..if cfg!(miri) { 150 } else { 1000 } {
        let block = keeper.take(10, 8);
        keeper.give_well(block);
        assert!(keeper.cookies.held().0 <= 140, "{:?}", keeper.cookies.held());
    }
    assert!(keeper.cookies.held().0 >= 100);
    for _ in 0..if cfg!(miri) { 12 } else { 100 } {
        let block = keeper.take(100_000, 8);
        keeper.give_well(block);
        assert!(keeper.cookies.held().1 <= (1 << 20) + 200_000, "{:?}", keeper.cookies.held());
    }
    assert!(keeper.cookies.held().1 >= 900_000);
    let (before, block) = (keeper.memory.live_bytes(), keeper.take(2 << 20, 8));
    keeper.give_well(block);
    assert_eq!(keeper.memory.live_bytes(), before, "too large to wait");
    assert!(keeper.close().is_empty());
}

#[test]
fn threads_that_ended_hold_no_bytes_beyond_the_limit() {
    for size in [1_000_000, 60_000] {
        let mut keeper = Keeper::new(4096);
        let layout = Layout::from_size_align(size, 8).expect("a layout");
        // All at once, so that each has a cache of its own.
        let together = std::sync::Barrier::new(20);
        let run = || {
            together.wait();
            let block = keeper
                .cookies
                .allocate(&keeper.memory, BlockRequest::new(layout, Scope::Object, false), false, BlockMark::default())
                .expect("memory");
            together.wait();
            let at = block.addr().get();
            // SAFETY: the keeper's memory.
            let given = unsafe {
                keeper.cookies.free(
                    &keeper.memory,
                    at,
                    FreeRequest { layout, scope: Scope::Object, mark: BlockMark::default(), moved_to: None },
                    &mut |_| {},
                )
            };
            assert!(given.is_some());
            together.wait();
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..20).map(|_| scope.spawn(run)).collect();
            // Joined, not only waited for: to its very end.
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        });
        for _ in 0..300 {
            let block = keeper.take(10, 8);
            keeper.give_well(block);
        }
        let waiting = keeper.cookies.held().1;
        assert!(waiting <= (1 << 20) + 10_000, "{waiting} bytes of blocks of {size} wait");
        // Two threads that make room at once may make it twice: of the large ones, of which one alone fits, none may be
        // left then.
        assert!(size == 1_000_000 || waiting >= 400_000, "{waiting} bytes of blocks of {size} wait");
        assert!(keeper.close().is_empty());
    }
}

#[test]
fn who_looks_at_blocks_that_come_and_go_finds_nothing() {
    let keeper = Keeper::new(4);
    let (layout, mark) = (Layout::new::<[u64; 8]>(), BlockMark::default());
    let run = || {
        for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
            let request = BlockRequest::new(layout, Scope::Object, false);
            let block = keeper.cookies.allocate(&keeper.memory, request, false, mark);
            let request = FreeRequest { layout, scope: Scope::Object, mark, moved_to: None };
            let at = block.expect("memory").addr().get();
            let found = &mut |finding| panic!("{finding:?}");
            // SAFETY: the keeper's memory.
            let given = unsafe { keeper.cookies.free(&keeper.memory, at, request, found) };
            assert!(given.is_some());
        }
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(run), scope.spawn(run)];
        while !threads.iter().all(|thread| thread.is_finished()) {
            assert!(keeper.check().is_empty());
        }
    });
    assert!(keeper.close().is_empty());
}

#[test]
fn t40_what_a_thread_held_when_the_process_forked_hinders_nobody_in_the_child() {
    let mut keeper = Keeper::new(16);
    let count = if cfg!(miri) { 17 } else { 100 };
    for _ in 0..count {
        let block = keeper.take(64, 8);
        keeper.give_well(block);
    }
    keeper.cookies.quarantine.leave_behind();
    let blocks: Vec<_> = (0..2 * count).map(|_| keeper.take(64, 8)).collect();
    poke(blocks[0], 64, peek(blocks[0], 64) ^ 1);
    assert_eq!(keeper.check().iter().map(|finding| finding.kind).collect::<Vec<_>>(), [ReportKind::Overflow]);
    blocks.into_iter().for_each(|block| keeper.give_well(block));
    assert!(keeper.check().is_empty());
    assert!(keeper.close().is_empty());
}

/// What waits for ever in the child takes no room away from what is freed there.
#[test]
fn t40_a_child_has_all_the_room_of_its_quarantine() {
    const SIZE: usize = 60_000;
    let mut keeper = Keeper::new(4096);
    let blocks: Vec<_> = (0..17).map(|_| keeper.take(SIZE, 8)).collect();
    blocks.into_iter().for_each(|block| keeper.give_well(block));
    keeper.cookies.quarantine.leave_behind();
    let blocks: Vec<_> = (0..10).map(|_| keeper.take(SIZE, 8)).collect();
    blocks.iter().for_each(|block| keeper.give_well(*block));
    let waits = |block: &&NonNull<u8>| keeper.cookies.freed(|freed| freed.start == block.addr().get()).is_some();
    assert_eq!(blocks.iter().filter(waits).count(), 10, "600 000 bytes of a million");
    assert!(keeper.close().is_empty());
}
