//! Owned values: reached by id as long as they are there, and never by an id that is not theirs.
//!
//! Runs under miri.

use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::scene::{DropLog, charged, own, root_over};
use crate::witness::Witness;
use alloc_core::{
    AllocError, AllocatorTraits, Budget, Context, ContextOptions, HostAllocator, HostError, Misuse, Scope,
};

#[test]
fn every_held_value_is_passed_once_when_its_context_is_cleared_and_ends() {
    testkit::assert_linear("values, half of them held", 400, |count| {
        let witness = Witness::new();
        let root = root_over(&witness);
        let child = root.child("child").unwrap();
        let handle = child.handle();
        let old: Vec<_> = (0..count).map(|n| child.own(n).unwrap()).collect();
        let held: Vec<_> = (0..count).map(|n| child.own(n).unwrap()).collect();
        let holds: Vec<_> = held.iter().map(|id| handle.get(*id).unwrap()).collect();
        child.clear();
        let refused = HostError::Misuse(Misuse::Held);
        assert_eq!(root.steal(&child, held[0]), Err(refused));
        assert_eq!(root.adopt(&child), Err(refused));
        assert_eq!((child.owned_values(), child.get(old[0]).err()), (count, Some(HostError::Misuse(Misuse::NotOwned))));
        (0..count).for_each(|n| drop(handle.get(held[n])));
        drop(child);
        assert_eq!((*holds[count - 1], handle.owned_values()), (count - 1, 0));
        drop(holds);
        drop((handle, root));
        witness.assert_empty();
    });
}

#[test]
fn a_context_that_ends_keeps_what_is_held_and_takes_nothing() {
    let witness = Witness::new();
    let root = root_over(&witness);
    let child = root.child("child").unwrap();
    let handle = child.handle();
    let id = child.own(8).unwrap();
    own(&child, 9);
    let (first, second) = (handle.get(id).unwrap(), handle.get(id).unwrap());
    let left = child.close();
    assert_eq!((*first, handle.owned_values()), (8, 0));
    assert_eq!((left.blocks, left.handles), (1, 1), "{left}");
    assert!(handle.get(id).is_err());
    drop(first);
    assert_eq!(*second, 8);
    let context = handle.id();
    // A value without bytes needs no block, which would be refused first.
    let refused = handle.own(()).unwrap_err().error;
    assert_eq!(refused, HostError::Closed { context });
    drop(second);
    drop((handle, root));
    witness.assert_empty();
}

/// Panics at the request with this number, counted from 1.
struct Unwinding(Witness, AtomicUsize);

// SAFETY: the witness's blocks.
unsafe impl HostAllocator for Unwinding {
    fn traits(&self) -> AllocatorTraits {
        AllocatorTraits::new()
    }
    fn allocate(&self, layout: Layout, scope: Scope) -> Result<NonNull<u8>, AllocError> {
        assert_ne!(self.1.fetch_sub(1, Relaxed), 1, "on purpose");
        self.0.allocate(layout, scope)
    }
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout, scope: Scope) {
        // SAFETY: this function's contract: the block is the witness's.
        unsafe { self.0.deallocate(block, layout, scope) }
    }
}

#[test]
fn an_allocator_that_unwinds_leaves_nothing_behind() {
    let host = Unwinding(Witness::new(), AtomicUsize::new(usize::MAX));
    let log = DropLog::default();
    // SAFETY: dropped before the host.
    let root = unsafe {
        let options = ContextOptions::new("root").budget(Budget::exact(100_000));
        Context::root(&host, options)
    }
    .unwrap();
    let from = root.child("from").unwrap();
    for n in 0..20_u32 {
        from.own(n).unwrap();
    }
    let to = root.child("to").unwrap();
    let picture = || (charged(&root), host.0.blocks(), from.owned_values());
    let before = picture();
    for nth in [1, 2] {
        host.1.store(nth, Relaxed);
        let unwound = catch_unwind(AssertUnwindSafe(|| own(&root, log.value(1))));
        assert_eq!((unwound.is_err(), log.take()), (true, vec![1]));
        assert_eq!(picture(), before, "request {nth}");
        host.1.store(nth, Relaxed);
        assert!(catch_unwind(AssertUnwindSafe(|| to.adopt(&from))).is_err());
        assert_eq!(picture(), before, "request {nth}");
        let labelled = || ContextOptions::new("new").label("label");
        host.1.store(nth, Relaxed);
        let child = AssertUnwindSafe(|| root.child_with(labelled()).is_ok());
        assert!(catch_unwind(child).is_err());
        assert_eq!(picture(), before, "a child's request {nth}");
        host.1.store(nth, Relaxed);
        // SAFETY: the host outlives it.
        let other = AssertUnwindSafe(|| unsafe { Context::root(&host, labelled()) }.is_ok());
        assert!(catch_unwind(other).is_err());
        assert_eq!(picture(), before, "a root's request {nth}");
    }
    to.adopt(&from).unwrap();
    drop((from, to, root));
    host.0.assert_empty();
}
