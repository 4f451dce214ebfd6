//! The fault-injecting decorator over a real allocator: what is refused, what is counted, what is left alone.

use std::alloc::{Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use alloc_core::{
    AllocError, AllocatorTraits, Context, ContextOptions, FromGlobalAlloc, HostAllocator, HostError, Scope, TryVec,
};
use debug_guard::{FailingAllocator, Fault, Guard, GuardOptions, Mode, OnReport, Stacks};

type Host = FailingAllocator<FromGlobalAlloc<System>>;

fn host(fault: Fault) -> Host {
    FailingAllocator::new(FromGlobalAlloc::SYSTEM, fault)
}

fn bytes(size: usize) -> Layout {
    Layout::from_size_align(size, 8).expect("a valid layout")
}

/// Takes and gives back one block; true when it was given.
fn takes(host: &Host, size: usize, scope: Scope) -> bool {
    match host.allocate(bytes(size), scope) {
        Ok(block) => {
            // SAFETY: just taken with this layout and scope.
            unsafe { host.deallocate(block, bytes(size), scope) };
            true
        }
        Err(AllocError) => false,
    }
}

#[test]
fn t46_nth_fails_alone_and_from_fails_on() {
    let host = host(Fault::Nth(1));
    let seen: Vec<bool> = (0..4).map(|_| takes(&host, 8, Scope::Object)).collect();
    assert_eq!(seen, [true, false, true, true]);
    assert_eq!((host.requests(), host.refused()), (4, 1));

    host.arm(Fault::From(2));
    let seen: Vec<bool> = (0..4).map(|_| takes(&host, 8, Scope::Object)).collect();
    assert_eq!(seen, [true, true, false, false]);

    host.disarm();
    assert!(takes(&host, 8, Scope::Object));
    assert_eq!((host.requests(), host.refused(), host.live_bytes()), (5, 2, 0));
}

#[test]
fn a_live_limit_frees_up() {
    let host = host(Fault::LiveBytes(100));
    let block = host.allocate(bytes(60), Scope::Device).expect("60 of 100");
    assert!(!takes(&host, 41, Scope::Device));
    assert!(takes(&host, 40, Scope::Device));
    // SAFETY: the live block of this host.
    unsafe { host.deallocate(block, bytes(60), Scope::Device) };
    assert!(takes(&host, 100, Scope::Device));
    assert_eq!((host.refused(), host.live_bytes()), (1, 0));
}

#[test]
fn t46_one_scope_fails_and_the_others_do_not() {
    let host = host(Fault::Scope(Scope::Cache, 1));
    assert!(takes(&host, 8, Scope::Cache));
    assert!(takes(&host, 8, Scope::Object));
    assert!(!takes(&host, 8, Scope::Cache));
    assert!(takes(&host, 8, Scope::Object));
}

#[test]
fn a_refused_grow_or_shrink_leaves_the_block() {
    let host = host(Fault::Never);
    let block = host.allocate(bytes(16), Scope::Object).expect("16 bytes");
    // SAFETY: 16 bytes of ours.
    unsafe { block.as_ptr().write_bytes(7, 16) };
    for fault in [Fault::From(0), Fault::LiveBytes(31)] {
        host.arm(fault);
        assert_eq!(
            // SAFETY: the live block of this host.
            unsafe { host.resize(block, bytes(16), bytes(32), Scope::Object) },
            Err(AllocError),
            "{fault:?}"
        );
        assert_eq!((host.live_bytes(), host.refused()), (16, 1), "{fault:?}");
    }
    host.arm(Fault::Nth(0));
    assert_eq!(
        // SAFETY: the refused resize left the block live.
        unsafe { host.resize(block, bytes(16), bytes(8), Scope::Object) },
        Err(AllocError)
    );
    assert_eq!(
        // SAFETY: the block was kept by every refusal; 16 bytes of ours.
        unsafe { NonNull::slice_from_raw_parts(block, 16).as_ref() },
        [7; 16]
    );
    // SAFETY: the refused resizes left the block live.
    let block = unsafe { host.resize(block, bytes(16), bytes(8), Scope::Object) }.expect("request 1");
    assert_eq!(host.live_bytes(), 8);
    // SAFETY: the live block of this host.
    let block = unsafe { host.resize(block, bytes(8), bytes(24), Scope::Object) }.expect("request 2");
    assert_eq!((host.live_bytes(), host.requests()), (24, 3));
    // SAFETY: the live block of this host.
    unsafe { host.deallocate(block, bytes(24), Scope::Object) };
    assert_eq!(host.live_bytes(), 0);
}

#[test]
fn size_zero_and_freeing_are_never_refused() {
    let host = host(Fault::Never);
    let block = host.allocate(bytes(16), Scope::Object).expect("16 bytes");
    host.arm(Fault::From(0));
    let nothing = host.allocate(bytes(0), Scope::Object).expect("size 0 takes nothing");
    assert_eq!(nothing.as_ptr().addr() % 8, 0);
    // SAFETY: the answer to a request for 0 bytes.
    unsafe { host.deallocate(nothing, bytes(0), Scope::Object) };
    // SAFETY: the live block of this host.
    let nothing = unsafe { host.resize(block, bytes(16), bytes(0), Scope::Object) }.expect("a shrink to 0 frees");
    assert_eq!((host.live_bytes(), host.requests()), (0, 0));
    // SAFETY: the answer to a request for 0 bytes. Growing it is a request like any other.
    assert!(unsafe { host.resize(nothing, bytes(0), bytes(8), Scope::Object) }.is_err());
}

#[test]
fn a_refusal_says_who_refused() {
    let outer = FailingAllocator::new(FailingAllocator::new(FromGlobalAlloc::SYSTEM, Fault::From(1)), Fault::Nth(0));
    assert!(outer.allocate(bytes(8), Scope::Object).is_err());
    assert_eq!(outer.refusal(bytes(8), Scope::Object), HostError::OutOfHostMemory { bytes: 8, scope: Scope::Object });
    assert_eq!((outer.refused(), outer.inner().requests()), (1, 0), "what the plan refuses is not forwarded");

    let block = outer.allocate(bytes(8), Scope::Object).expect("both let it pass");
    assert!(outer.allocate(bytes(8), Scope::Object).is_err());
    assert_eq!((outer.refused(), outer.inner().refused()), (1, 1));
    assert_eq!(outer.live_bytes(), 8, "a refusal of the allocator behind charges nothing");
    // SAFETY: the live block of `outer`.
    unsafe { outer.deallocate(block, bytes(8), Scope::Object) };
}

#[test]
fn threads_never_exceed_a_limit_and_one_request_is_the_nth() {
    let host = host(Fault::Nth(1_000));
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for _ in 0..1_000 {
                    takes(&host, 8, Scope::Object);
                }
            });
        }
    });
    assert_eq!((host.requests(), host.refused(), host.live_bytes()), (4_000, 1, 0));

    host.arm(Fault::LiveBytes(24));
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for _ in 0..1_000 {
                    takes(&host, 8, Scope::Object);
                    assert!(host.live_bytes() <= 24);
                }
            });
        }
    });
    assert_eq!(host.live_bytes(), 0);
}

#[test]
fn t46_one_context_fails_and_the_others_do_not() {
    let host = host(Fault::Never);
    // SAFETY: the root is closed before `host` goes.
    let root = unsafe { Context::root(&host, ContextOptions::new("root")) }.expect("a root");
    let images = root.child("VkImage").expect("a child");
    let views = root.child("VkImageView").expect("a child");
    let took = |context: &Context| TryVec::<u8, &Context>::try_with_capacity_in(64, context).is_ok();

    host.arm("context=VkImage:1".parse().expect("a plan"));
    let seen = [&images, &views, &images, &views, &root, &images].map(took);
    assert_eq!(seen, [true, true, false, true, true, false], "the context's second request and every later one");
    assert_eq!(host.refused(), 2);

    host.arm("context=VkImage*".parse().expect("a plan"));
    assert_eq!([&images, &views, &root].map(took), [false, false, true]);

    host.disarm();
    drop((images, views));
    root.close_root().expect("nothing is left");
    assert_eq!(host.live_bytes(), 0);
}

#[test]
fn t46_what_is_too_large_fails() {
    let host = host(Fault::SizeAbove(64));
    assert!(
        takes(&host, 64, Scope::Object) && !takes(&host, 65, Scope::Object) && !takes(&host, 1 << 30, Scope::Object)
    );
    let block = host.allocate(bytes(60), Scope::Object).expect("60 of 64");
    // SAFETY: the live block of this host. The new size counts, not the growth.
    assert!(unsafe { host.resize(block, bytes(60), bytes(65), Scope::Object) }.is_err());
    // SAFETY: the refused resize left the block live.
    unsafe { host.deallocate(block, bytes(60), Scope::Object) };
    assert_eq!((host.refused(), host.live_bytes()), (3, 0));
}

#[test]
fn t46_one_in_k_fails_and_the_seed_says_which() {
    let refusals = |text: &str| {
        let host = host(text.parse().expect("a plan"));
        (0..20_000).filter(|_| !takes(&host, 8, Scope::Object)).collect::<Vec<u32>>()
    };
    let first = refusals("one-in=100,seed=7");
    // 200 are expected; five standard deviations (14.1) to each side, once in two million seeds outside.
    assert!((130..=270).contains(&first.len()), "{}", first.len());
    assert_eq!(first, refusals("one-in=100,seed=7"));
    assert_ne!(first, refusals("one-in=100,seed=8"));
    assert_eq!(refusals("one-in=1").len(), 20_000);
    let none = Fault::OneIn { requests: 0, seed: 7 };
    assert!(takes(&host(none), 8, Scope::Object));
}

/// An allocator behind whose next request arms the plan in front of it anew, and is refused.
#[derive(Debug)]
struct Rearming(AtomicBool);

static IN_FRONT: FailingAllocator<Rearming> = FailingAllocator::new(Rearming(AtomicBool::new(false)), Fault::Never);

// SAFETY: blocks are the system's.
unsafe impl HostAllocator for Rearming {
    fn traits(&self) -> AllocatorTraits {
        FromGlobalAlloc::SYSTEM.traits()
    }

    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if self.0.swap(false, Relaxed) {
            IN_FRONT.arm(Fault::LiveBytes(100));
            return Err(AllocError);
        }
        FromGlobalAlloc::SYSTEM.allocate(layout, scope)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: this function's contract: the block is the system's.
        unsafe { FromGlobalAlloc::SYSTEM.deallocate(block, layout, scope) };
    }
}

#[test]
fn a_plan_that_is_armed_during_a_request_owes_nothing_to_it_reenters() {
    IN_FRONT.inner().0.store(true, Relaxed);
    assert_eq!(IN_FRONT.allocate(bytes(60), Scope::Object), Err(AllocError), "the allocator behind refused");
    assert_eq!((IN_FRONT.live_bytes(), IN_FRONT.requests(), IN_FRONT.refused()), (0, 0, 0));
    let block = IN_FRONT.allocate(bytes(100), Scope::Object).expect("100 of 100");
    assert_eq!(IN_FRONT.allocate(bytes(1), Scope::Object), Err(AllocError), "there were 100 bytes to be given");
    assert_eq!((IN_FRONT.live_bytes(), IN_FRONT.requests(), IN_FRONT.refused()), (100, 2, 1));
    // SAFETY: the live block of this host.
    unsafe { IN_FRONT.deallocate(block, bytes(100), Scope::Object) };
}

/// Neither plan refuses anything that is asked for here; one that has its kind from one and its number from the other
/// does.
#[test]
fn arm_during_use_leaves_one_plan_and_no_mixture() {
    const ROUNDS: u64 = if cfg!(miri) { 100 } else { 20_000 };
    let host = host(Fault::Never);
    let armed = AtomicU64::new(0);
    let mut refused = 0;
    std::thread::scope(|threads| {
        for harmless in [Fault::From(u64::MAX), Fault::Scope(Scope::Cache, 0)] {
            let (host, armed) = (&host, &armed);
            threads.spawn(move || {
                for _ in 0..ROUNDS {
                    host.arm(harmless);
                    armed.fetch_add(1, Relaxed);
                }
            });
        }
        while armed.load(Relaxed) < 2 * ROUNDS {
            refused += u64::from(!takes(&host, 8, Scope::Object));
        }
    });
    assert_eq!(refused, 0, "nobody armed what refuses this: {host:?}");
}

/// Of the requests that one plan counts, one has its number, whenever it was armed.
#[test]
fn arm_during_use_leaves_no_number_out() {
    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 2_000 };
    let host = host(Fault::Never);
    let done = AtomicBool::new(false);
    let refused = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Relaxed) {
                takes(&host, 8, Scope::Object);
            }
        });
        let refused: u64 = (0..ROUNDS)
            .map(|_| {
                host.arm(Fault::Nth(0));
                while host.requests() == 0 {
                    std::thread::yield_now();
                }
                host.disarm();
                host.refused()
            })
            .sum();
        done.store(true, Relaxed);
        refused
    });
    assert_eq!(refused, ROUNDS, "one of each plan's requests was its first");
}

/// A guard that panics reports what comes back to it wrongly when all is done: so the bytes that were freed are live no
/// more.
#[test]
fn what_an_allocator_behind_did_that_unwinds_is_counted() {
    let options =
        GuardOptions::new(Mode::Cookie).check_every(2).stacks(Stacks::Off).json(false).on_report(OnReport::Panic);
    let guard = Guard::new(FromGlobalAlloc::SYSTEM, options);
    let host = FailingAllocator::new(guard.expect("memory"), Fault::Never);
    let block = host.allocate(bytes(40), Scope::Object).expect("memory");
    // SAFETY: the live block of this host, on purpose with another scope than it has.
    let free = || unsafe { host.deallocate(block, bytes(40), Scope::Cache) };
    catch_unwind(AssertUnwindSafe(free)).expect_err("a mismatch is reported");
    assert_eq!((host.live_bytes(), host.inner().stats().live_blocks), (0, 0));

    let block = host.allocate(bytes(40), Scope::Object).expect("memory");
    // SAFETY: broken on purpose: the byte behind the block is the guard's.
    unsafe { block.as_ptr().wrapping_add(40).write(0) };
    let late = host.allocate(bytes(7), Scope::Object).expect("memory");
    catch_unwind(AssertUnwindSafe(|| host.allocate(bytes(30), Scope::Object)))
        .expect_err("the fourth request looks at all blocks");
    assert_eq!((host.live_bytes(), host.inner().stats().live_blocks), (47, 2));
    for (block, size) in [(block, 40), (late, 7)] {
        // SAFETY: a live block of this host.
        unsafe { host.deallocate(block, bytes(size), Scope::Object) };
    }
}

#[test]
fn a_refused_resize_that_passes_through_a_guard_counts_nothing() {
    let guard = Guard::new(host(Fault::Never), GuardOptions::new(Mode::Off)).expect("memory");
    let block = guard.allocate(bytes(40), Scope::Object).expect("memory");
    guard.inner().arm(Fault::Nth(0));
    // SAFETY: a live block of this guard.
    let refused = unsafe { guard.resize(block, bytes(40), bytes(80), Scope::Object) };
    let live = |guard: &Guard<Host>| (guard.stats().live_blocks, guard.stats().live_bytes);
    assert_eq!((refused, live(&guard)), (Err(AllocError), (1, 40)));
    // SAFETY: the refused resize left the block live.
    let moved = unsafe { guard.resize(block, bytes(40), bytes(80), Scope::Object) };
    let moved = moved.expect("memory");
    assert_eq!(live(&guard), (1, 80));
    // SAFETY: a live block of this guard.
    unsafe { guard.deallocate(moved, bytes(80), Scope::Object) };
    assert_eq!(live(&guard), (0, 0));
}
