//! A bumpalo arena's chunks, as declared, against what the global allocator of this process gave: the same to the byte at every
//! point, also after refusals, resets, panics and moves to other threads.
//!
//! A process of its own, because the global allocator counts and refuses. Runs under miri.

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use alloc_core::{
    Allocator, Budget, Context, ContextHandle, ContextOptions, ForeignBump, ForeignKind,
    FromGlobalAlloc, HostError, Scope, TryVec,
};

/// Counts bytes that are out, and refuses while it is told to.
struct Global;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static REFUSES: AtomicBool = AtomicBool::new(false);

// SAFETY: all blocks are the system's.
unsafe impl GlobalAlloc for Global {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if REFUSES.load(SeqCst) {
            return std::ptr::null_mut();
        }
        LIVE.fetch_add(layout.size(), SeqCst);
        // SAFETY: forwarded.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), SeqCst);
        // SAFETY: forwarded.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static GLOBAL: Global = Global;

/// Past the global allocator: nothing of the context is on the heap that is being watched.
static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

fn root() -> Context {
    Context::root_static(
        &SYSTEM,
        ContextOptions::new("root").budget(Budget::exact(4096)),
    )
    .expect("memory")
}

/// What the account says, which must be what the bump says and what has left the global allocator since `before`.
fn held(bump: &ForeignBump<ContextHandle>, before: usize) -> usize {
    let declared = bump.context().usage().foreign(ForeignKind::Heap).live_bytes;
    let given = LIVE.load(SeqCst) - before;
    assert_eq!((declared, bump.bytes_held()), (given as u64, given));
    given
}

fn main() {
    every_call_that_takes_a_chunk_declares_it();
    refusals_change_nothing();
    a_panic_between_chunk_and_value_is_counted();
    the_declaration_follows_the_bump_to_another_thread();
    println!("a bump's chunks were declared to the byte at every point");
}

fn every_call_that_takes_a_chunk_declares_it() {
    let root = root();
    let routed = root.usage().total();
    let before = LIVE.load(SeqCst);
    let mut bump = ForeignBump::new_in(root.handle());
    assert_eq!(held(&bump, before), 0);
    let mut chunks = 0;
    let mut last = 0;
    for round in 0..if cfg!(miri) { 20 } else { 400 } {
        assert_eq!(
            *bump.try_alloc([round as u64; 9]).expect("memory"),
            [round as u64; 9]
        );
        held(&bump, before);
        assert_eq!(bump.try_alloc_str("a text").expect("memory"), "a text");
        held(&bump, before);
        assert_eq!(
            bump.try_alloc_slice_copy(&[1_u16, 2, 3]).expect("memory"),
            [1, 2, 3]
        );
        held(&bump, before);
        assert_eq!(
            bump.try_alloc_slice_fill_with(50, |at| at).expect("memory")[49],
            49
        );
        held(&bump, before);
        let aligned = bump
            .try_alloc_layout(Layout::from_size_align(33, 64).expect("a layout"))
            .expect("memory");
        assert!(aligned.addr().get().is_multiple_of(64));
        let now = held(&bump, before);
        chunks += usize::from(now > last);
        last = now;
    }
    assert!(chunks >= 3, "{chunks} chunks are no test");
    {
        // A collection that grows and moves inside.
        let mut list = TryVec::new_in(&bump);
        for at in 0..3000_u32 {
            list.try_push(at).expect("memory");
            held(&bump, before);
        }
        list.try_shrink_to_fit().expect("memory");
        held(&bump, before);
    }
    let peak = bump.context().usage().foreign(ForeignKind::Heap).peak_bytes;
    assert_eq!(peak, bump.bytes_held() as u64);
    bump.reset();
    let kept = held(&bump, before);
    assert!(
        kept > 0 && (kept as u64) < peak,
        "a reset keeps one chunk of several"
    );
    assert_eq!(
        root.usage().total(),
        routed,
        "none of it was routed, or in the budget"
    );
    drop(bump);
    assert_eq!(
        (
            LIVE.load(SeqCst),
            root.usage().foreign(ForeignKind::Heap).live_bytes
        ),
        (before, 0)
    );

    let bump = ForeignBump::try_with_capacity_in(10_000, root.handle()).expect("memory");
    assert!(held(&bump, before) >= 10_000);
    drop(bump);
    root.close_root().expect("nothing is left");
}

fn refusals_change_nothing() {
    let root = root();
    let before = LIVE.load(SeqCst);
    let bump = ForeignBump::new_in(root.handle());
    bump.try_alloc(1_u8).expect("memory");
    let small = held(&bump, before);

    // The bump's own limit.
    assert_eq!(bump.allocation_limit(), None);
    bump.set_allocation_limit(Some(2 * small));
    assert_eq!(bump.allocation_limit(), Some(2 * small));
    let refused = bump.try_alloc([7_u8; 5000]).expect_err("over the limit");
    assert_eq!(
        (refused.value, refused.error.is_out_of_host_memory()),
        ([7; 5000], true)
    );
    assert_eq!(held(&bump, before), small);
    let out = HostError::OutOfHostMemory {
        bytes: 5000,
        scope: Scope::Instance,
    };
    assert_eq!(
        bump.try_alloc_slice_fill_with(5000, |_| 0_u8)
            .expect_err("over the limit"),
        out
    );
    assert_eq!(
        bump.try_alloc_slice_copy(&[0_u8; 5000])
            .expect_err("over the limit"),
        out
    );
    let mut list = TryVec::<u8, _>::new_in(&bump);
    assert_eq!(
        list.try_reserve_exact(5000).expect_err("over the limit"),
        out
    );
    drop(list);
    assert_eq!(held(&bump, before), small);
    bump.set_allocation_limit(None);

    // The global allocator.
    REFUSES.store(true, SeqCst);
    let refused = bump
        .try_alloc([7_u8; 5000])
        .map(|_| ())
        .map_err(|refused| refused.error);
    let text = bump
        .try_alloc_layout(Layout::new::<[u64; 1000]>())
        .map(drop);
    let first = ForeignBump::try_with_capacity_in(100, root.handle()).map(drop);
    REFUSES.store(false, SeqCst);
    assert_eq!(refused, Err(out));
    assert!(text.is_err() && first.is_err());
    assert_eq!(held(&bump, before), small);
    assert_eq!(
        bump.try_alloc_slice_fill_with(usize::MAX / 8 + 3, |_| 0_u64),
        Err(HostError::TooLarge)
    );
    bump.try_alloc([7_u8; 5000]).expect("memory again");
    assert!(held(&bump, before) > small);
    drop(bump);
    root.close_root().expect("nothing is left");
}

fn a_panic_between_chunk_and_value_is_counted() {
    let root = root();
    std::panic::set_hook(Box::new(|_| ()));
    // The first panic leaves memory with the runtime.
    let _ = catch_unwind(|| panic!("once"));
    let before = LIVE.load(SeqCst);
    let bump = ForeignBump::new_in(root.handle());
    let made = catch_unwind(AssertUnwindSafe(|| {
        let _ = bump
            .try_alloc_slice_fill_with(1000, |at| if at == 500 { panic!("halfway") } else { at });
    }));
    drop(made.expect_err("it panicked"));
    assert!(
        held(&bump, before) >= 8000,
        "the chunk is there, and so it is declared"
    );
    drop(bump);
    let _ = std::panic::take_hook();
    root.close_root().expect("nothing is left");
}

fn the_declaration_follows_the_bump_to_another_thread() {
    let root = root();
    let bump = ForeignBump::new_in(root.handle());
    Allocator::allocate(&&bump, Layout::new::<[u64; 100]>()).expect("memory");
    let bump = thread::spawn(move || {
        bump.try_alloc([0_u8; 20_000]).expect("memory");
        bump
    });
    let bump = bump.join().expect("no panic");
    assert_eq!(
        root.usage().foreign(ForeignKind::Heap).live_bytes,
        bump.bytes_held() as u64
    );
    assert!(bump.bytes_held() > 20_000);
    thread::spawn(move || drop(bump)).join().expect("no panic");
    assert_eq!(root.usage().foreign(ForeignKind::Heap).live_bytes, 0);
    root.close_root().expect("nothing is left");
}
