//! Owned values: reached by id as long as they are there, and never by an id that is not theirs.
//!
//! Runs under miri.

use std::alloc::Layout;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::witness::Witness;
use alloc_core::{
    AllocError, AllocatorTraits, Budget, Context, ContextHandle, ContextOptions, HostAllocator,
    HostError, Misuse, Owned, Scope, TryVec,
};

/// Counts how many of it were destroyed.
struct CountedDrop(Arc<AtomicUsize>, u64);

impl Drop for CountedDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn root(witness: &Witness) -> Context {
    // SAFETY: every test drops the root, and what is below it, before the witness.
    unsafe { Context::root(witness, ContextOptions::new("root").scope(Scope::Object)) }.unwrap()
}

const fn misuse<T>(rule: Misuse) -> Result<T, HostError> {
    Err(HostError::Misuse(rule))
}

#[test]
fn a_value_has_a_block_of_exactly_its_size_and_none_where_it_has_no_size() {
    let witness = Witness::new();
    let root = root(&witness);
    root.own([0_u8; 100]).unwrap();
    let before = root.usage().scope(Scope::Object);
    let id = root.own([7_u8; 33]).unwrap();
    let after = root.usage().scope(Scope::Object);
    assert_eq!(
        (
            after.live_bytes - before.live_bytes,
            after.live_blocks - before.live_blocks
        ),
        (33, 1)
    );
    let none = root.own(()).unwrap();
    assert_eq!(root.usage().scope(Scope::Object), after);
    root.destroy(none).unwrap();
    root.destroy(id).unwrap();
    assert_eq!(
        root.usage().scope(Scope::Object).live_bytes,
        before.live_bytes
    );

    #[repr(align(256))]
    struct Aligned(u8);
    let aligned = root.own(Aligned(3)).unwrap();
    let value = root.get(aligned).unwrap();
    assert_eq!((std::ptr::from_ref(&*value).addr() % 256, value.0), (0, 3));
}

#[test]
fn a_refused_value_comes_back() {
    let witness = Witness::new();
    let root = root(&witness);
    let dropped = Arc::new(AtomicUsize::new(0));
    let exact = root
        .child_with(ContextOptions::new("exact").budget(Budget::exact(600)))
        .unwrap();
    let mut refused = 0;
    let mut ids = Vec::new();
    for round in 0..100 {
        let before = exact.usage().total();
        match exact.own([round; 20]) {
            Ok(id) => ids.push(id),
            Err(back) => {
                assert!(
                    matches!(back.error, HostError::OverBudget { context, .. } if context == exact.id()),
                    "{back:?}"
                );
                assert_eq!(
                    (back.value, exact.usage().total().live_bytes),
                    ([round; 20], before.live_bytes)
                );
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && !ids.is_empty());
    // With a destructor: the value is not destroyed behind the caller's back.
    while root.own([0_u8; 64]).is_ok() && root.owned_values() < 24 {}
    for nth in 0..2 {
        witness.refuse_in(nth);
        let back = root.own(CountedDrop(dropped.clone(), 5));
        if witness.disarm() {
            continue;
        }
        let back = back.unwrap_err();
        assert!(matches!(back.error, HostError::OutOfHostMemory { .. }));
        assert_eq!((back.value.1, dropped.swap(0, Relaxed)), (5, 0));
        drop(back);
        assert_eq!(dropped.swap(0, Relaxed), 1);
    }
    let handle = root.handle();
    drop((exact, root));
    let back = handle.own(()).unwrap_err();
    assert_eq!(
        back.error,
        HostError::Closed {
            context: handle.id()
        }
    );
}

#[test]
fn stale_ids_are_told_apart() {
    let witness = Witness::new();
    let root = root(&witness);
    let other = root.child("other").unwrap();
    let id = root.own(1_u64).unwrap();
    assert_eq!(
        other.get(id).err(),
        Some(HostError::Misuse(Misuse::OtherContext))
    );
    assert_eq!(other.remove(id), misuse(Misuse::OtherContext));
    other.own(9_u8).unwrap();
    assert_eq!(other.destroy(id), misuse(Misuse::OtherContext));

    // Taken, and its place used again by a value of another type.
    assert_eq!(root.remove(id), Ok(1));
    let next = root.own(String::from("next")).unwrap();
    assert_eq!(root.remove(id), misuse(Misuse::NotOwned));
    assert_eq!(
        root.get(id).err(),
        Some(HostError::Misuse(Misuse::NotOwned))
    );
    assert_eq!(
        root.get_mut(id).err(),
        Some(HostError::Misuse(Misuse::NotOwned))
    );
    assert_eq!(root.destroy(id), misuse(Misuse::NotOwned));
    assert_eq!(other.steal(&root, id), misuse(Misuse::NotOwned));
    assert_eq!(*root.get(next).unwrap(), "next");

    // Stolen: the old id is void, the new one holds.
    let moved = other.steal(&root, next).unwrap();
    assert_eq!(
        root.get(next).err(),
        Some(HostError::Misuse(Misuse::NotOwned))
    );
    assert_eq!(other.steal(&root, moved), misuse(Misuse::OtherContext));
    assert_ne!(moved, next);

    // Of a context that has ended, which a handle still names, and which another one follows at the same address.
    let dead = other.handle();
    drop(other);
    assert_eq!(
        dead.get(moved).err(),
        Some(HostError::Closed { context: dead.id() })
    );
    drop(dead);
    let again = root.child("again").unwrap();
    again.own(String::from("again")).unwrap();
    assert_eq!(
        again.get(moved).err(),
        Some(HostError::Misuse(Misuse::OtherContext))
    );
    drop((again, root));
    witness.assert_empty();
}

#[test]
fn every_held_value_is_passed_once_when_its_context_is_cleared_and_ends() {
    testkit::assert_linear("values, half of them held", 400, |count| {
        let witness = Witness::new();
        let root = root(&witness);
        let child = root.child("child").unwrap();
        let handle = child.handle();
        let old: Vec<_> = (0..count).map(|n| child.own(n).unwrap()).collect();
        let held: Vec<_> = (0..count).map(|n| child.own(n).unwrap()).collect();
        let holds: Vec<_> = held.iter().map(|id| handle.get(*id).unwrap()).collect();
        child.clear();
        assert_eq!(
            (child.owned_values(), child.get(old[0]).err()),
            (count, Some(HostError::Misuse(Misuse::NotOwned)))
        );
        (0..count).for_each(|n| drop(handle.get(held[n])));
        drop(child);
        assert_eq!((*holds[count - 1], handle.owned_values()), (count - 1, 0));
        drop(holds);
        drop((handle, root));
        witness.assert_empty();
    });
}

#[test]
fn what_is_held_stays() {
    let witness = Witness::new();
    let root = root(&witness);
    let other = root.child("other").unwrap();
    let id = root.own(5_u64).unwrap();
    let (first, second) = (root.get(id).unwrap(), root.get(id).unwrap());
    assert_eq!(root.remove(id), misuse(Misuse::Held));
    assert_eq!(root.destroy(id), misuse(Misuse::Held));
    assert_eq!(other.steal(&root, id), misuse(Misuse::Held));
    assert_eq!(other.adopt(&root), misuse(Misuse::Held));
    assert!(matches!(
        root.get_mut(id).err(),
        Some(HostError::Misuse(Misuse::Held))
    ));
    drop(first);
    assert_eq!((*second, root.remove(id)), (5, misuse(Misuse::Held)));
    drop(second);
    let mut alone = root.get_mut(id).unwrap();
    assert!(root.get(id).is_err() && root.get_mut(id).is_err() && root.remove(id).is_err());
    *alone += 1;
    drop(alone);
    assert_eq!(root.remove(id), Ok(6));
}

#[test]
fn a_context_that_ends_destroys_a_held_value_with_its_last_hold() {
    let witness = Witness::new();
    let root = root(&witness);
    let dropped = Arc::new(AtomicUsize::new(0));
    let child = root.child("child").unwrap();
    let handle = child.handle();
    let id = child.own(CountedDrop(dropped.clone(), 8)).unwrap();
    child.own(CountedDrop(dropped.clone(), 9)).unwrap();
    let (first, second) = (handle.get(id).unwrap(), handle.get(id).unwrap());
    let left = child.close();
    assert_eq!(
        (dropped.load(Relaxed), first.1, handle.owned_values()),
        (1, 8, 0)
    );
    assert_eq!((left.blocks, left.handles), (1, 1), "{left}");
    assert!(handle.get(id).is_err());
    drop(first);
    assert_eq!((dropped.load(Relaxed), second.1), (1, 8));
    drop(second);
    assert_eq!(dropped.load(Relaxed), 2);
    drop((handle, root));
    witness.assert_empty();
}

#[test]
fn a_forgotten_hold_keeps_the_value_only_as_long_as_the_context() {
    let witness = Witness::new();
    let root = root(&witness);
    let dropped = Arc::new(AtomicUsize::new(0));
    for mutably in [false, true] {
        let child = root.child("child").unwrap();
        let id = child.own(CountedDrop(dropped.clone(), 1)).unwrap();
        if mutably {
            std::mem::forget(child.get_mut(id).unwrap());
        } else {
            std::mem::forget(child.get(id).unwrap());
        }
        assert_eq!(child.destroy(id), misuse(Misuse::Held));
        drop(child);
    }
    assert_eq!(dropped.load(Relaxed), 2);
    drop(root);
    witness.assert_empty();
}

#[test]
fn a_value_may_hold_a_handle_of_its_own_context() {
    struct DropNode {
        home: ContextHandle,
        numbers: TryVec<u32, ContextHandle>,
        next: Option<Owned<DropNode>>,
    }
    let witness = Witness::new();
    let root = root(&witness);
    let child = root.child("graph").unwrap();
    let mut next = None;
    for n in 0..10_u32 {
        let numbers = TryVec::try_from_slice_in(&[n; 10], child.handle()).unwrap();
        next = Some(
            child
                .own(DropNode {
                    home: child.handle(),
                    numbers,
                    next,
                })
                .unwrap(),
        );
    }
    let mut sum = 0;
    while let Some(id) = next {
        let node = child.get(id).unwrap();
        assert_eq!(node.home.id(), child.id());
        sum += node.numbers.iter().sum::<u32>();
        next = node.next;
    }
    assert_eq!(sum, 450);
    drop(child);
    assert_eq!(
        root.subtree_usage().total().live_blocks,
        1,
        "the root's own record"
    );
    assert!(root.close_root().is_ok());
    witness.assert_empty();
}

#[test]
fn a_root_closes_over_what_goes_with_it_and_not_over_what_does_not() {
    let witness = Witness::new();
    let root = root(&witness);
    root.own([0_u64; 9]).unwrap();
    let id = root
        .own(TryVec::try_from_slice_in(&[1_u8], root.handle()).unwrap())
        .unwrap();
    // A value's own block and handle are not known to go with it.
    let refused = root.close_root().unwrap_err();
    assert_eq!(
        (
            refused.error.outstanding().blocks,
            refused.error.outstanding().handles,
            refused.error.outstanding().contexts
        ),
        (1, 1, 0)
    );
    let root = refused.value;
    assert_eq!(root.get(id).unwrap().as_slice(), [1]);
    root.clear();
    assert_eq!((root.owned_values(), root.is_closed()), (0, false));
    root.own(1_u8).unwrap();
    assert!(root.close_root().is_ok());
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

fn exact(parent: &Context, bytes: u64) -> Context {
    let options = ContextOptions::new("exact").budget(Budget::exact(bytes));
    parent.child_with(options).unwrap()
}

#[test]
fn a_freed_slot_is_used_again_where_the_table_may_not_grow() {
    let witness = Witness::new();
    let root = root(&witness);
    let (full, other) = (exact(&root, 1 << 20), exact(&root, 1 << 20));
    let ids: Vec<_> = (0..8_u32).map(|n| full.own(n).unwrap()).collect();
    full.set_limit(full.budget().unwrap().charged).unwrap();
    assert!(full.own(8_u32).is_err());
    full.destroy(ids[3]).unwrap();
    let owned = full.own(8_u32).unwrap();
    full.destroy(ids[5]).unwrap();
    let stolen = full.steal(&other, other.own(9_u32).unwrap()).unwrap();
    full.destroy(ids[0]).unwrap();
    other.own(10_u32).unwrap();
    full.adopt(&other).unwrap();
    assert_eq!((full.owned_values(), other.owned_values()), (8, 0));
    assert_eq!(
        (*full.get(owned).unwrap(), *full.get(stolen).unwrap()),
        (8, 9)
    );
    assert_eq!(full.remove(ids[5]), misuse(Misuse::NotOwned));
    drop((full, other, root));
    witness.assert_empty();
}

#[test]
#[cfg_attr(miri, ignore = "a thousand values take minutes")]
fn values_use_a_hard_budget_up_to_a_segment_of_the_table() {
    let witness = Witness::new();
    let root = root(&witness);
    let limited = exact(&root, 50_000);
    while limited.own(0_u64).is_ok() {}
    let used = limited.budget().unwrap().charged;
    assert!(used > 50_000 - 257 * 40, "{used} bytes");
    drop((limited, root));
    witness.assert_empty();
}

#[test]
fn an_allocator_that_unwinds_leaves_nothing_behind() {
    let host = Unwinding(Witness::new(), AtomicUsize::new(usize::MAX));
    let dropped = Arc::new(AtomicUsize::new(0));
    {
        // SAFETY: dropped before the host.
        let root = unsafe {
            Context::root(
                &host,
                ContextOptions::new("root").budget(Budget::exact(100_000)),
            )
        }
        .unwrap();
        let from = root.child("from").unwrap();
        for n in 0..20_u32 {
            from.own(n).unwrap();
        }
        let before = (root.budget(), host.0.blocks());
        for (nth, destroyed) in [(1, 1), (2, 2), (usize::MAX, 2)] {
            host.1.store(nth, Relaxed);
            let owned = catch_unwind(AssertUnwindSafe(|| {
                root.own(CountedDrop(dropped.clone(), 1)).map(drop)
            }));
            assert_eq!(
                (owned.is_err(), dropped.load(Relaxed)),
                (nth != usize::MAX, destroyed)
            );
            if owned.is_err() {
                assert_eq!(
                    (root.budget().map(|b| b.charged), host.0.blocks()),
                    (before.0.map(|b| b.charged), before.1)
                );
            }
        }
        let to = root.child("to").unwrap();
        let before = (root.budget().map(|b| b.charged), host.0.blocks());
        for nth in [1, 2] {
            host.1.store(nth, Relaxed);
            assert!(catch_unwind(AssertUnwindSafe(|| to.adopt(&from))).is_err());
            assert_eq!(
                (
                    root.budget().map(|b| b.charged),
                    host.0.blocks(),
                    from.owned_values()
                ),
                (before.0, before.1, 20)
            );
        }
        to.adopt(&from).unwrap();
    }
    assert_eq!(dropped.load(Relaxed), 3);
    host.0.assert_empty();
}
