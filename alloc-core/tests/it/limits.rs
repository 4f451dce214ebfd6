//! Budgets are hard, at the backing too, and say truly why they refuse.
//!
//! Runs under miri.

use std::alloc::Layout;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use crate::scene::{SYSTEM, charged, layout, limited, root};
use alloc_core::{
    AllocError, AllocatorTraits, Budget, Context, ContextOptions, Foreign, ForeignKind, HostAllocator, HostError,
    Misuse, Notice, Scope, TryVec,
};

/// Counts what it has given, can be made to refuse, and can stand still inside a free.
#[derive(Default)]
struct Gate {
    blocks: Mutex<BTreeMap<usize, Layout>>,
    panics: AtomicBool,
    live: AtomicU64,
    peak: AtomicU64,
    notices: AtomicU64,
    refuse: AtomicBool,
    stop_in_free: AtomicBool,
    inside: AtomicBool,
    go: AtomicBool,
}

// SAFETY: all blocks are the system's.
unsafe impl HostAllocator for Gate {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if self.refuse.load(SeqCst) {
            return Err(AllocError);
        }
        assert!(!self.panics.load(SeqCst), "an allocator with a bug");
        let block = SYSTEM.allocate(layout, scope)?;
        let live = self.live.fetch_add(layout.size() as u64, SeqCst) + layout.size() as u64;
        self.peak.fetch_max(live, SeqCst);
        self.blocks.lock().expect("no panic inside").insert(block.as_ptr().expose_provenance(), layout);
        Ok(block)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        if self.stop_in_free.swap(false, SeqCst) {
            self.inside.store(true, SeqCst);
            while !self.go.load(SeqCst) {
                thread::yield_now();
            }
        }
        self.live.fetch_sub(layout.size() as u64, SeqCst);
        self.blocks.lock().expect("no panic inside").remove(&block.as_ptr().addr());
        // SAFETY: this function's contract: the block is the system's.
        unsafe { SYSTEM.deallocate(block, layout, scope) }
    }
    fn notify(&self, _: Notice) {
        self.notices.fetch_add(1, SeqCst);
    }
}

/// What an abandoned tree left behind goes with its allocator.
impl Drop for Gate {
    fn drop(&mut self) {
        for (address, layout) in std::mem::take(self.blocks.get_mut().expect("no panic inside")) {
            let block = NonNull::new(std::ptr::with_exposed_provenance_mut(address)).expect("not null");
            // SAFETY: given by the system and not given back.
            unsafe { SYSTEM.deallocate(block, layout, Scope::Object) };
        }
    }
}

#[test]
fn a_limit_holds_while_another_thread_is_inside_a_free() {
    let gate = Gate::default();
    let root = root();
    let options = ContextOptions::new("c").budget(Budget::exact(1000));
    // SAFETY: the gate outlives everything below.
    let context = root.child_with(unsafe { options.allocator(&gate) }).expect("a child");
    let block = context.try_allocate(layout(600), Scope::Object).expect("a block").as_ptr().expose_provenance();
    gate.stop_in_free.store(true, SeqCst);
    thread::scope(|s| {
        s.spawn(|| {
            let block = NonNull::new(std::ptr::with_exposed_provenance_mut(block)).expect("not null");
            // SAFETY: the live block.
            unsafe { context.free(block, layout(600), Scope::Object) };
        });
        while !gate.inside.load(SeqCst) {
            thread::yield_now();
        }
        assert!(matches!(context.try_allocate(layout(600), Scope::Object), Err(HostError::OverBudget { .. })));
        gate.go.store(true, SeqCst);
    });
    assert_eq!((gate.peak.load(SeqCst), gate.live.load(SeqCst)), (600, 0));
}

#[test]
fn a_root_smaller_than_its_own_record_is_refused_before_anything_is_taken() {
    let gate = Gate::default();
    // SAFETY: the gate outlives the root, which is not even made.
    let refused = unsafe { Context::root(&gate, ContextOptions::new("root").budget(Budget::exact(100))) };
    let Err(HostError::OverBudget { context, short_by: 1.., .. }) = refused else {
        panic!("{refused:?}");
    };
    assert_ne!(context, root().id(), "the id is no other context's");
    assert_eq!(gate.peak.load(SeqCst), 0);
}

#[test]
fn a_growth_is_explained_by_what_was_missing() {
    let gate = Gate::default();
    let root = root();
    let options = ContextOptions::new("c").budget(Budget::exact(1500));
    // SAFETY: the gate outlives everything below.
    let context = root.child_with(unsafe { options.allocator(&gate) }).expect("a child");
    let mut bytes = TryVec::<u8, &Context>::try_with_capacity_in(1000, &context).expect("room");
    bytes.try_extend_from_slice(&[7; 1000]).expect("room was made");
    gate.refuse.store(true, SeqCst);
    assert!(matches!(bytes.try_reserve_exact(100), Err(HostError::OutOfHostMemory { bytes: 100, .. })));
    gate.refuse.store(false, SeqCst);
    match bytes.try_reserve_exact(600) {
        Err(HostError::OverBudget { short_by, .. }) => assert_eq!(short_by, 100),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_limit_can_be_changed() {
    let root = root();
    let context = limited(&root, Budget::exact(1000));
    let block = context.try_allocate(layout(800), Scope::Object).expect("a block");
    assert!(context.try_allocate(layout(800), Scope::Object).is_err());
    assert!(matches!(context.set_limit(799), Err(HostError::OverBudget { short_by: 1, .. })));
    context.set_limit(1600).expect("more");
    let second = context.try_allocate(layout(800), Scope::Object).expect("room now");
    // SAFETY: live blocks of this context.
    unsafe { context.free(block, layout(800), Scope::Object) };
    // SAFETY: a live block of this context.
    unsafe { context.free(second, layout(800), Scope::Object) };
    context.set_limit(0).expect("nothing is charged");
    assert!(matches!(context.try_allocate(layout(1), Scope::Object), Err(HostError::OverBudget { short_by: 1, .. })));
    assert_eq!(root.set_limit(1), Err(HostError::Misuse(Misuse::NoBudget)));
}

#[test]
fn no_limit_is_no_budget() {
    let root = root();
    let context = limited(&root, Budget::limit(u64::MAX));
    assert_eq!(context.budget(), None);
}

#[test]
fn an_abandoned_allocator_hears_of_nothing() {
    let gate = Gate::default();
    // SAFETY: the gate outlives the tree, and frees what is left when it goes.
    let root = unsafe { Context::root(&gate, ContextOptions::new("root")) }.expect("a root");
    let code = Foreign::declare(&root, ForeignKind::Executable, 100).expect("a statement");
    assert_eq!(root.abandon().foreign_bytes, 100);
    let handle = code.context().clone();
    drop(code);
    let live = handle.usage().foreign_total().live_bytes;
    assert_eq!((live, gate.notices.load(SeqCst)), (0, 1));
}

#[test]
fn an_abandoned_block_is_not_called_aligned_when_it_is_not() {
    let gate = Gate::default();
    // SAFETY: the gate outlives the tree, and frees what is left when it goes.
    let root = unsafe { Context::root(&gate, ContextOptions::new("root")) }.expect("a root");
    let handle = root.handle();
    let (old, new) = (Layout::from_size_align(64, 1).expect("ok"), Layout::from_size_align(32, 4096).expect("ok"));
    let blocks: Vec<_> = (0..4).map(|_| handle.try_allocate(old, Scope::Object).expect("a block")).collect();
    root.abandon();
    for block in blocks {
        // SAFETY: the live block with its layout.
        if let Ok(kept) = unsafe { HostAllocator::resize(&handle, block, old, new, Scope::Object) } {
            assert_eq!(kept.addr().get() % 4096, 0);
        }
        // SAFETY: the live block with its layout; the context only counts by now.
        unsafe { handle.free(block, old, Scope::Object) };
    }
}

/// Two allocators of a type without size are one: nothing tells them apart, so what is cut off from one is cut off from
/// the other.
#[test]
fn abandoning_a_type_without_size_cuts_off_all_that_draw_on_it() {
    thread_local! {
        static LIVE: RefCell<Vec<(NonNull<u8>, Layout)>> = const { RefCell::new(Vec::new()) };
    }
    struct Sizeless;
    // SAFETY: all blocks are the system's.
    unsafe impl HostAllocator for Sizeless {
        fn traits(&self) -> AllocatorTraits {
            SYSTEM.traits()
        }
        fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
            let block = SYSTEM.allocate(layout, scope)?;
            LIVE.with_borrow_mut(|live| live.push((block, layout)));
            Ok(block)
        }
        unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
            LIVE.with_borrow_mut(|live| live.retain(|known| known.0 != block));
            // SAFETY: this function's contract: the block is the system's.
            unsafe { SYSTEM.deallocate(block, layout, scope) };
        }
    }
    static ONE: Sizeless = Sizeless;
    static OTHER: Sizeless = Sizeless;
    let root = root();
    let top = root.child_with(ContextOptions::new("top").allocator_static(&ONE)).expect("a child");
    let apart = top.child_with(ContextOptions::new("apart").allocator_static(&SYSTEM)).expect("a child");
    let below = apart.child_with(ContextOptions::new("below").allocator_static(&OTHER)).expect("a child");
    let id = top.own(1_u32).expect("memory");
    let refused = apart.steal(&top, id);
    assert_eq!(refused, Err(HostError::Misuse(Misuse::OtherBacking)), "of no size, and another type");
    below.steal(&top, id).expect("one allocator, by another address");
    let blocks =
        [&top, &apart, &below].map(|context| context.try_allocate(layout(64), Scope::Object).expect("a block"));
    let handle = top.handle();
    top.abandon();
    let before = LIVE.with_borrow(Vec::len);
    for (context, block) in [&handle, &*apart, &*below].into_iter().zip(blocks) {
        // SAFETY: a live block of the context.
        unsafe { context.free(block, layout(64), Scope::Object) };
    }
    assert_eq!(LIVE.with_borrow(Vec::len), before, "the allocator is dead by whichever of its addresses");
    drop((below, apart, handle, root));
    for (block, layout) in LIVE.take() {
        // SAFETY: a block of the system's, which an abandoned allocator left where it was; all contexts are gone.
        unsafe { SYSTEM.deallocate(block, layout, Scope::Object) };
    }
}

#[test]
fn a_context_does_not_close_beside_a_handle_that_still_works() {
    let rounds = if cfg!(miri) { 3 } else { 300 };
    for _ in 0..rounds {
        let gate = Gate::default();
        // SAFETY: the gate outlives the tree: leaked blocks stay with it, and the root is abandoned where it cannot
        // close.
        let root = unsafe { Context::root(&gate, ContextOptions::new("root")) }.expect("a root");
        let handle = root.handle();
        let leaked = thread::scope(|s| {
            let leaker = s.spawn(move || handle.try_allocate(layout(8), Scope::Object).is_ok());
            let Err(refused) = root.close_root() else { panic!("closed with a block live") };
            assert!(leaker.join().expect("no panic"), "open until closed");
            let Err(refused) = refused.value.close_root() else { panic!("closed with a block lost") };
            refused.value.abandon();
            refused.error.outstanding().blocks
        });
        assert_eq!(leaked, 1);
    }
}

#[test]
fn a_panic_of_the_allocator_leaves_the_charge_as_it_was() {
    testkit::silence_panics("an allocator with a bug");
    let gate = Gate::default();
    let root = root();
    for budget in [Budget::exact(1 << 20), Budget::limit(1 << 20)] {
        let options = ContextOptions::new("c").budget(budget);
        // SAFETY: the gate outlives everything below.
        let context = root.child_with(unsafe { options.allocator(&gate) }).expect("a child");
        let block = context.try_allocate(layout(100), Scope::Object).expect("a block");
        let before = charged(&context);
        gate.panics.store(true, SeqCst);
        for bytes in [8, 200_000] {
            let attempt = std::panic::AssertUnwindSafe(|| context.try_allocate(layout(bytes), Scope::Object).is_ok());
            assert!(std::panic::catch_unwind(attempt).is_err());
            let zeroed = std::panic::AssertUnwindSafe(|| {
                HostAllocator::allocate_zeroed(&context, layout(bytes), Scope::Object).is_ok()
            });
            assert!(std::panic::catch_unwind(zeroed).is_err());
        }
        gate.panics.store(false, SeqCst);
        alloc_core::fold_thread();
        assert!(charged(&context) <= before, "{before} before, {:?}", context.budget());
        assert_eq!(charged(&context), 100);
        // SAFETY: the live block.
        unsafe { context.free(block, layout(100), Scope::Object) };
    }
}

#[test]
fn an_impossible_request_leaves_the_largest_budget_as_it_was() {
    let gate = Gate::default();
    let root = root();
    for budget in [Budget::limit(u64::MAX - 1), Budget::exact(u64::MAX - 1), Budget::limit(1 << 63)] {
        // SAFETY: the gate outlives everything below.
        let context =
            root.child_with(unsafe { ContextOptions::new("c").budget(budget).allocator(&gate) }).expect("a child");
        gate.refuse.store(true, SeqCst);
        for bytes in [isize::MAX as usize - 7, isize::MAX as usize / 2, isize::MAX as usize - 40_000] {
            let refused = context.try_allocate(Layout::from_size_align(bytes, 1).expect("a layout"), Scope::Object);
            assert!(matches!(refused, Err(HostError::OutOfHostMemory { .. })), "{bytes}: {refused:?}");
        }
        alloc_core::fold_thread();
        assert_eq!(charged(&context), 0);
    }
}

#[test]
fn lowering_a_limit_takes_this_threads_leases_back_first() {
    let root = root();
    let context = limited(&root, Budget::limit(64 << 20));
    let block = context.try_allocate(layout(1000), Scope::Object).expect("a block");
    assert!(charged(&context) > 1000, "something is leased");
    context.set_limit(1000).expect("what is live fits");
    assert!(matches!(context.set_limit(999), Err(HostError::OverBudget { short_by: 1, leased_elsewhere: 0, .. })));
    // SAFETY: the live block.
    unsafe { context.free(block, layout(1000), Scope::Object) };
}
