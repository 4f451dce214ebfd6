//! Values and contexts move whole, with their charges, or not at all.
//!
//! Runs under miri.

use std::alloc::Layout;

use crate::scene::{charged, layout, limited, root_over};
use crate::witness::Witness;
use alloc_core::{
    Arena, Budget, ContextOptions, FromAllocator, HostAllocator, HostError, Misuse, Scope, Scoped, fold_thread,
};

const fn misuse<T>(rule: Misuse) -> Result<T, HostError> {
    Err(HostError::Misuse(rule))
}

/// Between roots values move where the allocator is the same, contexts do not, and to another allocator nothing does.
#[test]
fn what_does_not_fit_together_is_refused_before_anything_changes() {
    let (witness, elsewhere) = (Witness::new(), Witness::new());
    let (root, twin, other) = (root_over(&witness), root_over(&witness), root_over(&elsewhere));
    // SAFETY: `elsewhere` outlives its blocks.
    let own = unsafe { FromAllocator::new(Scoped::new(&elsewhere, Scope::Object)) };
    // SAFETY: `own` outlives the tree.
    let backed = root.child_with(unsafe { ContextOptions::new("backed").allocator(&own) }).unwrap();
    let mut from = root.child("from").unwrap();
    let child = from.child("child").unwrap();
    let id = from.own(7_u32).unwrap();
    let before = (from.usage(), root.subtree_usage(), twin.usage());
    for to in [&backed, &other] {
        assert_eq!(to.steal(&from, id), misuse(Misuse::OtherBacking));
        assert_eq!(to.adopt(&from), misuse(Misuse::OtherBacking));
    }
    assert_eq!(from.reparent(&backed), misuse(Misuse::OtherBacking));
    assert_eq!(from.reparent(&other), misuse(Misuse::OtherTree));
    assert_eq!(twin.adopt(&from), misuse(Misuse::OtherTree));
    assert_eq!((from.usage(), root.subtree_usage(), twin.usage()), before);
    let id = twin.steal(&from, id).unwrap();
    assert_eq!(twin.remove(id), Ok(7));
    drop((child, from, backed, root, twin, other));
    witness.assert_empty();
    elsewhere.assert_empty();
}

#[test]
fn below_one_limit_nothing_needs_its_room_twice() {
    let witness = Witness::new();
    let root = root_over(&witness);
    for budget in [Budget::exact(40_000), Budget::limit(40_000)] {
        let above = limited(&root, budget);
        let (mut one, two) = (above.child("one").unwrap(), above.child("two").unwrap());
        two.own(()).unwrap();
        one.own(()).unwrap();
        let value = one.own([1_u8; 12_000]).unwrap();
        let mut arena = Arena::new_in(one.handle());
        arena.try_alloc_layout(Layout::new::<[u8; 18_000]>()).unwrap();
        fold_thread();
        assert!(charged(&above) > 30_000);
        arena.move_to(two.handle()).unwrap();
        let value = two.steal(&one, value).unwrap();
        one.adopt(&two).unwrap();
        one.reparent(&two).unwrap();
        assert!(two.get(value).is_err());
        fold_thread();
        assert_eq!(charged(&above), above.subtree_usage().total().live_bytes);
        assert!(above.budget().unwrap().high <= 40_000);
        drop((arena, one, two));
        fold_thread();
        assert_eq!((above.usage().total().live_bytes, charged(&above)), (0, 0));
    }
}

/// It is charged with all that is there, and with what ended contexts lost.
#[test]
fn a_first_budget_comes_when_nobody_else_can_use_what_it_comes_over() {
    let witness = Witness::new();
    let root = root_over(&witness);
    let limited = limited(&root, Budget::exact(25_000));
    let mut moving = root.child("moving").unwrap();
    moving.own([0_u8; 6000]).unwrap();
    let (handle, below) = (moving.handle(), moving.child("below").unwrap());
    let block = below.try_allocate(layout(700), Scope::Object).unwrap();
    assert_eq!(moving.reparent(&limited), misuse(Misuse::InUse));
    drop(handle);
    assert_eq!(moving.reparent(&limited), misuse(Misuse::InUse));
    drop(below);
    moving.reparent(&limited).unwrap();
    let live = limited.subtree_usage().total().live_bytes;
    assert!(live >= 6700, "the lost block counts: {live}");
    assert_eq!(charged(&limited), live);
    drop((moving, limited, root));
    // SAFETY: live, and its context is gone.
    unsafe { witness.deallocate(block, layout(700), Scope::Object) };
    witness.assert_empty();
}

#[test]
fn leases_follow_the_limits_above() {
    let witness = Witness::new();
    let root = root_over(&witness);
    let wide = limited(&root, Budget::limit(1 << 26));
    let tight = limited(&root, Budget::exact(6000));
    let mut moving = wide.child("moving").unwrap();
    let below = moving.child("below").unwrap();
    below.own([0_u8; 10]).unwrap();
    assert!(charged(&wide) > wide.subtree_usage().total().live_bytes, "a lease is out");
    moving.reparent(&tight).unwrap();
    // This thread's leases are no hindrance, and no new ones are given out.
    below.own([0_u8; 10]).unwrap();
    below.own([0_u8; 10]).unwrap();
    assert_eq!(charged(&tight), tight.subtree_usage().total().live_bytes);
    moving.reparent(&wide).unwrap();
    assert_eq!(charged(&tight), 0);
    below.own([0_u8; 10]).unwrap();
    assert!(charged(&wide) > wide.subtree_usage().total().live_bytes, "leases are given again");
    drop((below, moving));
    fold_thread();
    assert_eq!(charged(&wide), 0);
}
