//! Why a request was refused is what was so when it was refused, whatever has changed when the reason is asked for.
//!
//! Runs under miri.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use crate::scene::{SYSTEM, layout, limited, root};
use alloc_core::{
    AllocError, Allocator, AllocatorTraits, Arena, Budget, Context, ContextOptions, HostAllocator, HostError,
    HostSource, Scope,
};

/// The backing refuses nothing here, so no refusal may be blamed on it, however soon the limit is higher again.
#[test]
fn a_refusal_names_the_budget_that_refused_although_the_limit_was_raised_since() {
    let root = root();
    for budget in [Budget::exact(1000), Budget::limit(1000)] {
        let context = limited(&root, budget);
        let below = context.child("below").map(drop);
        assert!(matches!(below, Ok(())), "800 bytes fit");
        let over = |short_by| HostError::OverBudget { context: context.id(), short_by, leased_elsewhere: 0 };
        let raised = |act: &dyn Fn()| {
            context.set_limit(1000).expect("nothing is live");
            act();
            context.set_limit(1 << 20).expect("more than before");
        };
        raised(&|| assert_eq!(HostAllocator::allocate(&context, layout(1500), Scope::Object), Err(AllocError)));
        assert_eq!(HostAllocator::refusal(&context, layout(1500), Scope::Object), over(500), "{budget:?}");
        raised(&|| assert_eq!(Allocator::allocate_zeroed(&&context, layout(1600)), Err(AllocError)));
        assert_eq!(HostSource::refusal(&&context, layout(1600)), over(600), "{budget:?}");

        let block = context.try_allocate(layout(400), Scope::Cache).expect("there is room");
        context.set_limit(1000).expect("400 are live");
        // SAFETY: the block just taken.
        let grown = unsafe { HostAllocator::resize(&context, block, layout(400), layout(1100), Scope::Cache) };
        context.set_limit(1 << 20).expect("more than before");
        assert_eq!(grown, Err(AllocError));
        assert_eq!(HostAllocator::refusal(&context, layout(700), Scope::Cache), over(100), "{budget:?}");
        // SAFETY: refused, it is as it was.
        unsafe { context.free(block, layout(400), Scope::Cache) };

        // Through a collection in an arena of the context: what is asked for is a chunk.
        let arena = Arena::new_in(&context);
        raised(&|| assert!(Allocator::allocate(&&arena, layout(5000)).is_err()));
        let error = (&arena).refusal(layout(5000));
        assert_eq!(error, over(4024), "{budget:?}");
    }
}

#[test]
fn a_refusal_says_closed_only_where_the_context_was_closed_then() {
    let root = root();
    let context = limited(&root, Budget::exact(1000));
    let handle = context.handle();
    assert!(HostAllocator::allocate(&handle, layout(1001), Scope::Object).is_err());
    drop(context);
    let error = HostAllocator::refusal(&handle, layout(1001), Scope::Object);
    assert!(matches!(error, HostError::OverBudget { short_by: 1, .. }), "{error:?}");
    assert!(HostAllocator::allocate(&handle, layout(1), Scope::Object).is_err());
    assert_eq!(HostAllocator::refusal(&handle, layout(1), Scope::Object), HostError::Closed { context: handle.id() });
}

/// Refuses by turns, and says why when it is asked: as of then, as an allocator without a memory of its refusals does.
#[derive(Default)]
struct Moody {
    refuses: AtomicBool,
    asked: AtomicU64,
}

// SAFETY: blocks are the system's.
unsafe impl HostAllocator for Moody {
    fn traits(&self) -> AllocatorTraits {
        SYSTEM.traits()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        if self.refuses.load(SeqCst) { Err(AllocError) } else { SYSTEM.allocate(layout, scope) }
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: this function's contract: the block is the system's.
        unsafe { SYSTEM.deallocate(block, layout, scope) }
    }
    fn refusal(&self, layout: Layout, _: Scope) -> HostError {
        assert_eq!(alloc_core::held_state_locks(), 0, "asked under a lock");
        self.asked.fetch_add(1, SeqCst);
        if self.refuses.load(SeqCst) {
            HostError::TooLarge
        } else {
            HostError::OutOfHostMemory { bytes: layout.size(), scope: Scope::Device }
        }
    }
}

#[test]
fn a_refusal_of_the_backing_is_its_own_reason_of_that_moment() {
    let moody = Moody::default();
    // SAFETY: the allocator outlives the root.
    let root = unsafe { Context::root(&moody, ContextOptions::new("root")) }.expect("memory");
    // A context that draws on a context asks it, and that one its backing.
    // SAFETY: the root outlives the child.
    let above = root.child_with(unsafe { ContextOptions::new("above").allocator(&root) }).expect("memory");
    for context in [&root, &above] {
        let block = context.try_allocate(layout(64), Scope::Object).expect("memory");
        let refused: [&dyn Fn() -> bool; 3] = [
            &|| HostAllocator::allocate(context, layout(10), Scope::Object).is_err(),
            &|| HostAllocator::allocate_zeroed(context, layout(10), Scope::Object).is_err(),
            &|| {
                // SAFETY: a live block, which a refused call leaves as it is.
                unsafe { HostAllocator::resize(context, block, layout(64), layout(74), Scope::Object) }.is_err()
            },
        ];
        for (number, refused) in refused.into_iter().enumerate() {
            moody.refuses.store(true, SeqCst);
            assert!(refused(), "request {number}");
            moody.refuses.store(false, SeqCst);
            let asked = moody.asked.load(SeqCst);
            assert_eq!(
                HostAllocator::refusal(context, layout(10), Scope::Object),
                HostError::TooLarge,
                "request {number}"
            );
            assert_eq!(moody.asked.load(SeqCst), asked, "nothing is asked twice");
        }
        // Another scope was refused nothing: there the answer is as of now.
        let now = HostAllocator::refusal(context, layout(10), Scope::Cache);
        assert_eq!(now, HostError::OutOfHostMemory { bytes: 10, scope: Scope::Device });
        // SAFETY: the live block.
        unsafe { context.free(block, layout(64), Scope::Object) };
    }
    drop(above);
    root.close_root().expect("nothing is left");
}

/// Moving a charge says what was missing when it was missing.
#[test]
fn a_move_that_is_refused_says_what_was_missing() {
    let root = root();
    let (from, to) = (root.child("from").expect("memory"), limited(&root, Budget::exact(1000)));
    let id = from.own([0_u8; 1500]).expect("memory");
    let empty = to.usage();
    let error = to.steal(&from, id).expect_err("500 bytes are short, or more with the table");
    assert!(
        matches!(error, HostError::OverBudget { context, short_by: 500.., leased_elsewhere: 0 } if context == to.id()),
        "{error:?}"
    );
    assert_eq!(to.usage(), empty, "no table was made either");
    let before = from.usage().total().live_bytes;
    let mut child = from.child("child").expect("memory");
    let node = from.usage().total().live_bytes - before;
    child.own([0_u8; 1500]).expect("memory");
    let all = child.usage().total().live_bytes + node;
    let error = child.reparent(&to).expect_err("it does not fit");
    assert_eq!(error, HostError::OverBudget { context: to.id(), short_by: all - 1000, leased_elsewhere: 0 });
    let mut arena = Arena::new_in(from.handle());
    arena.try_alloc([0_u8; 900]).expect("memory");
    arena.try_alloc([0_u8; 900]).expect("memory");
    let held = arena.bytes_held() as u64;
    let error = arena.move_to(to.handle()).expect_err("it does not fit");
    assert_eq!(error, HostError::OverBudget { context: to.id(), short_by: held - 1000, leased_elsewhere: 0 });
}
