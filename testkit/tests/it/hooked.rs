//! The hook of an allocator runs.

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use alloc_core::{HostAllocator, Notice, NoticeEvent, Scope};
use testkit::{Call, HookedAllocator, Moment, RecordingAllocator, Request, in_hook, run_hook, with_hook};

const SCOPE: Scope = Scope::Object;

fn bytes(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a valid layout")
}

fn host() -> HookedAllocator<RecordingAllocator> {
    HookedAllocator::new(RecordingAllocator::system())
}

#[test]
fn each_request_runs_the_hook_before_it_and_after_it() {
    let (host, seen) = (host(), RefCell::new(Vec::new()));
    let hook = |request| seen.borrow_mut().push((request, host.inner().total().live_bytes));
    with_hook(1, &hook, || {
        let block = host.allocate(bytes(8), SCOPE).expect("memory");
        // SAFETY: a live block with its layout and scope.
        let block = unsafe { host.resize(block, bytes(8), bytes(24), SCOPE) }.expect("memory");
        // SAFETY: a live block with its layout and scope.
        let block = unsafe { host.resize(block, bytes(24), bytes(16), SCOPE) }.expect("memory");
        // SAFETY: a live block with its layout and scope.
        unsafe { host.deallocate(block, bytes(16), SCOPE) };
        let zeros = host.allocate_zeroed(bytes(40), SCOPE).expect("memory");
        // SAFETY: a live block with its layout and scope.
        unsafe { host.deallocate(zeros, bytes(40), SCOPE) };
        host.notify(Notice { event: NoticeEvent::Freed, bytes: 3, scope: SCOPE });
        host.refusal(bytes(7), SCOPE);
        host.validate_pointer(NonNull::dangling(), 16);
        run_hook(Request { call: Call::Other("vkMapMemory"), moment: Moment::Before, bytes: 1 });
    });
    // What is asked for, and how many bytes are live before it and after it.
    let calls = [
        (Call::Allocate, 8, 0, 8),
        (Call::Grow, 24, 8, 24),
        (Call::Shrink, 16, 24, 16),
        (Call::Deallocate, 16, 16, 0),
        (Call::AllocateZeroed, 40, 0, 40),
        (Call::Deallocate, 40, 40, 0),
        (Call::Notify, 3, 0, 0),
        (Call::Refusal, 7, 0, 0),
        (Call::Vet, 0, 0, 0),
    ];
    let mut expected: Vec<_> = calls
        .into_iter()
        .flat_map(|(call, bytes, before, after)| {
            [(Moment::Before, before), (Moment::After, after)]
                .map(|(moment, live)| (Request { call, moment, bytes }, live))
        })
        .collect();
    expected.push((Request { call: Call::Other("vkMapMemory"), moment: Moment::Before, bytes: 1 }, 0));
    assert_eq!(seen.take(), expected);
    allocate_and_free(&host);
    assert_eq!(seen.take(), [], "the hook has ended");
}

fn allocate_and_free(host: &HookedAllocator<RecordingAllocator>) {
    let block = host.allocate(bytes(8), SCOPE).expect("memory");
    // SAFETY: a live block with its layout and scope.
    unsafe { host.deallocate(block, bytes(8), SCOPE) };
}

#[test]
fn a_hook_that_makes_requests_ends_at_its_depth() {
    let (host, runs) = (host(), Cell::new(0));
    let hook = |_| {
        assert!(in_hook());
        runs.set(runs.get() + 1);
        allocate_and_free(&host);
    };
    // Two requests run it four times; each run makes two requests more.
    for (depth, expected) in [(0, 0), (1, 4), (2, 4 + 16), (3, 4 + 16 + 64)] {
        runs.set(0);
        with_hook(depth, &hook, || allocate_and_free(&host));
        assert_eq!(runs.get(), expected, "depth {depth}");
    }
    runs.set(0);
    with_hook(1, &hook, || {
        std::thread::scope(|threads| {
            threads.spawn(|| allocate_and_free(&HookedAllocator::new(RecordingAllocator::system()))).join()
        })
    })
    .expect("another thread's requests run nothing");
    assert_eq!((runs.get(), in_hook()), (0, false));
}

#[test]
fn the_outer_hook_is_back_after_one_that_panics() {
    let (host, runs) = (host(), Cell::new(0));
    with_hook(1, &|_| runs.set(runs.get() + 1), || {
        let panics = |_| std::panic::resume_unwind(Box::new("planted"));
        let inner = catch_unwind(AssertUnwindSafe(|| with_hook(1, &panics, || allocate_and_free(&host))));
        assert_eq!((inner.is_err(), runs.get(), in_hook()), (true, 0, false));
        allocate_and_free(&host);
    });
    assert_eq!(runs.get(), 4);
}
