//! Memory that is refused, the application's and the checker's own, and what V9 says about it.

use alloc_core::held_state_locks;
use debug_guard::{FailingAllocator, Fault};
use std::sync::atomic::Ordering::SeqCst;

use super::*;

type Failing = FailingAllocator<&'static FromGlobalAlloc<System>>;

fn failing() -> Failing {
    FailingAllocator::new(&SYSTEM, Fault::Never)
}

#[test]
fn v8_without_room_for_a_record_the_request_is_refused_and_the_block_goes_back() {
    let memory = failing();
    let bench = Bench::new(&memory);
    memory.arm(Fault::From(0));
    bench.checker.run(command("vkCreateBuffer", bench.owner), |frame| {
        assert!(bench.driver.alloc(100, 8, Scope::Object).is_null());
        assert_eq!((frame.null_answers(), bench.app.heap.live()), (1, 0));
        frame.returned(-1);
    });
    memory.arm(Fault::Never);
    assert_eq!((kinds(&bench.checker), bench.checker.live_blocks()), (vec![], 0));
}

#[test]
fn v16_without_room_for_a_record_the_old_block_stays() {
    let memory = failing();
    let bench = Bench::new(&memory);
    bench.checker.run(command("vkCreateBuffer", bench.owner), |frame| {
        let block = bench.driver.alloc(100, 8, Scope::Object);
        common::fill(block, 100, 3);
        memory.arm(Fault::From(0));
        assert!(bench.driver.realloc(block, 200, 8, Scope::Object).is_null());
        memory.arm(Fault::Never);
        // It was refused before the application was asked.
        assert_eq!((frame.null_answers(), bench.app.calls().len()), (1, 1));
        common::assert_filled(block, 100, 3);
        let moved = bench.driver.realloc(block, 200, 8, Scope::Object);
        common::assert_filled(moved, 100, 3);
        bench.driver.free(moved);
    });
    assert_eq!((kinds(&bench.checker), bench.app.heap.live()), (vec![], 0));
}

#[test]
fn v9_a_refusal_of_an_inner_command_is_the_outer_ones_too() {
    let bench = Bench::new(&SYSTEM);
    let refused = |result: i32| {
        bench.checker.run(command("vkCreateBuffer", bench.owner), |outer| {
            bench.app.refuses.store(true, SeqCst);
            bench.checker.run(command("vkCreateBuffer", bench.owner), |inner| {
                assert!(bench.driver.alloc(8, 8, Scope::Object).is_null());
                inner.returned(-1);
            });
            bench.app.refuses.store(false, SeqCst);
            outer.returned(result);
        });
    };
    refused(-1);
    assert_eq!(kinds(&bench.checker), []);
    refused(0);
    assert_eq!(kinds(&bench.checker), [], "who can go on without may");
    refused(-3);
    assert_eq!(kinds(&bench.checker), [FindingKind::OtherErrorAfterNull]);
}

#[test]
fn a_finding_without_room_is_counted() {
    let memory = failing();
    let bench = Bench::new(&memory);
    memory.arm(Fault::From(0));
    bench.run("vkCreateBuffer", || bench.driver.free(std::ptr::null_mut()));
    assert_eq!(bench.checker.lost(), 1);
    memory.arm(Fault::Never);
    bench.run("vkCreateBuffer", || bench.driver.free(std::ptr::null_mut()));
    let found = bench.checker.findings(Scoped::new(&SYSTEM, Scope::Object)).expect("there is memory");
    assert_eq!((found.len(), found[0].count, bench.checker.lost()), (1, 1, 1));
}

/// Asserts law 5 at every call.
struct Unlocked;

// SAFETY: every block is the system's.
unsafe impl HostAllocator for Unlocked {
    fn allocate(&self, layout: std::alloc::Layout, scope: Scope) -> Result<std::ptr::NonNull<u8>, alloc_core::AllocError> {
        assert_eq!(held_state_locks(), 0);
        SYSTEM.allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: std::ptr::NonNull<u8>, layout: std::alloc::Layout, scope: Scope) {
        assert_eq!(held_state_locks(), 0);
        // SAFETY: forwarded.
        unsafe { SYSTEM.deallocate(block, layout, scope) }
    }
}

#[test]
fn no_lock_is_held_when_memory_is_taken_or_given_back() {
    let bench = Bench::new(&Unlocked);
    let many = if cfg!(miri) { 200 } else { 3000 };
    bench.run("vkCreateBuffer", || {
        let blocks: Vec<_> = (0..many).map(|size| bench.driver.alloc(size % 7 + 1, 8, Scope::Object)).collect();
        for block in blocks {
            let block = bench.driver.realloc(block, 9, 16, Scope::Object);
            bench.driver.free(block);
            bench.driver.free(block);
        }
    });
    assert_eq!(kinds(&bench.checker), [FindingKind::OtherAlignment, FindingKind::FreedTwice]);
    let found = bench.checker.findings(Scoped::new(&SYSTEM, Scope::Object)).expect("there is memory");
    assert_eq!((found[0].count, found[1].count), (many as u64, many as u64));
    bench.checker.close().expect("nothing is live");
}
