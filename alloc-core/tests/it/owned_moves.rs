//! Values and contexts move whole, with their charges, or not at all.
//!
//! Runs under miri.

use std::alloc::Layout;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::witness::Witness;
use alloc_core::{
    Arena, Budget, Context, ContextHandle, ContextOptions, HostAllocator, HostError, Misuse, Owned,
    Scope, Scoped, TryVec, fold_thread,
};

fn root(witness: &Witness) -> Context {
    // SAFETY: every test drops the root, and what is below it, before the witness.
    unsafe { Context::root(witness, ContextOptions::new("root").scope(Scope::Object)) }.unwrap()
}

const fn misuse<T>(rule: Misuse) -> Result<T, HostError> {
    Err(HostError::Misuse(rule))
}

fn exact(parent: &ContextHandle, name: &'static str, bytes: u64) -> Context {
    parent
        .child_with(ContextOptions::new(name).budget(Budget::exact(bytes)))
        .unwrap()
}

fn charged(context: &ContextHandle) -> u64 {
    context.budget().unwrap().charged
}

fn short_of<T>(result: Result<T, HostError>) -> Option<(alloc_core::ContextId, u64)> {
    match result.err()? {
        HostError::OverBudget {
            context, short_by, ..
        } => Some((context, short_by)),
        other => panic!("{other}"),
    }
}

struct CountedMove(Arc<AtomicUsize>);

impl Drop for CountedMove {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

struct Named(Arc<Mutex<Vec<u32>>>, u32);

impl Drop for Named {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(self.1);
    }
}

// --- one value --------------------------------------------------------------------------------------------------------

#[test]
fn m6_steal_moves_one_value_with_its_block_and_its_charge() {
    let witness = Witness::new();
    let root = root(&witness);
    let (from, to) = (root.child("from").unwrap(), root.child("to").unwrap());
    to.own(()).unwrap();
    let id = from.own([5_u64; 100]).unwrap();
    let address = std::ptr::from_ref(&*from.get(id).unwrap()).addr();
    let (requests, before) = (
        witness.requests(),
        [from.usage().total(), to.usage().total()],
    );
    let id = to.steal(&from, id).unwrap();
    assert_eq!(
        witness.requests(),
        requests,
        "nothing was asked of the allocator"
    );
    assert_eq!(
        std::ptr::from_ref(&*to.get(id).unwrap()).addr(),
        address,
        "the block has not moved"
    );
    let after = [from.usage().total(), to.usage().total()];
    assert_eq!(
        (
            before[0].live_bytes - after[0].live_bytes,
            before[0].live_blocks - after[0].live_blocks
        ),
        (800, 1)
    );
    assert_eq!(
        (
            after[1].live_bytes - before[1].live_bytes,
            after[1].live_blocks - before[1].live_blocks
        ),
        (800, 1)
    );
    drop(from);
    assert_eq!(to.remove(id), Ok([5; 100]));
    drop((to, root));
    witness.assert_empty();
}

#[test]
fn m6_adopt_takes_all_values_and_children_in_their_order() {
    let witness = Witness::new();
    let root = root(&witness);
    let order = Arc::new(Mutex::new(Vec::new()));
    let (from, to) = (root.child("from").unwrap(), root.child("to").unwrap());
    let own = |context: &ContextHandle, n| context.own(Named(order.clone(), n)).unwrap();
    own(&to, 1);
    let (kept, newer) = (from.child("kept").unwrap(), from.child("newer").unwrap());
    own(&kept, 11);
    own(&newer, 12);
    let old: Vec<_> = (2..=20).map(|n| own(&from, n)).collect();
    let sum = root.subtree_usage().total();
    to.adopt(&from).unwrap();
    assert_eq!((from.owned_values(), to.owned_values()), (0, 20));
    assert_eq!(
        [&kept, &newer].map(|child| child.parent().map(|parent| parent.id())),
        [Some(to.id()); 2]
    );
    assert!(old.iter().all(|id| {
        from.get(*id)
            .is_err_and(|error| error == HostError::Misuse(Misuse::NotOwned))
    }));
    let grown = root.subtree_usage().total();
    assert_eq!(
        grown.live_blocks - sum.live_blocks,
        1,
        "a segment of the table"
    );
    drop(from);
    assert!(order.lock().unwrap().is_empty());
    assert_eq!(
        to.close().contexts,
        2,
        "owners keep the two, ended as they are"
    );
    let expected: Vec<u32> = [12, 11].into_iter().chain((1..=20).rev()).collect();
    assert_eq!(*order.lock().unwrap(), expected);
    drop((kept, newer, root));
    witness.assert_empty();
}

#[test]
fn what_does_not_fit_together_is_refused_before_anything_changes() {
    let (witness, elsewhere) = (Witness::new(), Witness::new());
    let root = root(&witness);
    // SAFETY: dropped before `elsewhere`.
    let other_root = unsafe {
        Context::root(
            &elsewhere,
            ContextOptions::new("elsewhere").scope(Scope::Object),
        )
    }
    .unwrap();
    let own = Scoped::new(&elsewhere, Scope::Object);
    // SAFETY: `elsewhere` outlives its blocks.
    let own = unsafe { alloc_core::FromAllocator::new(own) };
    let mut from = root.child("from").unwrap();
    let id = from.own(7_u32).unwrap();
    // SAFETY: `own` outlives the tree.
    let backed = root
        .child_with(unsafe { ContextOptions::new("backed").allocator(&own) })
        .unwrap();
    let cached = root
        .child_with(ContextOptions::new("cached").scope(Scope::Cache))
        .unwrap();
    let closed = root.child("closed").unwrap();
    let ended = closed.handle();
    drop(closed);
    let picture = || {
        (
            from.owned_values(),
            from.parent().map(|parent| parent.id()),
            from.usage(),
            root.subtree_usage(),
        )
    };
    let before = picture();
    for (to, error) in [
        (&*from, HostError::Misuse(Misuse::SameContext)),
        (&*backed, HostError::Misuse(Misuse::OtherBacking)),
        (&other_root, HostError::Misuse(Misuse::OtherBacking)),
        (&cached, HostError::Misuse(Misuse::OtherScope)),
        (
            &ended,
            HostError::Closed {
                context: ended.id(),
            },
        ),
    ] {
        assert_eq!(to.steal(&from, id), Err(error));
        assert_eq!(to.adopt(&from), Err(error));
        let owned = usize::from(to.id() == from.id());
        assert_eq!((to.owned_values(), picture()), (owned, before));
    }
    for (to, error) in [
        (&*backed, HostError::Misuse(Misuse::OtherBacking)),
        (&other_root, HostError::Misuse(Misuse::OtherTree)),
        (
            &ended,
            HostError::Closed {
                context: ended.id(),
            },
        ),
    ] {
        assert_eq!(from.reparent(to), Err(error));
        assert_eq!(
            (from.owned_values(), from.parent().map(|parent| parent.id())),
            (1, before.1)
        );
    }
    // A context keeps its scope, and its record the scope that it was taken in, which the witness checks.
    from.reparent(&cached).unwrap();
    assert_eq!(
        (
            from.scope(),
            from.parent().map(|parent| parent.id()),
            from.remove(id)
        ),
        (Scope::Object, Some(cached.id()), Ok(7))
    );
    drop((backed, cached, ended));
    assert!(from.is_closed());
    assert_eq!(
        from.reparent(&root),
        Err(HostError::Closed { context: from.id() })
    );
    drop((from, root, other_root));
    witness.assert_empty();
    elsewhere.assert_empty();
}

#[test]
fn values_move_between_roots_over_one_allocator_and_contexts_do_not() {
    let witness = Witness::new();
    let (one, other) = (root(&witness), root(&witness));
    let budgeted = exact(&other, "budgeted", 4000);
    let id = one.own([1_u8; 200]).unwrap();
    let id = budgeted.steal(&one, id).unwrap();
    assert_eq!(charged(&budgeted), budgeted.usage().total().live_bytes);
    let id = one.steal(&budgeted, id).unwrap();
    other.adopt(&one).unwrap();
    assert_eq!(
        (
            one.owned_values(),
            other.owned_values(),
            one.get(id).is_err()
        ),
        (0, 1, true)
    );
    let child = one.child("child").unwrap();
    assert_eq!(other.adopt(&one), misuse(Misuse::OtherTree));
    drop((child, one, budgeted, other));
    witness.assert_empty();
}

// --- budgets ----------------------------------------------------------------------------------------------------------

#[test]
fn m23_stealing_into_a_short_limit_is_refused() {
    let witness = Witness::new();
    let root = root(&witness);
    let limited = exact(&root, "limited", 10_000);
    let id = root.own([3_u8; 20_000]).unwrap();
    let before = (limited.usage(), root.usage(), charged(&limited));
    let (whose, short_by) = short_of(limited.steal(&root, id)).unwrap();
    assert!(whose == limited.id() && short_by >= 10_000, "{short_by}");
    assert_eq!((limited.usage(), root.usage(), charged(&limited)), before);
    limited.own(()).unwrap();
    let (_, short_by) = short_of(limited.steal(&root, id)).unwrap();
    assert_eq!(short_by, 20_000 - (10_000 - charged(&limited)));
    assert_eq!(root.get(id).unwrap()[0], 3);
}

#[test]
fn below_one_limit_nothing_needs_its_room_twice() {
    let witness = Witness::new();
    let root = root(&witness);
    for budget in [Budget::exact(40_000), Budget::limit(40_000)] {
        let above = root
            .child_with(ContextOptions::new("above").budget(budget))
            .unwrap();
        let (mut one, two) = (above.child("one").unwrap(), above.child("two").unwrap());
        two.own(()).unwrap();
        one.own(()).unwrap();
        let value = one.own([1_u8; 12_000]).unwrap();
        let mut arena = Arena::new_in(one.handle());
        arena
            .try_alloc_layout(Layout::new::<[u8; 18_000]>())
            .unwrap();
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

#[test]
fn a_context_moves_with_its_charge() {
    let witness = Witness::new();
    let root = root(&witness);
    for leased in [false, true] {
        let budget = |bytes| {
            if leased {
                Budget::limit(bytes)
            } else {
                Budget::exact(bytes)
            }
        };
        let above = root
            .child_with(ContextOptions::new("above").budget(budget(100_000)))
            .unwrap();
        let from = above
            .child_with(ContextOptions::new("from").budget(budget(50_000)))
            .unwrap();
        let to = above
            .child_with(ContextOptions::new("to").budget(budget(20_000)))
            .unwrap();
        let mut moving = from
            .child_with(ContextOptions::new("moving").label("with a label"))
            .unwrap();
        let below = moving.child("below").unwrap();
        moving.own([0_u8; 6000]).unwrap();
        let numbers = TryVec::try_from_slice_in(&[0_u8; 6000], &below).unwrap();
        let check = || {
            fold_thread();
            for context in [&above, &from, &to] {
                assert_eq!(
                    charged(context),
                    context.subtree_usage().total().live_bytes,
                    "{context:?}"
                );
            }
        };
        check();
        moving.reparent(&to).unwrap();
        assert_eq!(moving.parent().map(|parent| parent.id()), Some(to.id()));
        check();
        assert_eq!(charged(&from), 0);
        // What is allocated now is charged to the new chain, and refused by it.
        assert!(
            matches!(moving.own([0_u8; 9000]), Err(back) if matches!(back.error, HostError::OverBudget { context, .. } if context == to.id()))
        );
        // Back, where there is no room any more: refused, nothing changed.
        let filler = from.own([0_u8; 40_000]).unwrap();
        let before = (
            moving.parent().map(|parent| parent.id()),
            from.usage(),
            to.usage(),
        );
        let (whose, short_by) = short_of(moving.reparent(&from)).unwrap();
        assert!(whose == from.id() && short_by > 0);
        assert_eq!(
            (
                moving.parent().map(|parent| parent.id()),
                from.usage(),
                to.usage()
            ),
            before
        );
        check();
        from.destroy(filler).unwrap();
        moving.reparent(&from).unwrap();
        check();
        drop(numbers);
        drop((below, moving));
        check();
        assert_eq!(charged(&to), 0);
    }
    drop(root);
    witness.assert_empty();
}

#[test]
fn a_context_comes_below_its_first_budget_when_nobody_else_can_use_it() {
    let witness = Witness::new();
    let root = root(&witness);
    let limited = exact(&root, "limited", 25_000);
    let mut moving = root.child("moving").unwrap();
    moving.own([0_u8; 6000]).unwrap();
    // A handle is out, or a context is below: a thread could be allocating without asking the limit.
    let (handle, below) = (moving.handle(), moving.child("below").unwrap());
    assert_eq!(moving.reparent(&limited), misuse(Misuse::InUse));
    drop(handle);
    assert_eq!(moving.reparent(&limited), misuse(Misuse::InUse));
    assert_eq!(
        (moving.parent().map(|parent| parent.id()), charged(&limited)),
        (Some(root.id()), 0)
    );
    drop(below);
    moving.reparent(&limited).unwrap();
    let sum = |context: &ContextHandle| context.subtree_usage().total().live_bytes;
    assert_eq!(charged(&limited), sum(&limited));
    assert!(moving.own([0_u8; 11_500]).is_ok());
    assert_eq!(charged(&limited), sum(&limited));
    assert_eq!(
        short_of(moving.own([0_u8; 10_000]).map_err(|back| back.error))
            .unwrap()
            .0,
        limited.id()
    );
    // And out again, where there is no limit: what it holds stays written down, and comes back.
    moving.reparent(&root).unwrap();
    assert_eq!(charged(&limited), 0);
    let handle = moving.handle();
    moving.own([0_u8; 10_000]).unwrap();
    assert!(short_of(moving.reparent(&limited)).is_some());
    moving.clear();
    moving.reparent(&limited).unwrap();
    assert_eq!(charged(&limited), sum(&limited));
    drop((handle, moving));
    assert_eq!(charged(&limited), 0);
    drop((limited, root));
    witness.assert_empty();
}

#[test]
fn a_first_budget_is_charged_with_what_ended_contexts_lost() {
    let witness = Witness::new();
    let root = root(&witness);
    let limited = exact(&root, "limited", 25_000);
    let mut moving = root.child("moving").unwrap();
    let layout = Layout::new::<[u8; 700]>();
    let below = moving.child("below").unwrap();
    let block = below.try_allocate(layout, Scope::Object).unwrap();
    drop(below);
    moving.reparent(&limited).unwrap();
    let live = limited.subtree_usage().total().live_bytes;
    assert!(live >= 700, "the lost block counts: {live}");
    assert_eq!(charged(&limited), live);
    drop((moving, limited, root));
    // SAFETY: live, and its context is gone.
    unsafe { witness.deallocate(block, layout, Scope::Object) };
    witness.assert_empty();
}

#[test]
fn leases_follow_the_limits_above() {
    let witness = Witness::new();
    let root = root(&witness);
    let wide = root
        .child_with(ContextOptions::new("wide").budget(Budget::limit(1 << 26)))
        .unwrap();
    let tight = exact(&root, "tight", 6000);
    let mut moving = wide.child("moving").unwrap();
    let below = moving.child("below").unwrap();
    below.own([0_u8; 10]).unwrap();
    assert!(
        charged(&wide) > wide.subtree_usage().total().live_bytes,
        "a lease is out"
    );
    moving.reparent(&tight).unwrap();
    // This thread's leases are no hindrance, and no new ones are given out.
    below.own([0_u8; 10]).unwrap();
    below.own([0_u8; 10]).unwrap();
    assert_eq!(charged(&tight), tight.subtree_usage().total().live_bytes);
    moving.reparent(&wide).unwrap();
    assert_eq!(charged(&tight), 0);
    below.own([0_u8; 10]).unwrap();
    assert!(
        charged(&wide) > wide.subtree_usage().total().live_bytes,
        "leases are given again"
    );
    drop((below, moving));
    fold_thread();
    assert_eq!(charged(&wide), 0);
}

// --- cycles -----------------------------------------------------------------------------------------------------------

#[test]
fn a_circle_is_refused() {
    let witness = Witness::new();
    let root = root(&witness);
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut top = root.child("top").unwrap();
    let middle = top.child("middle").unwrap();
    let bottom = middle.child("bottom").unwrap();
    bottom.own(CountedMove(dropped.clone())).unwrap();
    for below in [top.handle(), middle.handle(), bottom.handle()] {
        assert_eq!(top.reparent(&below), misuse(Misuse::Cycle));
    }
    assert_eq!(bottom.adopt(&top), misuse(Misuse::Cycle));
    assert_eq!(middle.adopt(&top), misuse(Misuse::Cycle));
    let mut root = root;
    assert_eq!(root.reparent(&bottom), misuse(Misuse::IsARoot));
    assert_eq!(
        [&top, &middle, &bottom].map(|c| c.parent().map(|parent| parent.id())),
        [Some(root.id()), Some(top.id()), Some(middle.id())]
    );
    // To where it is: nothing to do.
    top.reparent(&root).unwrap();
    drop(top);
    assert_eq!(dropped.load(Relaxed), 1);
    drop((middle, bottom, root));
    witness.assert_empty();
}

#[test]
fn what_has_moved_ends_with_its_new_parent() {
    let witness = Witness::new();
    let root = root(&witness);
    let dropped = Arc::new(AtomicUsize::new(0));
    let (old, new) = (root.child("old").unwrap(), root.child("new").unwrap());
    let mut child = old.child("child").unwrap();
    let id: Owned<CountedMove> = child.own(CountedMove(dropped.clone())).unwrap();
    child.reparent(&new).unwrap();
    // The old parent's record is gone; the child's own comes from nowhere else.
    drop(old);
    let handle = child.handle();
    new.own(child).unwrap();
    assert!(handle.get(id).is_ok() && !handle.is_closed());
    drop(new);
    assert_eq!((dropped.load(Relaxed), handle.is_closed()), (1, true));
    drop(handle);
    assert!(root.close_root().is_ok());
    witness.assert_empty();
}
