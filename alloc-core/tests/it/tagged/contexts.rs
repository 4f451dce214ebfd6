//! What contexts have for C: soft budgets, and allocators that a root owns.

use std::alloc::System;
use std::cell::Cell;
use std::ptr::NonNull;

use alloc_core::{Budget, Context, ContextOptions, FromGlobalAlloc, HostError, Scope, TryVec};

use super::root;

#[test]
fn ca28_a_soft_budget_reports_and_refuses_nothing() {
    let root = root();
    let options = ContextOptions::new("soft").budget(Budget::soft(1000));
    let soft = root.child_with(options).expect("a child");
    let kept = TryVec::<u8, &Context>::try_with_capacity_in(900, &soft);
    let kept = kept.expect("within");
    let budget = || soft.budget().expect("made with one");
    assert!(budget().high <= 1000);
    let more = TryVec::<u8, &Context>::try_with_capacity_in(5000, &soft);
    drop(more.expect("a soft budget refuses nothing"));
    assert!(budget().high >= 5900, "{:?}", budget());
    drop(kept);
    assert_eq!(soft.set_limit(10), Ok(()));
    // A hard one above still holds.
    let hard = ContextOptions::new("hard").budget(Budget::exact(4000));
    let hard = root.child_with(hard).expect("a child");
    let options = ContextOptions::new("soft").budget(Budget::soft(1000));
    let below = hard.child_with(options).expect("a child");
    let refused = TryVec::<u8, &Context>::try_with_capacity_in(5000, &below);
    assert!(matches!(refused, Err(HostError::OverBudget { context, .. }) if context == hard.id()));
}

#[test]
fn a_root_drops_the_allocator_that_it_owns() {
    thread_local!(static DROPS: Cell<u32> = const { Cell::new(0) });
    /// Not without size: under miri a reference that is left to a freed one is seen.
    struct Own(FromGlobalAlloc<System>, Cell<bool>);
    // SAFETY: the test has one thread.
    unsafe impl Sync for Own {}
    impl Drop for Own {
        fn drop(&mut self) {
            assert!(!self.1.replace(true), "dropped once");
            DROPS.set(DROPS.get() + 1);
        }
    }
    // SAFETY: all is the system's.
    unsafe impl alloc_core::HostAllocator for Own {
        fn traits(&self) -> alloc_core::AllocatorTraits {
            self.0.traits()
        }
        fn allocate(&self, layout: std::alloc::Layout, scope: Scope) -> Result<NonNull<u8>, alloc_core::AllocError> {
            self.0.allocate(layout, scope)
        }
        unsafe fn deallocate(&self, block: NonNull<u8>, layout: std::alloc::Layout, scope: Scope) {
            // SAFETY: this function's contract: the block is the system's.
            unsafe { self.0.deallocate(block, layout, scope) }
        }
    }
    let root =
        Context::root_owned(Own(FromGlobalAlloc::SYSTEM, Cell::new(false)), ContextOptions::new("owner").label("l"));
    let root = root.map_err(|rejected| rejected.error).expect("a root");
    let child = root.child("child").expect("a child");
    let handle = child.handle();
    drop(child);
    let refused = root.close_root().expect_err("a handle is left");
    assert_eq!(refused.error.outstanding().bytes, 0);
    drop(refused.value);
    assert_eq!(DROPS.get(), 0, "the handle keeps the record, and with it the allocator");
    drop(handle);
    assert_eq!(DROPS.get(), 1);
    let refused = Context::root_owned(
        Own(FromGlobalAlloc::SYSTEM, Cell::new(false)),
        ContextOptions::new("short").budget(Budget::exact(10)),
    );
    assert!(matches!(refused, Err(rejected) if matches!(rejected.error, HostError::OverBudget { .. })));
    assert_eq!(DROPS.get(), 2);
}
