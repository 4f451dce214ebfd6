//! Quarantine, and many threads.

use super::*;

#[test]
fn quarantine_stays_within_its_blocks_and_bytes() {
    let mut keeper = Keeper::new(100);
    for _ in 0..if cfg!(miri) { 150 } else { 1000 } {
        let block = keeper.take(10, 8);
        keeper.give_well(block);
        assert!(
            keeper.cookies.held().0 <= 140,
            "{:?}",
            keeper.cookies.held()
        );
    }
    assert!(keeper.cookies.held().0 >= 100);
    for _ in 0..if cfg!(miri) { 12 } else { 100 } {
        let block = keeper.take(100_000, 8);
        keeper.give_well(block);
        assert!(
            keeper.cookies.held().1 <= (1 << 20) + 200_000,
            "{:?}",
            keeper.cookies.held()
        );
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
                .allocate(
                    &keeper.memory,
                    BlockRequest::new(layout, Scope::Object, false),
                    false,
                    BlockMark::default(),
                )
                .expect("memory");
            together.wait();
            let at = block.addr().get();
            // SAFETY: the keeper's memory.
            let given = unsafe {
                keeper.cookies.free(
                    &keeper.memory,
                    at,
                    FreeRequest {
                        layout,
                        scope: Scope::Object,
                        mark: BlockMark::default(),
                        moved_to: None,
                    },
                    &mut |_| {},
                )
            };
            assert!(given.is_some());
            together.wait();
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..20).map(|_| scope.spawn(run)).collect();
            // Joined, not only waited for: to its very end.
            threads
                .into_iter()
                .for_each(|thread| thread.join().expect("no panic"));
        });
        for _ in 0..300 {
            let block = keeper.take(10, 8);
            keeper.give_well(block);
        }
        let waiting = keeper.cookies.held().1;
        assert!(
            waiting <= (1 << 20) + 10_000,
            "{waiting} bytes of blocks of {size} wait"
        );
        // Two threads that make room at once may make it twice: of the large ones, of which one alone fits, none may be
        // left then.
        assert!(
            size == 1_000_000 || waiting >= 400_000,
            "{waiting} bytes of blocks of {size} wait"
        );
        assert!(keeper.close().is_empty());
    }
}

#[test]
fn t31_every_refusal_is_survived() {
    let keeper = Keeper::new(64);
    for (size, align) in [
        (isize::MAX as usize, 1),
        (isize::MAX as usize - 40, 16),
        (0, 1 << (usize::BITS - 1)),
    ] {
        let layout = Layout::from_size_align(size, align).expect("a layout");
        assert!(
            keeper
                .cookies
                .allocate(
                    &keeper.memory,
                    BlockRequest::new(layout, Scope::Object, false),
                    false,
                    BlockMark::default()
                )
                .is_err()
        );
    }
    assert!(keeper.close().is_empty());
    for nth in 0..6 {
        let memory = FailingAllocator::new(FromGlobalAlloc::SYSTEM, Plan::Nth(nth));
        let mut cookies = Cookies::new(CookieOptions {
            blocks: 64,
            bytes: 1 << 20,
        });
        let layout = Layout::new::<u64>();
        let mut blocks = Vec::new();
        // Room for the second segment of the table is needed on the way.
        while blocks.len() < 1100 {
            match cookies.allocate(
                &memory,
                BlockRequest::new(layout, Scope::Object, false),
                false,
                BlockMark::default(),
            ) {
                Ok(block) => blocks.push(block),
                Err(_) => assert_eq!(memory.refused(), 1),
            }
        }
        for block in blocks {
            // SAFETY: its memory.
            let given = unsafe {
                cookies.free(
                    &memory,
                    block.addr().get(),
                    FreeRequest {
                        layout,
                        scope: Scope::Object,
                        mark: BlockMark::default(),
                        moved_to: None,
                    },
                    &mut |finding| panic!("{finding:?}"),
                )
            };
            assert!(given.is_some());
        }
        // SAFETY: as above.
        unsafe { cookies.close(&memory, &mut |_| panic!("nothing was written to")) };
        assert_eq!(
            (memory.live_bytes(), memory.refused()),
            (0, 1),
            "request {nth}"
        );
    }
}

#[test]
fn t45_threads_take_and_give_each_others_blocks_while_one_looks() {
    let (rounds, width) = if cfg!(miri) { (4, 40) } else { (400, 200) };
    let keeper = Keeper::new(256);
    let found = std::sync::Mutex::new(Vec::new());
    let done = core::sync::atomic::AtomicUsize::new(0);
    let (sender, receiver) = std::sync::mpsc::channel::<Vec<usize>>();
    let receiver = std::sync::Mutex::new(receiver);
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let (sender, receiver, keeper, found, done) =
                (sender.clone(), &receiver, &keeper, &found, &done);
            scope.spawn(move || {
                let mark = |serial| BlockMark {
                    site: SiteId(1),
                    thread: thread as u32,
                    serial,
                };
                let give = |at: usize| {
                    let (layout, scope) = allocated_with(&keeper.cookies, at);
                    let mut late = |finding| found.lock().expect("no panic").push(finding);
                    // SAFETY: the keeper's memory, a live block that was passed on.
                    let given = unsafe {
                        keeper.cookies.free(
                            &keeper.memory,
                            at,
                            FreeRequest {
                                layout,
                                scope,
                                mark: mark(1),
                                moved_to: None,
                            },
                            &mut late,
                        )
                    };
                    assert!(given.is_some());
                };
                for round in 0..rounds {
                    let layout = Layout::from_size_align(round * 7 % 300, 8).expect("a layout");
                    let header_only = round % 5 == 0;
                    let take = |n| {
                        let block = keeper.cookies.allocate(
                            &keeper.memory,
                            BlockRequest::new(layout, Scope::Object, false),
                            header_only,
                            mark(n as u64),
                        );
                        block.expect("memory").addr().get()
                    };
                    sender.send((0..width).map(take).collect()).expect("open");
                    let other = receiver
                        .lock()
                        .expect("no panic")
                        .recv()
                        .expect("one was sent");
                    other.into_iter().for_each(give);
                }
                done.fetch_add(1, core::sync::atomic::Ordering::SeqCst);
            });
        }
        while done.load(core::sync::atomic::Ordering::SeqCst) < 4 {
            keeper
                .cookies
                .check(&mut |findings| found.lock().expect("no panic").extend(findings));
            keeper
                .cookies
                .for_each(&mut |known| assert!(known.size < 300));
        }
    });
    assert!(found.into_inner().expect("no panic").is_empty());
    // And something would have been found: by one thread, in a block of another, which has ended.
    let mut keeper = keeper;
    let block = keeper.take(64, 8);
    poke(block, 64, peek(block, 64) ^ 1);
    assert_eq!(keeper.check().len(), 1);
    keeper.give_well(block);
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
    assert_eq!(
        keeper
            .check()
            .iter()
            .map(|finding| finding.kind)
            .collect::<Vec<_>>(),
        [ReportKind::Overflow]
    );
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
    let waits = |block: &&NonNull<u8>| {
        keeper
            .cookies
            .freed(|freed| freed.start == block.addr().get())
            .is_some()
    };
    assert_eq!(
        blocks.iter().filter(waits).count(),
        10,
        "600 000 bytes of a million"
    );
    assert!(keeper.close().is_empty());
}
